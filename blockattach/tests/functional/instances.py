"""One backend in memory and the instances of its volume manager: each may die at any point.

The database, the store and the target outlive an instance, as they do in earnest.
`World.disagreements` says what does not agree in the end.
"""
import os
import random
import threading
import unittest
import uuid
from concurrent import futures

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.db import clock as db_clock
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments as attachment_verbs
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import invariants
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import checker
from blockattach.testing import backend
from blockattach.tests.fixtures import bus
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling
from blockattach.wiring import scheduler
from blockattach.wiring import volume

HOST = 'storage-1@fake'
POOL = f'{HOST}#pool'
LEASE_SECONDS = 3600.0
WAIT_SECONDS = polling.LIMIT
_OPTIONS = {
    'control': {'backend_seconds': LEASE_SECONDS, 'schedule_seconds': LEASE_SECONDS,
                'idempotency_key_seconds': LEASE_SECONDS},
    'volume': {'create_seconds': LEASE_SECONDS},
    'scheduler': {'placing_seconds': LEASE_SECONDS},
    'api': {'check_capabilities': 'off'},
}

S = lifecycle.State
RW, RO = connection.AccessMode.RW, connection.AccessMode.RO


class Death(BaseException):
    """The process is no more: nothing in it catches this."""


def die():
    """An action for a failpoint."""
    raise Death


class Instance:
    """One instance of a volume manager: nothing of it is handed to the next."""

    def __init__(self, world, host=HOST, service=None, clock=None, loaded=None):
        """``service``: its own name in the cluster ``host``, which others serve too; ``loaded``:
        another backend than that of the world.
        """
        name, (home, _, backend_name) = (service or host).partition('@')[0], host.partition('@')
        self.work = bus.Work()
        built = volume.build_manager(
            world.deployment.process(name, home if service else None, self.work, clock),
            backend_name, loaded or world.loaded)
        self.service, kept = built
        self.manager, self.recovery, self.truth, self.one_shot, self.repairer, self.runner = kept

    def look(self):
        """What comes round every few seconds."""
        return self.recovery.look() + self.truth.repair()


class World:
    """A deployment in this process, and one backend; `close` ends it.

    ``scheduler`` is what listens for schedulers: without it, nobody does.
    """

    def __init__(self, notifier=None, changed=None, on=None):
        """``notifier``: hears of what happens to attachments; without it nobody does. ``changed``:
        further options; ``on``: another backend."""
        self._databases = database.DatabaseFixture(warm=True)
        self.database = self._databases.database
        self.deployment = in_process.Deployment(
            self.database, changed={**_OPTIONS, **(changed or {})}, notifier=notifier)
        base, self.bus = self.deployment.base, self.deployment.bus
        self.work, self.managers = self.deployment.work, self.deployment.managers
        self.telemetry, self.notifications = base.telemetry, base.attachment_notifications
        self.backend = on or backend.FakeBackend()
        self.loaded = self.backend.loaded
        self.store, self.target = self.backend.fake_store, self.backend.fake_target
        self.placing = scheduler.build_placing(base)
        self.waiting = self.placing.waiting
        self.scheduler = self.bus.server(self.placing.endpoint, in_process.API_HOST)
        self.schedulers = scheduler_rpc.client(self.bus)
        handling = self.deployment.handling()
        self.control, self.volume_control = handling.attachments, handling.volumes
        self.snapshot_control = handling.snapshots
        self.placement_control = handling.placement
        self.image_control, self.managing_control = handling.images, handling.managing
        self.caller = context.RequestContext(project_id=make.PROJECT, user_id=make.USER)
        self._types = {}
        self.instance = None
        self.start_instance()
        self.scheduler.start()
        self.instance.look()

    def close(self):
        self.instance.repairer.stop()
        self._databases.close()

    def settle(self):
        """Let all that waits go on, and what follows from it."""
        for _ in range(5):
            self.work.settle()
            self.instance.work.settle()

    def start_instance(self):
        """The next instance; what the last one had taken on is forgotten."""
        if self.instance is not None:
            self.instance.repairer.stop()
        self.instance = Instance(self)
        self.instance.service.start()

    def volume(self, multiattach=False):
        """A volume that the store really has."""
        made = self.ask_volume(multiattach)
        self.settle()
        made = volume_queries.get(self.database, made.id)
        assert made.status == 'available', made.status
        return made

    def ask_volume(self, multiattach=False, progress=None):
        """A volume that waits to be placed. ``progress``: what its making is to remember."""
        kind = self._types.get(multiattach)
        if kind is None:
            kind = self._types[multiattach] = make.volume_type(self.database,
                                                               multiattach=multiattach)
        return self.volume_control.create(self.caller, None, None, 1, kind, None, {},
                                          progress=progress)

    def reserve(self, volume, mode=None, instance=None):
        return self.create(volume, None, mode, instance)

    def create(self, volume, host, mode=None, instance=None):
        """An attachment, for a new server where none is named."""
        return self.control.create(self.caller, volume, attachment_verbs.Wish(
            volume.id, volume.project_id, instance or str(uuid.uuid4()), mode,
            connector(host) if host else None))

    def attached(self, volume, host, mode=None):
        """An attachment in use, whose host has a session."""
        row = self.create(volume, host, mode)
        row = self.control.complete(self.caller, row)
        self.log_in(row)
        return row

    def log_in(self, row):
        """The mode that a row's host gets."""
        return self.target.log_in(row.volume_id, row.initiator, make.credential(
            self.database, row.volume_id, row.initiator))

    def update(self, row, host):
        return self.control.update(self.caller, self.again(row), connector(host))

    def delete(self, row):
        return self.control.delete(self.caller, self.again(row))

    def again(self, row):
        return attachment_queries.get(self.database, row.id)

    def rows(self, volume):
        return attachment_queries.of_volume(self.database, volume.id)

    def shown(self, volume):
        return volume_queries.get(self.database, volume.id)

    def expire(self):
        """Let every deadline pass."""
        with self.database.writer() as writer:
            for table in (models.attachments, models.work,
                          models.leases):
                writer.execute(table.update().where(table.c.deadline.is_not(None))
                               .values(deadline=db_clock.now(-1)))

    def look(self):
        """What comes round every few seconds, once every deadline has passed."""
        self.expire()
        self.instance.look()

    def granted(self, volume):
        """The target's grants of a volume: initiator to mode and sessions."""
        return {grant.initiator: (grant.mode, grant.sessions)
                for export in self.target.exports() if export.volume_id == volume.id
                for grant in export.grants}

    def disagreements(self):
        """What rows, target and store do not say alike, or do not say for good."""
        looking = checker.Checker(self.database, {HOST: self.target})
        facts = looking.facts()
        found = [f'{one.invariant}: {one.volume_id} {one.attachment_id} {one.said}'
                 for one in invariants.check(facts)]
        # The deadline of what nobody works on may be long in coming.
        found += [f'attachment {row.id} is {row.state}' for row in facts.attachments
                  if row.state in lifecycle.TRANSITIONAL]
        found += [f'volume {volume.id} is {volume.own_status}' for volume in facts.volumes
                  if volume.own_status not in ('available', 'error', 'error_deleting',
                                            'error_extending')]
        found += self._locked_out(facts)
        found += [f'snapshot {row.id} is {row.status}' for row in facts.snapshots if row.at_work]
        placed = {f'volume-{volume.id}': volume.size_gb for volume in facts.volumes
                  if volume.pool == POOL}
        stored = self.store.sizes()
        placed |= {name: stored.get(name) for name in (
            f'snapshot-{row.id}' for row in facts.snapshots if row.status == 'available')}
        return found + [f'{name} is not where it should be, or of another size'
                        for name, _ in placed.items() ^ stored.items()]

    def _locked_out(self, facts):
        """Initiators that are granted, and cannot log in with their credential."""
        found = []
        for volume_id, initiator in facts.wanted():
            secret = make.credential(self.database, volume_id, initiator)
            if secret is None or self.target.log_in(volume_id, initiator, secret) is None:
                found.append(f'{initiator} cannot log in to {volume_id}')
            else:
                self.target.log_out(volume_id, initiator)
        return found


