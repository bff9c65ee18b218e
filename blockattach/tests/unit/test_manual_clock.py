"""Manual clock for tests."""
import datetime
import threading
import unittest

from blockattach.tests.fixtures import clock


class ManualClockTest(unittest.TestCase):

    def setUp(self):
        self.clock = clock.ManualClock(datetime.datetime(2026, 1, 1))
        self.event = threading.Event()
        self.answers = []

    def waiter(self, seconds):
        """Start a thread that waits for the clock."""
        thread = threading.Thread(
            target=lambda: self.answers.append(self.clock.wait(self.event, seconds)))
        self.addCleanup(thread.join)
        self.addCleanup(self.event.set)
        thread.start()
        self.assertTrue(self.clock.until_waiting())
        return thread

    def test_clock_does_not_advance_by_itself(self):
        self.assertEqual((self.clock.utcnow(), self.clock.monotonic()),
                         (datetime.datetime(2026, 1, 1), 0))

    def test_advance_moves_both_times(self):
        self.clock.advance(61.5)
        self.assertEqual((datetime.datetime(2026, 1, 1, 0, 1, 1, 500000), 61.5),
                         (self.clock.utcnow(), self.clock.monotonic()))

    def test_wait_ends_at_timeout(self):
        thread = self.waiter(60)
        self.clock.advance(59)
        self.assertEqual([], self.answers)
        self.clock.advance(1)
        thread.join()
        self.assertEqual([False], self.answers)

    def test_wait_ends_with_event(self):
        thread = self.waiter(60)
        self.event.set()
        thread.join()
        self.assertEqual([True], self.answers)

    def test_wait_for_set_event_returns_at_once(self):
        self.event.set()
        self.assertTrue(self.clock.wait(self.event, 60))

    def test_until_waiting_without_waiters_is_false(self):
        self.assertFalse(self.clock.until_waiting(seconds=0))
