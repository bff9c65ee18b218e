"""Start and stop of a volume service, which leaves nothing running when a part fails."""
import functools
import itertools
import queue
import threading
import uuid

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import periodic
from blockattach.platform.telemetry import threads as waiting
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.db import work as db_work
from blockattach.storage.db.services import pools
from blockattach.storage.domain import records
from blockattach.storage.drivers import faults
from blockattach.storage.volume import pacing
from blockattach.storage.volume import service
from blockattach.storage.volume import stats
from blockattach.storage.volume import volume_work
from blockattach.storage.volume import work_context
from blockattach.storage.work import runner
from blockattach.storage.work import verbs
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import polling
from blockattach.tests.functional import instances

# Timeout in seconds, which only a failing test reaches.
SECONDS = polling.LIMIT


class Daemon:
    """Target with a process of its own, around the target in memory."""

    def __init__(self, target, running=False):
        self._target = target
        self._running = self._has_process = running
        self.starts = 0
        self._refuses = False
        self.fault = None

    def __getattr__(self, name):
        return getattr(self._target, name)

    def start(self):
        self.starts += 1
        if self.fault is None or not self._refuses:
            self._running = self._has_process = True
        if self.fault is not None:
            raise self.fault

    def running(self):
        return self._running

    def has_process(self):
        return self._has_process

    def stop(self):
        # A check during the stop must find a running process, and not a hanging one.
        self._has_process = self._running = False

    def refuse(self):
        """Stop, and fail each start from now on."""
        self.fault, self._refuses = errors.ConfigurationError(reason='as planned'), True
        self.stop()

    def hang(self, hangs=True):
        self._running = not hangs


class Wiper:
    """Store that wipes deleted volumes, around the store in memory."""

    def __init__(self, store, wipe):
        self._store = store
        self.wipe = wipe

    def __getattr__(self, name):
        return getattr(self._store, name)


class Listener:
    """Stand-in for the RPC server of the service."""

    def __init__(self):
        self.listening = False
        self.fault = self.stop_fault = None

    def start(self):
        if self.fault is not None:
            raise self.fault
        self.listening = True

    def stop(self):
        self.listening = False
        if self.stop_fault is not None:
            raise self.stop_fault


class Acts(volume_work.VolumeWork):
    """Volume work with an additional verb that runs a function of the test."""

    def __init__(self, world):
        manager = world.instance.manager
        super().__init__(work_context.WorkContext(
            world.database, manager.backend, manager.leases,
            pacing.Pace(0, world.database.clock), instances.LEASE_SECONDS, world.schedulers,
            instances.LEASE_SECONDS))
        self.acts = {}

    @verbs.work('thing.test', deadline='create_seconds')
    def test(self, caller, claim):
        self.acts[claim.resource_id](caller)


