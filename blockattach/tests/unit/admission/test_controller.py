"""Admission control: order of the slots, and isolation of a slow backend."""
import contextlib
import threading
import unittest

from blockattach.platform import admission
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.telemetry import acts
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import polling
from blockattach.tests.unit.admission import threads

SLOW, FAST = 'storage-1@slow', 'storage-1@fast'


class AdmissionControllerTest(unittest.TestCase):
    """Admission control with two work slots, and one slot and one queue place per backend."""

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.telemetry = acts.Telemetry(self.clock)
        self.admission = admission.AdmissionController(api_conf.QueueSettings(
            work_places=2, threads=10, size=4, timeout=30, backend_places=1, backend_size=1),
                                                       self.telemetry)
        self.comers = threads.Comers(self)

    def wait_for_use(self, name, busy, waiting):
        def found():
            used = self.admission.use().get(name)
            return used and (used.busy, used.waiting)
        polling.until(lambda: found() == (busy, waiting))
        self.assertEqual((busy, waiting), found())

    def advance(self, seconds):
        """Advance the clock once all queued requests wait for it."""
        self.assertTrue(self.clock.until_waiting(
            sum(used.waiting for used in self.admission.use().values())))
        self.clock.advance(seconds)

    def work(self, backend, end, **turn):
        """Handle a request whose backend call lasts until ``end`` is set."""
        with (self.admission.slot(**turn), self.admission.backend_slot(backend),
              self.admission.released()):
            end.wait(threads.SECONDS)
        return 'done'

    @contextlib.contextmanager
    def held(self, count=2):
        """Hold a number of work slots within the context."""
        with contextlib.ExitStack() as stack:
            end = stack.enter_context(self.ending())
            for number in range(count):
                self.comers.come(f'holder {number}', self.keep, end)
                self.wait_for_use(admission.WORK, number + 1, 0)
            yield
        for _ in range(count):
            self.comers.next()

    @contextlib.contextmanager
    def ending(self):
        end = threading.Event()
        try:
            yield end
        finally:
            end.set()

    def keep(self, end):
        with self.admission.slot():
            end.wait(threads.SECONDS)

    def test_queued_request_times_out_and_slots_released(self):
        with self.held():
            self.comers.come('third', self.keep, threading.Event())
            self.wait_for_use(admission.WORK, 2, 1)
            self.advance(30)
            self.assertIsInstance(self.comers.next()[1], errors.QueueTimeout)
        self.wait_for_use(admission.WORK, 0, 0)

    def test_earlier_wait_counts_against_queue_timeout(self):
        for waited in (30, 31.5):
            with self.assertRaises(errors.QueueTimeout), self.admission.slot(waited=waited):
                self.fail('it was begun')
        with self.held():
            self.comers.come('late', self.keep, threading.Event())
            self.wait_for_use(admission.WORK, 2, 1)

            def late():
                with self.admission.slot(waited=25):
                    self.fail('it was begun')
            self.comers.come('later', late)
            self.wait_for_use(admission.WORK, 2, 2)
            self.advance(5)
            self.assertEqual('later', self.comers.next()[0])
            self.advance(25)
            self.assertEqual('late', self.comers.next()[0])

    def test_queued_call_times_out_with_its_caller(self):
        caller = context.RequestContext(overwrite=False)
        caller.deadline = self.clock.monotonic() + 3
        with self.held():
            def serve():
                with self.admission.slot(until=caller.deadline):
                    self.fail('it was begun')
            self.comers.come('caller', serve)
            self.wait_for_use(admission.WORK, 2, 1)
            self.advance(3)
            self.assertIsInstance(self.comers.next()[1], errors.QueueTimeout)

    def test_request_of_disconnected_client_abandoned(self):
        with self.assertRaises(errors.RequestAbandoned), self.admission.slot(5, lambda: True):
            self.fail('it was begun')
        with self.admission.slot(0.01, lambda: True):
            # One that is granted at once is not even checked.
            pass
        with self.admission.slot(5, lambda: False):
            pass
        self.wait_for_use(admission.WORK, 0, 0)

    def test_wait_for_backend_releases_work_slot(self):
        with self.ending() as end:
            for number in range(2):
                self.comers.come(number, self.work, SLOW, end)
            self.wait_for_use(SLOW, 1, 1)
            # More than there are places for work, and others work all the same.
            self.wait_for_use(admission.WORK, 0, 0)
            with self.admission.slot(), self.admission.backend_slot(FAST):
                self.assertEqual(1, self.admission.use()[admission.WORK].busy)
        self.assertEqual(['done'] * 2, [self.comers.next()[1] for _ in range(2)])
        self.wait_for_use(SLOW, 0, 0)
        self.wait_for_use(admission.WORK, 0, 0)

    def test_second_caller_of_backend_times_out(self):
        with self.ending() as end:
            self.comers.come('first', self.work, SLOW, end)
            self.wait_for_use(SLOW, 1, 0)
            self.comers.come('second', self.work, SLOW, end)
            self.wait_for_use(SLOW, 1, 1)
            self.advance(30)
            name, error = self.comers.next()
            self.assertEqual(('second', errors.QueueTimeout), (name, type(error)))
            self.wait_for_use(SLOW, 1, 0)

    def test_wait_in_both_queues_counts_against_one_timeout(self):
        with self.ending() as end:
            self.comers.come('first', self.work, SLOW, end)
            self.wait_for_use(SLOW, 1, 0)

            def second():
                return self.work(SLOW, end, waited=20)
            self.comers.come('second', second)
            self.wait_for_use(SLOW, 1, 1)
            self.advance(10)
            self.assertEqual('second', self.comers.next()[0])

    def test_request_for_slow_backend_shed_at_once(self):
        with self.ending() as end:
            for number in range(2):
                self.comers.come(number, self.work, SLOW, end)
                self.wait_for_use(SLOW, 1, number)
            # Nothing is known of it yet: one more may wait than may in any case.
            self.comers.come(2, self.work, SLOW, end)
            self.wait_for_use(SLOW, 1, 2)
            self.advance(25)
            with self.assertRaises(errors.BackendBusy):
                self.work(SLOW, end)
            with self.admission.slot(), self.admission.backend_slot(FAST):
                pass
        for _ in range(3):
            self.assertEqual('done', self.comers.next()[1])

    def test_fast_backend_queues_up_to_limit(self):
        for _ in range(20):
            with self.admission.backend_slot(FAST):
                self.advance(0.1)
        with self.ending() as end:
            for number in range(5):
                self.comers.come(number, self.work, FAST, end)
                self.wait_for_use(FAST, 1, number)
            with self.assertRaises(errors.QueueFull):
                self.work(FAST, end)
        for _ in range(5):
            self.assertEqual('done', self.comers.next()[1])

    def test_nested_backend_requests_share_slot(self):
        with self.admission.backend_slot(SLOW), self.admission.backend_slot(SLOW):
            self.assertEqual(1, self.admission.use()[SLOW].busy)
        self.assertEqual(0, self.admission.use()[SLOW].busy)

    def test_request_without_backend_takes_no_backend_slot(self):
        with self.admission.backend_slot(None):
            pass
        self.assertEqual({admission.WORK}, set(self.admission.use()))

    def test_failed_request_releases_slots(self):
        with (contextlib.suppress(ZeroDivisionError), self.admission.slot(),
              self.admission.backend_slot(SLOW), self.admission.released()):
            raise ZeroDivisionError
        self.wait_for_use(SLOW, 0, 0)
        self.wait_for_use(admission.WORK, 0, 0)
