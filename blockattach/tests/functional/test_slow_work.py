"""Long-running work, which delays no other work and stops with its process."""
import threading
import uuid

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.telemetry import threads as waiting
from blockattach.storage.db import work as db_work
from blockattach.storage.domain import records
from blockattach.storage.volume import pacing
from blockattach.storage.work import runner
from blockattach.storage.work import verbs
from blockattach.tests.functional import instances


class Acts:
    """Work whose operations are functions, with the long-running part in ``slow``."""

    def __init__(self):
        self.quick, self.slow = {}, {}

    @verbs.work('thing.test', deadline='create_seconds',
                failed=lambda self, claim, say: self.quick['failed'](claim))
    def test(self, caller, claim):
        if claim.resource_id in self.slow:
            return verbs.TakesLong(self.slow[claim.resource_id])
        return self.quick[claim.resource_id]()


class SlowWorkTest(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.acts, self.database = Acts(), self.world.database
        self.pace = pacing.Pace(1, self.database.clock)
        self.ended = threading.Event()

    def runner(self, slow=1):
        executor = waiting.Threads().executor
        made = runner.Runner(
            self.database, [self.acts], instances.HOST, f'{instances.HOST}/1',
            lambda option: instances.LEASE_SECONDS, executor('usual', 1), self.ended.set,
            slow=executor('slow', slow) if slow else None, stopping=self.pace.stop)
        self.addCleanup(made.stop)
        return made

    def begin_work(self):
        claim = records.Claim('thing', str(uuid.uuid4()), 'test', 1, None)
        with self.database.writer() as writer:
            db_work.begin(writer, self.database, claim, instances.LEASE_SECONDS,
                          instances.HOST, project_id='a-project')
        return claim

    def give(self, running, claim):
        self.assertTrue(running.accept(context.admin_context(), claim.noun, claim.verb,
                                       claim.resource_id, claim.generation))

    def of(self, claim):
        return db_work.of_resource(self.database, 'thing', claim.resource_id)

    def test_slow_work_delays_no_quick_work(self):
        running, free, begun = self.runner(), threading.Event(), threading.Event()
        self.addCleanup(free.set)
        long, other, quick = (self.begin_work() for _ in range(3))
        done = []
        self.acts.slow[long.resource_id] = lambda: (
            begun.set(), free.wait(instances.WAIT_SECONDS), done.append('long'))
        self.acts.slow[other.resource_id] = lambda: done.append('other')
        for claim in (long, other):
            self.give(running, claim)
        self.assertTrue(begun.wait(instances.WAIT_SECONDS))
        passed = threading.Event()
        self.acts.quick[quick.resource_id] = passed.set
        self.give(running, quick)
        # One worker thread is not occupied by long-running work.
        self.assertTrue(passed.wait(instances.WAIT_SECONDS))
        self.assertEqual([], done)
        self.assertLessEqual({long.resource_id, other.resource_id},
                             {claim.resource_id for claim in running.held()})
        free.set()
        self.wait_for(lambda: done == ['long', 'other'] and not running.held())

    def test_slow_work_deadline_renewed(self):
        running, free, begun = self.runner(), threading.Event(), threading.Event()
        self.addCleanup(free.set)
        long = self.begin_work()
        self.acts.slow[long.resource_id] = lambda: (
            begun.set(), free.wait(instances.WAIT_SECONDS))
        self.give(running, long)
        self.assertTrue(begun.wait(instances.WAIT_SECONDS))
        self.world.expire()
        self.assertGreater(self.of(long).overdue, 0)
        running.renew()
        self.assertLess(self.of(long).overdue, 0)

    def test_resumed_slow_work_handed_to_slow_thread(self):
        running, free = self.runner(), threading.Event()
        self.addCleanup(free.set)
        long = self.begin_work()
        self.acts.slow[long.resource_id] = lambda: free.wait(instances.WAIT_SECONDS)
        self.world.expire()
        self.assertTrue(running.resume(self.of(long)))
        self.assertFalse(running.resume(self.of(long)))
        self.assertEqual([long.resource_id], [one.resource_id for one in running.held()])

    def test_slow_work_without_slow_threads_runs_inline(self):
        running, long, done = self.runner(slow=0), self.begin_work(), []
        self.acts.slow[long.resource_id] = lambda: done.append(1)
        self.world.expire()
        self.assertTrue(running.resume(self.of(long)))
        self.assertEqual([1], done)

    def test_slow_work_interrupted_by_stop_due_at_once(self):
        running, begun = self.runner(), threading.Event()
        first, second = self.begin_work(), self.begin_work()
        copied = self.pace.of('a-volume', lambda: True)
        self.acts.slow[first.resource_id] = lambda: (begun.set(), copied(3600))
        self.acts.slow[second.resource_id] = lambda: self.fail('the work has started')
        for claim in (first, second):
            self.give(running, claim)
        self.assertTrue(begun.wait(instances.WAIT_SECONDS))
        self.wait_for(lambda: len(running.held()) == 2)
        running.stop()
        for claim in (first, second):
            found = self.of(claim)
            self.assertEqual((None, None), (found.owner, found.error))
            self.assertGreater(found.overdue, 0)

    def test_failed_slow_work_calls_failure_handler(self):
        running, long, failed = self.runner(), self.begin_work(), []
        self.acts.quick['failed'] = failed.append

        def refuse():
            raise errors.BackendRefused(reason='as planned')

        self.acts.slow[long.resource_id] = refuse
        self.give(running, long)
        self.wait_for(lambda: failed and not running.held())
        self.assertEqual(long.resource_id, failed[0].resource_id)
