"""Scheduler service: registration, requests over the bus, waiting volumes, and stop."""
import queue
import threading
import uuid

from oslo_config import cfg

from blockattach.platform import context
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import transport
from blockattach.storage import objects
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import binaries
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.scheduler import endpoint
from blockattach.storage.scheduler import flows
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placement
from blockattach.storage.scheduler import plugins
from blockattach.storage.scheduler import service
from blockattach.storage.scheduler import waiting
from blockattach.tests.db import base
from blockattach.tests.db import managers
from blockattach.tests.fixtures import clock as testing_clock
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

LIMIT = polling.LIMIT
SETTINGS = scheduler_conf.SchedulerSettings()
HERE = service_conf.ServiceSettings(host='here')


class SchedulerServiceTest(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.clock = testing_clock.ManualClock()
        self.heard = queue.Queue()
        conf = cfg.ConfigOpts()
        conf([], project='blockattach', default_config_files=[])
        self.bus = transport.Bus(
            transport.build_transport(conf, f'inproc://{uuid.uuid4().hex}/'),
            rpc_conf.RpcSettings(), history.RELEASES)
        self.addCleanup(self.bus.close)
        self.service = self.build()
        make.pool(self.database, 'one@b#p', 10)

    def build(self):
        def accept(database, host, volume_id, generation):
            taken_on = managers.accept(database, host, volume_id, generation)
            self.heard.put((host, volume_id))
            return taken_on
        chooser = pipeline.PoolChooser(
            self.database, plugins.load_filters(SETTINGS.filters),
            plugins.load_weighers(SETTINGS.weighers),
            HERE.service_down_time, self.clock)
        clients = managers.Managers(self.database, accept)
        placing = placement.Placement(self.database, lambda caller, request: flows.PlacingFlow(
            self.database, chooser, clients, SETTINGS, caller, request).run())
        looking = waiting.WaitingVolumes(self.database, placing, HERE.service_down_time,
                                         SETTINGS.placing_seconds, 'here/1')
        server = self.bus.server(endpoint.SchedulerEndpoint(placing, looking, chooser),
                                 HERE.host)
        presence = services.Presence(self.database, binaries.SCHEDULER, HERE.host, 'nova')
        return service.SchedulerService(server, looking, self.database,
                                        presence, HERE, SETTINGS, self.clock)

    def start(self):
        self.service.start()
        self.addCleanup(self.service.stop)

    def volume(self):
        return make.volume(self.database,
                           own_status=volume_lifecycle.OwnStatus.CREATING)

    def registered(self):
        return services.get_by_host(self.database, binaries.SCHEDULER, 'here',
                                    HERE.service_down_time)

    def test_bus_request_placed(self):
        self.start()
        asked = self.volume()
        scheduler_rpc.client(self.bus).place_volume(
            context.admin_context(), objects.VolumeRequest.from_domain(
                placing_facts.request(self.database, asked.id)))
        self.assertEqual(('one@b', asked.id), self.heard.get(timeout=LIMIT))
        self.assertEqual('one@b#p', volume_queries.get(self.database, asked.id).pool)

    def test_waiting_volumes_placed_at_start_and_periodically(self):
        asked = self.volume()
        volumes.claim(self.database, asked.id, asked.generation, 'one@b#p', None)
        volumes.unclaim(self.database, asked.id, asked.generation + 1, -1)
        make.pool(self.database, 'two@b#p', 10)
        self.start()
        self.assertEqual(('two@b', asked.id), self.heard.get(timeout=LIMIT))
        later = self.volume()
        volumes.claim(self.database, later.id, later.generation, 'two@b#p', None)
        volumes.unclaim(self.database, later.id, later.generation + 1, -1)
        self.assertTrue(self.clock.until_waiting(2))
        self.clock.advance(SETTINGS.waiting_interval)
        self.assertEqual(('one@b', later.id), self.heard.get(timeout=LIMIT))

    def test_scheduler_registers_and_sends_heartbeats(self):
        self.start()
        self.assertTrue(self.clock.until_waiting(2))
        before = self.registered()
        self.assertEqual((True, 'nova'), (before.up, before.availability_zone))
        self.clock.advance(HERE.report_interval)
        polling.until(lambda: self.registered().updated_at > before.updated_at)

    def test_stopped_scheduler_leaves_no_thread(self):
        before = set(threading.enumerate())
        self.service.start()
        names = {thread.name for thread in set(threading.enumerate()) - before}
        self.assertLessEqual({'scheduler-heartbeat', 'scheduler-waiting'}, names)
        self.service.stop()
        remaining = {thread.name for thread in set(threading.enumerate()) - before}
        self.assertFalse({name for name in remaining if name.startswith('scheduler')}, remaining)
