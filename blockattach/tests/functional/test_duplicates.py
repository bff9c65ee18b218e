"""Duplicate, late and stale messages, for each method of each interface on the bus.

A broker delivers at least once, and a sender without an answer repeats its message. So each
message is sent twice, in turn and at the same moment, with the effect of one message. Each stale
message is sent once, and changes nothing.
"""
import dataclasses
import functools
import logging
import uuid
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_policy import opts as policy_options

from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.policy import enforcer
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import transport
from blockattach.storage import errors
from blockattach.storage import objects
from blockattach.storage.control import endpoint as control_endpoint
from blockattach.storage.db import models
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachments as attachment_verbs
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volumes as volume_verbs
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import binaries
from blockattach.storage.domain import pools
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.rpc import attachments as attachments_rpc
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.rpc import volume as volume_rpc
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances
from blockattach.wiring import rules as policy_rules

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_Own = volume_lifecycle.OwnStatus

LOGGER = f'{__name__}.levels'
INTERFACES = (volume_rpc.VolumeInterface, scheduler_rpc.SchedulerInterface,
              attachments_rpc.AttachmentsInterface, processes.ProcessInterface)


@dataclasses.dataclass(frozen=True)
class Case:
    """Message of one method.

    :ivar send: sends the message
    :ivar done: returns True if the effect of the message is there
    :ivar move_on: makes the message stale
    """

    send: Callable[[], Any]
    done: Callable[[], bool]
    move_on: Callable[[], Any]


