"""The clock that tests move."""
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
        """A thread that waits for this clock."""
        thread = threading.Thread(
            target=lambda: self.answers.append(self.clock.wait(self.event, seconds)))
        self.addCleanup(thread.join)
        self.addCleanup(self.event.set)
        thread.start()
        self.assertTrue(self.clock.until_waiting())
        return thread

    def test_it_stands(self):
        self.assertEqual((self.clock.utcnow(), self.clock.monotonic()),
                         (datetime.datetime(2026, 1, 1), 0))

    def test_both_times_move_together(self):
        self.clock.advance(61.5)
        self.assertEqual((datetime.datetime(2026, 1, 1, 0, 1, 1, 500000), 61.5),
                         (self.clock.utcnow(), self.clock.monotonic()))

    def test_a_waiting_thread_wakes_when_its_time_has_passed(self):
        thread = self.waiter(60)
        self.clock.advance(59)
        self.assertEqual([], self.answers)
        self.clock.advance(1)
        thread.join()
        self.assertEqual([False], self.answers)

    def test_a_waiting_thread_wakes_when_the_event_comes(self):
        thread = self.waiter(60)
        self.event.set()
        thread.join()
        self.assertEqual([True], self.answers)

    def test_what_came_before_is_not_waited_for(self):
        self.event.set()
        self.assertTrue(self.clock.wait(self.event, 60))

    def test_nobody_waits(self):
        self.assertFalse(self.clock.until_waiting(seconds=0))