class ServiceCase(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.target = self.world.backend.target

    def build(self, running=False, threads=2, ends_target=True, **acts):
        """Build a service.

        :param acts: functions that replace parts of the service, by name
        """
        world = self.world
        world.backend.target = self.daemon = Daemon(self.target, running)
        self.listener = Listener()
        self.reporter = stats.PoolReporter(world.database, world.backend, instances.HOST, 'nova',
                                           world.schedulers)
        self.work = Acts(world)
        self.runner = runner.Runner(
            world.database, [self.work], instances.HOST,
            world.instance.manager.leases.owner, lambda option: instances.LEASE_SECONDS,
            waiting.Threads().executor('volume-worker', threads), self.reporter.report)
        nothing = functools.partial(len, ())
        parts = service.Parts(
            instances.HOST, world.backend, self.runner, self.listener, self.reporter,
            world.instance.repairer, *(acts.get(name, nothing) for name in (
                'prepare', 'recover', 'reconcile', 'leave', 'heartbeat')), clocks.Clock())
        made = service.VolumeService(parts, volume_conf.VolumeSettings(), 60, ends_target)
        self.addCleanup(made.stop)
        return made

    def give(self, act, caller):
        """Start work that runs a function, and let the runner accept its message."""
        claim = records.Claim('thing', str(uuid.uuid4()), 'test', 1, None)
        self.work.acts[claim.resource_id] = act
        with self.world.database.writer() as writer:
            db_work.begin(writer, self.world.database, claim, instances.LEASE_SECONDS)
        self.assertTrue(self.runner.accept(
            caller, claim.noun, claim.verb, claim.resource_id, claim.generation))

    def assert_nothing_runs(self):
        self.assertFalse(self.listener.listening)
        self.assertEqual([], [thread.name for thread in threading.enumerate()
                              if thread.name.endswith(instances.HOST)
                              or thread.name.startswith('volume-worker')])


def words(said):
    """Return the level and the constant sentence of each log record."""
    return [f'{one.levelname} {one.getMessage().partition(" host=")[0]}' for one in said.records]


def fail(*_arguments):
    raise errors.ConfigurationError(reason='as planned')


class StartTest(ServiceCase):

    def begin_cases(self):
        """Yield the name of each step of a start, and a service whose step fails."""
        self.world.store.faults.plan('check', faults.Fault.REFUSED)
        yield 'store', self.build
        self.world.target.faults.plan('check', faults.Fault.REFUSED)
        yield 'target', self.build
        yield 'prepare', functools.partial(self.build, prepare=fail)
        yield 'heartbeat', functools.partial(self.build, heartbeat=fail)

    def test_failed_start_step_leaves_nothing_running(self):
        for found, ends in itertools.product((False, True), repeat=2):
            for name, build in self.begin_cases():
                with self.subTest(name, found=found, ends=ends):
                    made = build(found, ends_target=ends)
                    with self.assertRaises(errors.BlockattachError):
                        made.start()
                    self.assert_nothing_runs()
                    # A target that was already running has sessions of an earlier instance, so it
                    # keeps running.
                    self.assertEqual(found, self.daemon.running())
                    # The caller that built the service stops it, too.
                    made.stop()
                    self.assertEqual(found, self.daemon.running())

    def test_failed_target_or_listener_leaves_nothing_running(self):
        for name in ('daemon', 'listener'):
            with self.subTest(name):
                made = self.build()
                getattr(self, name).fault = errors.ConfigurationError(reason='as planned')
                with self.assertRaises(errors.ConfigurationError):
                    made.start()
                self.assert_nothing_runs()
                self.assertFalse(self.daemon.running())

    def test_service_listens_before_first_heartbeat(self):
        """A service that is reported up may be called."""
        heard = []
        made = self.build(prepare=lambda: heard.append(self.listener.listening),
                          heartbeat=lambda: heard.append(self.listener.listening))
        made.start()
        self.assertEqual([False, True], heard[:2])
        made.stop()
        self.assert_nothing_runs()
        self.assertFalse(self.daemon.running())

    def test_repeated_stop_without_start_keeps_target(self):
        made = self.build(True)
        made.stop()
        made.stop()
        self.assertTrue(self.daemon.running())


class TargetProcessTest(ServiceCase):

    def begun(self, **more):
        """Start a service and return it with a semaphore that counts its repair passes."""
        compared = threading.Semaphore(0)
        made = self.build(reconcile=compared.release, **more)
        made.start()
        self.assertTrue(compared.acquire(timeout=SECONDS))
        return made, compared

    def test_target_outlives_service_by_option(self):
        for found in (False, True):
            with self.subTest(found=found):
                made, _ = self.begun(running=found, ends_target=False)
                made.stop()
                self.assert_nothing_runs()
                self.assertTrue(self.daemon.running())

    def test_target_ends_with_service(self):
        for found in (False, True):
            with self.subTest(found=found):
                made, _ = self.begun(running=found)
                made.stop()
                self.assertFalse(self.daemon.running())

    def test_stalled_target_not_restarted(self):
        made, compared = self.begun()
        with self.assertLogs('blockattach.storage.volume.targets') as said:
            self.daemon.hang()
            self.wait_for(lambda: said.output)
            self.daemon.hang(False)
            # Exports whose repair failed during the hang are compared at once.
            self.assertTrue(compared.acquire(timeout=SECONDS))
        self.assertEqual(1, self.daemon.starts)
        self.assertEqual(['ERROR Target process stalled, waiting',
                          'INFO Target process recovered'], words(said))
        made.stop()

    @exhaustive.only
    def test_pools_down_while_target_does_not_answer(self):
        made, _ = self.begun()
        for fails, wrong in ((self.daemon.hang, 'the target does not answer'),
                             (self.daemon.refuse, 'the target is not running')):
            with self.subTest(wrong):
                self.assertEqual(None, self.reporter.wrong())
                self.assertTrue(self.is_up())
                fails()
                self.wait_for(lambda: not self.is_up())
                self.assertEqual(wrong, self.reporter.wrong())
                self.daemon.fault = None
                self.daemon.hang(False)
                self.wait_for(self.is_up)
        made.stop()

    def is_up(self):
        return all(one.usable for one in pools.list_all(self.world.database, SECONDS))

    @exhaustive.only
    def test_dead_target_restarted_also_after_stall(self):
        for hangs in (False, True):
            with self.subTest(hangs=hangs):
                made, compared = self.begun()
                with self.assertLogs('blockattach.storage.volume.targets') as said:
                    if hangs:
                        self.daemon.hang()
                        self.wait_for(lambda said=said: said.output)
                    self.daemon.stop()
                    self.assertTrue(compared.acquire(timeout=SECONDS))
                self.assertEqual(2, self.daemon.starts)
                self.assertEqual([
                    *(['ERROR Target process stalled, waiting'] if hangs else []),
                    'ERROR Target process died, restarting',
                    'INFO Target process recovered'], words(said))
                made.stop()

    @exhaustive.only
    def test_failed_target_restart_logged_once(self):
        made, compared = self.begun()
        with self.assertLogs('blockattach.storage.volume.targets') as said:
            self.daemon.refuse()
            self.wait_for(lambda: self.daemon.starts > 2)
            self.daemon.fault = None
            self.assertTrue(compared.acquire(timeout=SECONDS))
        self.assertEqual([
            'ERROR Target process died, restarting',
            'ERROR Failed to start target process, will retry',
            'INFO Target process recovered'], words(said))
        made.stop()


class WipeTest(ServiceCase):

    def test_store_wipes_until_service_stops(self):
        cleared = threading.Event()
        self.world.backend.store = Wiper(self.world.backend.store, cleared.set)
        made = self.build()
        made.start()
        self.assertTrue(cleared.wait(SECONDS))
        made.stop()
        self.assert_nothing_runs()


class PassesTest(ServiceCase):

    def test_repair_pass_does_not_wait_for_recovery(self):
        compared, free = threading.Event(), threading.Event()
        self.addCleanup(free.set)
        made = self.build(recover=free.wait, reconcile=compared.set)
        made.start()
        self.assertTrue(compared.wait(instances.WAIT_SECONDS))
        free.set()
        made.stop()
        self.assert_nothing_runs()


class StopTest(ServiceCase):

    def nothing_is_taken_on(self):
        try:
            self.give(lambda caller: None, self.world.caller)
        except RuntimeError:
            return True
        return False

    def test_stop_finishes_running_work_and_leaves_queued(self):
        made = self.build(threads=1)
        made.start()
        volumes = [self.world.ask_volume() for _ in range(2)]
        self.world.work.settle()
        free = self.world.store.faults.hold('create')
        before = self.world.store.faults.calls.get('create', 0)
        for volume in volumes:
            self.runner.accept(self.world.caller, 'volume', 'create', volume.id,
                               self.world.shown(volume).generation)
        self.until_held(self.world.store, 'create', before + 1)
        stopping = self.begin(made.stop)
        self.wait_for(lambda: not self.listener.listening)
        self.wait_for(self.nothing_is_taken_on)
        self.assertTrue(self.daemon.running())
        free.set()
        stopping.result(instances.WAIT_SECONDS)
        self.assert_nothing_runs()
        self.assertFalse(self.daemon.running())
        self.assertEqual(['available', 'creating'],
                         sorted(self.world.shown(volume).status for volume in volumes))
        self.world.start_instance()
        self.world.look()
        self.world.look()
        self.assert_agree()

    def test_stop_leaves_work_after_last_work_ended(self):
        running, free, story = threading.Event(), threading.Event(), []

        def work(caller):
            running.set()
            free.wait(instances.WAIT_SECONDS)
            story.append('ended')

        made = self.build(leave=lambda: story.append(
            ('left', self.listener.listening, self.daemon.running())))
        made.start()
        self.give(work, self.world.caller)
        self.assertTrue(running.wait(instances.WAIT_SECONDS))
        stopping = self.begin(made.stop)
        self.wait_for(lambda: not self.listener.listening)
        free.set()
        stopping.result(instances.WAIT_SECONDS)
        self.assertEqual(['ended', ('left', False, True)], story)

    def test_stop_waits_for_repair_pass(self):
        comparing, free = threading.Event(), threading.Event()

        def compare():
            comparing.set()
            free.wait(instances.WAIT_SECONDS)

        made = self.build(reconcile=compare)
        made.start()
        self.assertTrue(comparing.wait(instances.WAIT_SECONDS))
        stopping = self.begin(made.stop)
        self.wait_for(lambda: not self.listener.listening)
        self.assertTrue(self.daemon.running())
        free.set()
        stopping.result(instances.WAIT_SECONDS)
        self.assert_nothing_runs()

    def test_stop_continues_after_failed_part(self):
        made = self.build()
        made.start()
        self.listener.stop_fault = errors.ConfigurationError(reason='as planned')
        with self.assertRaises(errors.ConfigurationError):
            made.stop()
        self.listener.stop_fault = None
        self.assert_nothing_runs()
        self.assertFalse(self.daemon.running())


class WorkersTest(ServiceCase):

    def test_work_has_no_deadline_of_caller(self):
        """The caller has its answer by then, so its deadline must not limit the work."""
        seen = queue.SimpleQueue()
        self.build()
        self.addCleanup(self.runner.stop)
        caller = context.admin_context()
        caller.deadline = 0.0
        self.give(lambda who: seen.put(who.deadline), caller)
        self.assertIsNone(seen.get(timeout=instances.WAIT_SECONDS))


class PeriodicTest(instances.WorldTestCase):

    def test_failed_periodic_task_runs_again(self):
        calls = threading.Semaphore(0)

        def act():
            calls.release()
            raise ZeroDivisionError

        made = periodic.Periodic('failing', act, 3600, clocks.Clock())
        made.start()
        self.addCleanup(made.stop)
        for _ in range(3):
            self.assertTrue(calls.acquire(timeout=instances.WAIT_SECONDS))
            made.poke()
        made.stop()
        made.stop()
