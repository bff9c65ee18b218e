"""Pool of request threads with its bounded queue."""
import threading
import unittest

from blockattach.platform.webserver import server
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT


class PoolTest(unittest.TestCase):
    """Pool of two threads with a queue of three, whose work ends when the test releases it."""

    def setUp(self):
        super().setUp()
        self.story = []
        self.held = {}
        self.pool = server.Pool('test', 2, 3, self.do)
        self.addCleanup(self.end)

    def end(self):
        for event in self.held.values():
            event.set()
        self.pool.end()

    def do(self, name):
        self.story.append(('begun', name))
        self.held[name].wait(2 * SECONDS)
        self.story.append(('done', name))
        if name == 'fails':
            raise ValueError(name)

    def put(self, name, until=10.0):
        self.held[name] = threading.Event()
        return self.pool.put(name, until)

    def release(self, name):
        self.held[name].set()
        polling.until(lambda: ('done', name) in self.story)

    def wait_for_use(self, busy, waiting):
        polling.until(lambda: self.pool.use()[1:] == (busy, waiting))

    def fill(self):
        """Occupy all threads and fill the queue."""
        for name in ('a', 'b'):
            self.assertTrue(self.put(name))
            polling.until(lambda name=name: ('begun', name) in self.story)
        for number, name in enumerate(('c', 'd', 'e')):
            self.assertTrue(self.put(name, until=10.0 + number))
        self.wait_for_use(2, 3)

    def begun(self):
        return [name for what, name in self.story if what == 'begun']

    def test_queued_work_started_in_order(self):
        self.fill()
        for ending, following in (('a', 'c'), ('b', 'd'), ('c', 'e')):
            self.release(ending)
            polling.until(lambda name=following: name in self.begun())
        self.assertEqual(['a', 'b', 'c', 'd', 'e'], self.begun())

    def test_work_beyond_queue_size_refused(self):
        self.fill()
        self.assertFalse(self.put('f'))
        self.wait_for_use(2, 3)

    def test_late_work_removed_from_queue(self):
        self.fill()
        self.assertEqual([], self.pool.late(9.0))
        self.assertEqual(['c', 'd'], self.pool.late(11.0))
        self.wait_for_use(2, 1)
        self.release('a')
        polling.until(lambda: 'e' in self.begun())
        self.assertEqual(['a', 'b', 'e'], self.begun())
        self.assertEqual([], self.pool.late(99.0))

    def test_thread_survives_failed_work(self):
        with self.assertLogs('blockattach.platform.webserver.server', 'ERROR'):
            self.put('fails')
            self.release('fails')
            self.wait_for_use(0, 0)
        self.fill()

    def test_end_runs_all_accepted_work(self):
        self.fill()
        self.pool.end()
        for event in self.held.values():
            event.set()
        polling.until(lambda: len(self.story) == 10)

    def test_concurrent_puts_all_run(self):
        done = []
        made = server.Pool('many', 4, 1000, done.append)
        coming = [threading.Thread(target=lambda part=part: [made.put(one, 0.0) for one in part])
                  for part in (range(100), range(100, 200), range(200, 300))]
        for thread in coming:
            thread.start()
        for thread in coming:
            thread.join()
        polling.until(lambda: len(done) == 300)
        made.end()
        self.assertEqual(set(range(300)), set(done))
        polling.until(lambda: made.use()[1:] == (0, 0))
