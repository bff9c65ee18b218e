"""Backend in memory, and instances of its volume manager that may die at any failpoint.

The database, the store and the target outlive an instance, as in a real deployment.
`World.disagreements` returns their differences at the end of a test.
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
    """Death of the process, which no code of the process catches."""


def die():
    """Action of a failpoint that simulates a process death."""
    raise Death


class Instance:
    """Instance of a volume manager, which passes nothing to the next one."""

    def __init__(self, world, host=HOST, service=None, clock=None, loaded=None):
        """Build an instance.

        :param service: host of the instance as a member of the cluster ``host``
        :param loaded: other backend than that of the world
        """
        name, (home, _, backend_name) = (service or host).partition('@')[0], host.partition('@')
        self.work = bus.Work()
        built = volume.build_manager(
            world.deployment.process(name, home if service else None, self.work, clock),
            backend_name, loaded or world.loaded)
        self.service, kept = built
        self.manager, self.recovery, self.truth, self.one_shot, self.repairer, self.runner = kept

    def look(self):
        """Run the periodic passes once, and return what they have found."""
        return self.recovery.look() + self.truth.repair()


class World:
    """Deployment in this process with one backend. `close` ends it.

    :ivar scheduler: RPC server of a scheduler. Without it, no scheduler receives messages
    """

    def __init__(self, notifier=None, changed=None, on=None):
        """Build the deployment.

        :param notifier: receiver of the notifications, if there is one
        :param changed: additional options
        :param on: other backend
        """
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
        """Run the queued work, and the work that it queues."""
        for _ in range(5):
            self.work.settle()
            self.instance.work.settle()

    def start_instance(self):
        """Start the next instance without the queued work of the previous one."""
        if self.instance is not None:
            self.instance.repairer.stop()
        self.instance = Instance(self)
        self.instance.service.start()

    def volume(self, multiattach=False):
        """Create a volume, wait until it is available, and return its row."""
        made = self.ask_volume(multiattach)
        self.settle()
        made = volume_queries.get(self.database, made.id)
        assert made.status == 'available', made.status
        return made

    def ask_volume(self, multiattach=False, progress=None):
        """Create the row of a volume that waits for its placement.

        :param progress: progress of the create that its work item records
        """
        kind = self._types.get(multiattach)
        if kind is None:
            kind = self._types[multiattach] = make.volume_type(self.database,
                                                               multiattach=multiattach)
        return self.volume_control.create(self.caller, None, None, 1, kind, None, {},
                                          progress=progress)

    def reserve(self, volume, mode=None, instance=None):
        return self.create(volume, None, mode, instance)

    def create(self, volume, host, mode=None, instance=None):
        """Create an attachment, for a new server if none is given."""
        return self.control.create(self.caller, volume, attachment_verbs.Wish(
            volume.id, volume.project_id, instance or str(uuid.uuid4()), mode,
            connector(host) if host else None))

    def attached(self, volume, host, mode=None):
        """Create an attachment, complete it, and log its host in."""
        row = self.create(volume, host, mode)
        row = self.control.complete(self.caller, row)
        self.log_in(row)
        return row

    def log_in(self, row):
        """Log the host of an attachment in, and return the mode or None."""
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
        """Set every deadline to a second ago."""
        with self.database.writer() as writer:
            for table in (models.attachments, models.work,
                          models.leases):
                writer.execute(table.update().where(table.c.deadline.is_not(None))
                               .values(deadline=db_clock.now(-1)))

    def look(self):
        """Run the periodic passes once, after every deadline."""
        self.expire()
        self.instance.look()

    def granted(self, volume):
        """Return mode and sessions of the grants of a volume by initiator."""
        return {grant.initiator: (grant.mode, grant.sessions)
                for export in self.target.exports() if export.volume_id == volume.id
                for grant in export.grants}

    def disagreements(self):
        """Return the differences between rows, target and store, and all work in progress."""
        looking = checker.Checker(self.database, {HOST: self.target})
        facts = looking.facts()
        found = [f'{one.invariant}: {one.volume_id} {one.attachment_id} {one.said}'
                 for one in invariants.check(facts)]
        # The invariants ignore work in progress until its deadline, which may be far in the
        # future.
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
        """Return the granted initiators that cannot log in with their credential."""
        found = []
        for volume_id, initiator in facts.wanted():
            secret = make.credential(self.database, volume_id, initiator)
            if secret is None or self.target.log_in(volume_id, initiator, secret) is None:
                found.append(f'{initiator} cannot log in to {volume_id}')
            else:
                self.target.log_out(volume_id, initiator)
        return found


def connector(host):
    return make.connector(initiator_of(host), host)


def initiator_of(host):
    return f'iqn.2026-01.org.example:{host}'


def outcome(act, *arguments):
    """Return the result of a function, or the error of the service that it raised."""
    try:
        return act(*arguments)
    except errors.BlockattachError as exc:
        return exc


class WorldTestCase(unittest.TestCase):
    """Test case with a new world. All failpoints are disarmed after the test."""

    def setUp(self):
        super().setUp()
        self.world = self.a_world()

    def a_world(self, notifier=None):
        made = World(notifier)
        self.addCleanup(made.close)
        return made

    def dies_at(self, point, act):
        """Check that the process dies at a failpoint in a function or in the work that follows."""
        failpoints.arm(point, die)
        try:
            with self.assertRaises(Death, msg=point):
                act()
                self.settle()
        finally:
            failpoints.disarm(point)

    def settle(self):
        """Run the queued work until none is left."""
        self.world.settle()

    def arm(self, name, action=die):
        failpoints.arm(name, action)
        self.addCleanup(failpoints.disarm, name)

    def random(self):
        """Return a random generator whose seed is printed, or taken from BLOCKATTACH_TEST_SEED."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)

    def wait_for(self, condition):
        """Wait until other threads have made a condition true."""
        polling.until(condition, tick=0.002)

    def at_once(self, *acts):
        """Run the functions at once and return their outcomes in order."""
        barrier = threading.Barrier(len(acts))

        def run(act):
            barrier.wait(WAIT_SECONDS)
            return outcome(act)

        with futures.ThreadPoolExecutor(len(acts)) as threads:
            return [running.result(WAIT_SECONDS)
                    for running in [threads.submit(run, act) for act in acts]]

    def begin(self, act, *arguments):
        """Start a function in a thread and return a future of its outcome."""
        threads = futures.ThreadPoolExecutor(1)
        self.addCleanup(threads.shutdown)
        self.addCleanup(self.world.target.faults.clear)
        return threads.submit(outcome, act, *arguments)

    def until_held(self, driver, method, calls=1):
        """Wait until a method of a driver was called a number of times since `hold`."""
        self.wait_for(lambda: driver.faults.calls.get(method, 0) >= calls)

    def assert_agree(self, world=None):
        self.assertEqual([], (world or self.world).disagreements())