class DuplicatesTest(instances.WorldTestCase):
    """Test case with a volume manager, a scheduler and a control service behind a bus."""

    def setUp(self):
        super().setUp()
        conf = cfg.ConfigOpts()
        conf([], project='blockattach', default_config_files=[], default_config_dirs=[])
        self.bus = transport.Bus(
            transport.build_transport(conf, f'inproc://{uuid.uuid4().hex}/'),
            rpc_conf.RpcSettings(), history.RELEASES)
        self.addCleanup(self.bus.close)
        policy_options.set_defaults(conf)
        # The first look of a scheduler resumes all waiting work.
        self.world.waiting.look()
        policy = enforcer.Enforcer(conf, policy_rules.list_rules())
        self.servers = [self.bus.server(endpoint, host) for endpoint, host in (
            (self.world.instance.manager, instances.HOST),
            (self.world.placing.endpoint, 'any'),
            (control_endpoint.AttachmentsEndpoint(policy, self.world.control, 1000), 'any'))]
        self.servers.append(processes.server(self.bus, 'x', instances.HOST))
        self.process = processes.client(self.bus, 'x', instances.HOST)
        for server in self.servers:
            server.start()
            self.addCleanup(server.stop)
        self.manager = volume_rpc.VolumeClients(self.bus).on(instances.HOST)
        self.schedulers = scheduler_rpc.client(self.bus)
        self.consumer = attachments_rpc.AttachmentsClient(self.bus)
        self.user = attachments_rpc.caller(make.PROJECT, make.USER, ['member', 'reader'])

    def settle(self):
        """Wait until the servers have handled all messages and their work."""
        for server in self.servers:
            server.stop()
            server.start()
        self.world.settle()

    def seen(self):
        """Return the rows, the store and the target, which a message could change."""
        world = self.world
        with world.database.reader() as reader:
            rows, volumes, grants = (reader.execute(table.select()).all() for table in (
                models.attachments, models.volumes, models.grants))
        return (
            sorted((row.id, row.state, row.connection) for row in rows),
            sorted((row.id, row.own_status, row.status, row.pool) for row in volumes),
            sorted((row.volume_id, row.initiator) for row in grants),
            sorted(world.store.sizes()),
            sorted((export.volume_id, grant.initiator, grant.mode)
                   for export in world.target.exports() for grant in export.grants),
            stored_pools.get(world.database, instances.POOL, instances.LEASE_SECONDS).allocated_gb)

    def generations(self):
        """Return the generation of each row."""
        with self.world.database.reader() as reader:
            return sorted((row.id, row.generation)
                          for table in (models.attachments, models.volumes)
                          for row in reader.execute(table.select()))

    # Preparations of the rows before a call.

    def waiting_volume(self):
        """Create a volume that no scheduler has received."""
        return make.volume(self.world.database, own_status=_Own.CREATING)

    def claimed_volume(self):
        """Create a volume claimed for the manager without a call.

        :returns: the volume, and its generation
        """
        made = self.waiting_volume()
        return made, self.claim(made, made.generation)

    def claim(self, volume, generation):
        """Claim a volume for the manager, and return the new generation."""
        service = services.get_by_host(self.world.database, binaries.VOLUME, instances.HOST, 60)
        return volume_verbs.claim(self.world.database, volume.id, generation, instances.POOL,
                                  service.uuid)

    def intent(self, event, row, host=None):
        """Record an event on an attachment without the call for it, and return the new row."""
        return attachment_verbs.move(
            self.world.database, row.volume_id, row.id, event, attachment_verbs.Facts(
                connector=host and instances.connector(host),
                lease_seconds=instances.LEASE_SECONDS)).new

    def status(self, volume):
        """Return the status of a volume, or 'gone' if it does not exist."""
        found = instances.outcome(self.world.shown, volume)
        return 'gone' if isinstance(found, errors.VolumeNotFound) else found.status

    def state(self, row):
        """Return the state of an attachment, also if it does not exist."""
        found = instances.outcome(self.world.again, row)
        return _State.GONE if isinstance(found, errors.AttachmentNotFound) else found.state

    # Cases, one per method.

    def volume_accept_work(self):
        volume, generation = self.claimed_volume()

        def come_back():
            self.claim(volume, volume_verbs.unclaim(self.world.database, volume.id, generation,
                                                    instances.LEASE_SECONDS))
        return Case(
            lambda: self.manager.accept_work(self.world.caller, 'volume', 'create', volume.id,
                                             generation),
            lambda: self.status(volume) == 'available', come_back)

    def volume_start_work(self):
        volume = self.world.volume()
        deleting = volume_verbs.start_delete(
            self.world.database, volume, instances.LEASE_SECONDS)

        def delete_again():
            work_ends.fail(self.world.database,
                           volume_verbs.deletion(volume.id, deleting.generation))
            volume_verbs.start_delete(self.world.database, volume, instances.LEASE_SECONDS)
        return Case(
            lambda: self.manager.start_work(self.world.caller, 'volume', 'delete', volume.id,
                                            deleting.generation),
            lambda: self.status(volume) == 'gone', delete_again)

    def extension(self):
        """Return a volume with a claimed extension, and its generation."""
        volume = self.world.volume()
        generation = extending.start(self.world.database, volume, 3, 'available',
                                     instances.LEASE_SECONDS)
        return volume, extending.claim(self.world.database, volume.id, generation,
                                       instances.POOL, 2)

    def extend_again(self, volume, generation):
        """Refuse the extension and start another one."""
        work_ends.refuse(self.world.database, 'extend', volume.id, generation)
        extending.start(self.world.database, volume, 2, 'available',
                        instances.LEASE_SECONDS)

    def volume_accept_extension(self):
        volume, generation = self.extension()
        return Case(
            lambda: self.manager.accept_work(self.world.caller, 'volume', 'extend', volume.id,
                                             generation),
            lambda: self.world.shown(volume).size_gb == 3,
            lambda: self.extend_again(volume, generation))

    def scheduler_place_extension(self):
        volume = self.world.volume()
        extending.start(self.world.database, volume, 3, 'available',
                        instances.LEASE_SECONDS)
        request = objects.VolumeRequest.from_domain(
            placing_facts.request(self.world.database, volume.id))
        return Case(
            lambda: self.schedulers.place_volume(self.world.caller, request),
            lambda: self.world.shown(volume).size_gb == 3,
            lambda: self.extend_again(volume, request.generation))

    def volume_connect(self):
        row = self.intent(_Event.CONNECT, self.world.reserve(self.world.volume()), 'one')
        return Case(
            lambda: self.manager.connect(self.world.caller, row.volume_id, row.initiator, row.id,
                                        row.generation),
            lambda: self.state(row) is _State.CONNECTED,
            lambda: self.world.update(row, 'two'))

    def volume_disconnect(self):
        row = self.world.attached(self.world.volume(), 'one')
        self.world.target.log_out(row.volume_id, row.initiator)
        deleting = self.intent(_Event.DISCONNECT, row)
        return Case(
            lambda: self.manager.disconnect(self.world.caller, row.volume_id, [row.initiator],
                                            row.id, deleting.generation),
            lambda: self.state(row) is _State.GONE,
            lambda: self.intent(_Event.REFUSED, deleting))

    def volume_ping(self):
        return Case(lambda: self.manager.ping(self.world.caller), lambda: True, lambda: None)

    def volume_host_reservation(self):
        row = self.world.attached(self.world.volume(), 'one')
        return Case(
            lambda: self.manager.host_reservation(self.world.caller, row.volume_id, row.initiator),
            lambda: True, lambda: self.world.delete(row))

    def volume_actual_grants(self):
        row = self.world.attached(self.world.volume(), 'one')
        return Case(lambda: self.manager.actual_grants(self.world.caller, row.volume_id),
                    lambda: True, lambda: self.world.delete(row))

    def volume_list_manageable(self):
        return Case(lambda: self.manager.list_manageable(self.world.caller, 'volume'),
                    lambda: True, lambda: None)

    def scheduler_place_volume(self):
        volume = self.waiting_volume()
        request = objects.VolumeRequest.from_domain(pools.request_of(volume, {}))
        return Case(
            lambda: self.schedulers.place_volume(self.world.caller, request),
            lambda: self.status(volume) == 'available',
            lambda: self.claim(volume, volume.generation))

    def scheduler_report_pools(self):
        report = objects.PoolsReport.from_capabilities(instances.HOST, {'pool': {}})
        return Case(lambda: self.schedulers.report_pools(self.world.caller, report),
                    lambda: True, lambda: None)

    def scheduler_judge_pools(self):
        kind = make.volume_type(self.world.database)
        request = objects.VolumeRequest.from_domain(
            pools.request_for(kind, 1, make.ZONE))
        return Case(lambda: self.schedulers.judge_pools(self.world.caller, request,
                                                        kind.id),
                    lambda: True, lambda: None)

    def volume_reconcile(self):
        volume = self.world.volume(multiattach=True)
        self.world.attached(volume, 'one')
        self.world.target.revoke(volume.id, instances.initiator_of('one'))
        return Case(lambda: self.manager.reconcile(self.world.caller, False),
                    lambda: list(self.world.granted(volume)) == [instances.initiator_of('one')],
                    self.world.instance.truth.repair)

    def attachments_create(self):
        volume = self.world.volume(multiattach=True)
        send = functools.partial(self.consumer.create, self.user, volume.id, str(uuid.uuid4()),
                                 instances.connector('one'), idempotency_key=uuid.uuid4().hex)
        return Case(send, lambda: len(self.world.rows(volume)) == 1,
                    lambda: self.world.delete(send()))

    def attachments_update(self):
        row = self.world.reserve(self.world.volume())
        return Case(
            lambda: self.consumer.update(self.user, row.id, instances.connector('one')),
            lambda: self.state(row) is _State.CONNECTED, lambda: self.world.delete(row))

    def attachments_complete(self):
        row = self.world.create(self.world.volume(), 'one')
        return Case(lambda: self.consumer.complete(self.user, row.id),
                    lambda: self.state(row) is _State.ATTACHED, lambda: self.world.delete(row))

    def attachments_complete_all(self):
        row = self.world.create(self.world.volume(), 'one')
        return Case(lambda: self.consumer.complete_all(self.user, [row.id]),
                    lambda: self.state(row) is _State.ATTACHED, lambda: self.world.delete(row))

    def attachments_get(self):
        row = self.world.create(self.world.volume(), 'one')
        return Case(lambda: self.consumer.get(self.user, row.id), lambda: True,
                    lambda: self.world.delete(row))

    def attachments_list(self):
        self.world.create(self.world.volume(), 'one')
        return Case(lambda: self.consumer.list(self.user), lambda: True, lambda: None)

    def attachments_delete(self):
        row = self.world.create(self.world.volume(), 'one')
        return Case(lambda: self.consumer.delete(self.user, row.id),
                    lambda: self.state(row) is _State.GONE, lambda: self.world.delete(row))

    def process_get_log_levels(self):
        return Case(lambda: self.process.get_log_levels(self.world.caller, LOGGER),
                    lambda: True, lambda: None)

    def process_set_log_levels(self):
        logger = logging.getLogger(LOGGER)
        self.addCleanup(logger.setLevel, logger.level)
        return Case(lambda: self.process.set_log_levels(self.world.caller, LOGGER, 'ERROR'),
                    lambda: logger.level == logging.ERROR, lambda: None)

    def prepared(self):
        """Yield the name and the preparation of a case for each method of each interface."""
        for interface in INTERFACES:
            for name in contract.methods(interface):
                yield f'{interface.TOPIC}_{name}', getattr(self, f'{interface.TOPIC}_{name}')
        # Work of other verbs by the same methods.
        yield 'volume_accept_extension', self.volume_accept_extension
        yield 'scheduler_place_extension', self.scheduler_place_extension

    def test_message_repeated_later_changes_nothing(self):
        for name, prepare in self.prepared():
            with self.subTest(name):
                case = prepare()
                case.send()
                self.settle()
                self.assertTrue(case.done())
                once = self.seen()
                instances.outcome(case.send)
                self.settle()
                self.assertEqual(once, self.seen())
                self.assert_agree()

    def test_message_duplicated_concurrently_takes_effect_once(self):
        for name, prepare in self.prepared():
            with self.subTest(name):
                case = prepare()
                self.at_once(case.send, case.send)
                self.settle()
                self.assertTrue(case.done())
                self.assert_agree()

    def test_stale_message_changes_nothing(self):
        for name, prepare in self.prepared():
            with self.subTest(name):
                case = prepare()
                case.move_on()
                self.settle()
                before = self.seen(), self.generations()
                instances.outcome(case.send)
                self.settle()
                self.assertEqual(before, (self.seen(), self.generations()))

    def test_create_delivered_twice_makes_one_attachment(self):
        """The consumer gives no idempotency key."""
        volume = self.world.volume(multiattach=True)
        recorder = Recorder(self.bus)
        made = attachments_rpc.AttachmentsClient(recorder).create(
            self.user, volume.id, str(uuid.uuid4()), instances.connector('one'))
        self.assertEqual(made.id, recorder.again().id)
        self.assertEqual([made.id], [row.id for row in self.world.rows(volume)])


class Recorder:
    """Bus that can deliver its last message once more."""

    def __init__(self, bus):
        self._bus = bus
        self.again = None

    def client(self, interface):
        invoke = self._bus.client(interface)

        def send(ctxt, name, /, **arguments):
            self.again = functools.partial(invoke, ctxt, name, **arguments)
            return self.again()
        return send
