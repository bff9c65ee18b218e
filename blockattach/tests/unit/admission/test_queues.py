"""Slot queue: order of the requests, limits, and deadlines."""
import unittest

from blockattach.platform import admission
from blockattach.platform import errors
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import polling
from blockattach.tests.unit.admission import threads


class SlotQueueTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.queue = admission.SlotQueue(2, 3, self.clock)
        self.comers = threads.Comers(self)

    def wait_for_use(self, *expected):
        polling.until(lambda: self.queue.use()[1:] == expected)
        self.assertEqual(expected, self.queue.use()[1:])

    def advance(self, seconds):
        """Advance the clock once all queued requests wait for it."""
        self.assertTrue(self.clock.until_waiting(self.queue.use().waiting))
        self.clock.advance(seconds)

    def fill(self):
        for _ in range(self.queue.slots):
            self.assertTrue(self.queue.try_acquire())

    def fill_queue(self, count, seconds=100):
        """Queue a number of requests in the order of their numbers."""
        for number in range(count):
            self.comers.come(number, self.queue.acquire, self.clock.monotonic() + seconds)
            self.wait_for_use(2, number + 1)

    def test_slots_free_until_acquired(self):
        self.fill()
        self.assertFalse(self.queue.try_acquire())
        self.queue.release()
        self.assertEqual(0.0, self.queue.acquire(self.clock.monotonic() + 1))
        self.assertEqual((2, 0), self.queue.use()[1:])

    def test_queued_requests_granted_in_order(self):
        self.fill()
        self.fill_queue(3)
        for number in range(3):
            self.advance(1)
            self.queue.release()
            # It was handed over: a request that comes now finds none.
            self.assertFalse(self.queue.try_acquire())
            self.assertEqual((number, number + 1), self.comers.next())
        self.assertEqual((2, 0), self.queue.use()[1:])

    def test_request_beyond_queue_size_rejected(self):
        self.fill()
        self.fill_queue(3)
        with self.assertRaises(errors.QueueFull):
            self.queue.acquire(self.clock.monotonic() + 100)
        self.assertEqual((2, 3), self.queue.use()[1:])
        for _ in range(3):
            self.queue.release()
            self.comers.next()

    def test_queued_request_times_out_and_next_stays(self):
        self.fill()
        self.fill_queue(1, seconds=30)
        self.comers.come('patient', self.queue.acquire, self.clock.monotonic() + 100)
        self.wait_for_use(2, 2)
        self.advance(29)
        self.assertTrue(self.comers.nobody())
        self.advance(1)
        number, error = self.comers.next()
        self.assertEqual((0, errors.QueueTimeout), (number, type(error)))
        # Its place in the queue is empty, and the next one is not forgotten.
        self.wait_for_use(2, 1)
        self.queue.release()
        self.assertEqual(('patient', 30.0), self.comers.next())

    def test_request_past_deadline_rejected(self):
        with self.assertRaises(errors.QueueTimeout):
            self.queue.acquire(self.clock.monotonic())
        self.assertEqual((0, 0), self.queue.use()[1:])

    def test_reacquire_goes_before_queued_requests(self):
        self.fill()
        self.fill_queue(2)
        self.comers.come('back', self.queue.reacquire)
        self.wait_for_use(2, 3)
        self.queue.release()
        self.assertEqual('back', self.comers.next()[0])
        for number in range(2):
            self.queue.release()
            self.assertEqual(number, self.comers.next()[0])

    def test_request_with_too_long_wait_shed_at_once(self):
        self.fill()
        asked = []

        def doubt(ahead, left):
            asked.append((ahead, left))
            return ahead >= 1
        self.queue.should_shed = doubt
        self.comers.come('first', self.queue.acquire, self.clock.monotonic() + 5)
        self.wait_for_use(2, 1)
        with self.assertRaises(errors.BackendBusy):
            self.queue.acquire(self.clock.monotonic() + 5)
        self.assertEqual([(0, 5.0), (1, 5.0)], asked)
        self.queue.release()
        self.assertEqual('first', self.comers.next()[0])

    def test_concurrent_requests_all_served(self):
        """All slots are free again in the end."""
        queue = admission.SlotQueue(2, 100, self.clock)

        def work():
            queue.acquire(self.clock.monotonic() + 1)
            queue.release()
            queue.reacquire()
            queue.release()
        for number in range(50):
            self.comers.come(number, work)
        self.assertEqual(set(range(50)), {self.comers.next()[0] for _ in range(50)})
        self.assertEqual((0, 0), queue.use()[1:])