def connector(host):
    """The connector of a host."""
    return make.connector(initiator_of(host), host)


def initiator_of(host):
    return f'iqn.2026-01.org.example:{host}'


def outcome(act, *arguments):
    """What an act returned, or the error of ours that it raised."""
    try:
        return act(*arguments)
    except errors.BlockattachError as exc:
        return exc


class WorldTestCase(unittest.TestCase):
    """A fresh world per test; no failpoint outlives it."""

    def setUp(self):
        super().setUp()
        self.world = self.a_world()

    def a_world(self, notifier=None):
        made = World(notifier)
        self.addCleanup(made.close)
        return made

    def dies_at(self, point, act):
        """Let the process die there, in an act or in what follows from it."""
        failpoints.arm(point, die)
        try:
            with self.assertRaises(Death, msg=point):
                act()
                self.settle()
        finally:
            failpoints.disarm(point)

    def settle(self):
        """Let what was begun go on until nothing is left to do now."""
        self.world.settle()

    def arm(self, name, action=die):
        failpoints.arm(name, action)
        self.addCleanup(failpoints.disarm, name)

    def random(self):
        """Chance that can be had again: from the seed that is printed."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)

    def wait_for(self, condition):
        """Wait until something is so that threads bring about."""
        polling.until(condition, tick=0.002)

    def at_once(self, *acts):
        """Begin all acts together; the outcomes in their order."""
        barrier = threading.Barrier(len(acts))

        def run(act):
            barrier.wait(WAIT_SECONDS)
            return outcome(act)

        with futures.ThreadPoolExecutor(len(acts)) as threads:
            return [running.result(WAIT_SECONDS)
                    for running in [threads.submit(run, act) for act in acts]]

    def begin(self, act, *arguments):
        """Begin one act in a thread; its future."""
        threads = futures.ThreadPoolExecutor(1)
        self.addCleanup(threads.shutdown)
        self.addCleanup(self.world.target.faults.clear)
        return threads.submit(outcome, act, *arguments)

    def until_held(self, driver, method, calls=1):
        """Until a driver's method was entered so often since `hold`."""
        self.wait_for(lambda: driver.faults.calls.get(method, 0) >= calls)

    def assert_agree(self, world=None):
        self.assertEqual([], (world or self.world).disagreements())
