"""Heartbeats to waiting callers."""
import queue
import threading
import unittest

from blockattach.platform.rpc import serving
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import polling

LIMIT = polling.LIMIT
TIMEOUT = 15.0
NEXT = TIMEOUT / serving.SIGNS


class Message:
    """Incoming message that reports each heartbeat to the test."""

    def __init__(self, signs, timeout=TIMEOUT, error=None):
        self.client_timeout = timeout
        self._signs, self._error = signs, error

    def heartbeat(self):
        self._signs.put(self)
        if self._error:
            raise self._error


class HeartbeatsTest(unittest.TestCase):

    def setUp(self):
        self.clock = clock.ManualClock()
        self.signs = queue.Queue()
        self.heartbeats = serving.Heartbeats(self.clock)
        self.begun = []
        self.addCleanup(self.end_all)

    def test_malformed_timeout_gets_no_heartbeats(self):
        """Other callers still get heartbeats."""
        for timeout in ('soon', [], {}, [1], float('nan'), float('inf'), -1, 0, None, object()):
            with self.subTest(timeout):
                message = Message(self.signs, timeout)
                self.heartbeats.begin(message)
                self.assertIsNone(message.client_timeout)
        message = Message(self.signs)
        self.begun.append(message)
        self.heartbeats.begin(message)
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        self.clock.advance(NEXT)
        self.assertIs(message, self.signs.get(timeout=LIMIT))

    def end_all(self):
        for message in self.begun:
            self.heartbeats.end(message)
        self.clock.advance(100 * TIMEOUT)

    def begin(self, **values):
        message = Message(self.signs, **values)
        self.begun.append(message)
        self.heartbeats.begin(message)
        return message

    def next_sign(self):
        """Return the message of the next heartbeat, after advancing the clock."""
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        self.clock.advance(NEXT)
        return self.signs.get(timeout=LIMIT)

    def test_caller_gets_heartbeats_until_answer(self):
        message = self.begin()
        for _ in range(5):
            self.assertIs(message, self.next_sign())

    def test_oslo_messaging_heartbeat_disabled(self):
        self.assertIsNone(self.begin().client_timeout)

    def test_caller_without_timeout_gets_no_heartbeats(self):
        self.begin(timeout=None)
        listens = self.begin()
        self.assertIs(listens, self.next_sign())

    def test_answered_call_gets_no_heartbeats(self):
        answered, other = self.begin(), self.begin()
        self.heartbeats.end(answered)
        for _ in range(3):
            self.assertIs(other, self.next_sign())

    def test_unreachable_caller_delays_no_other_heartbeats(self):
        gone, other = self.begin(error=OSError()), self.begin()
        self.assertEqual([gone, other, other],
                         [self.next_sign(), self.signs.get(timeout=LIMIT), self.next_sign()])

    def test_shorter_timeout_gets_heartbeat_first(self):
        self.begin(timeout=10 * TIMEOUT)
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        hasty = self.begin()
        self.assertIs(hasty, self.next_sign())

    def test_heartbeat_thread_ends_without_calls(self):
        before = set(threading.enumerate())
        message = self.begin()
        self.assertIs(message, self.next_sign())
        # Threads of other tests may end meanwhile.
        thread, = {one for one in threading.enumerate()
                   if one.name == 'heartbeats'} - before
        self.heartbeats.end(message)
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        self.clock.advance(NEXT)
        polling.until(lambda: not thread.is_alive())
        later = self.begin()
        self.assertIs(later, self.next_sign())
