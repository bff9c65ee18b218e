"""Bandwidth limit shared by the copies of a backend, and early end of copies."""
import threading
import unittest

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.storage.volume import pacing
from blockattach.storage.work import verbs

PIECE = 10


class Passing(clock.Clock):
    """Clock that advances by the time of each wait."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def wait(self, event, seconds):
        if not event.is_set():
            self.now += max(seconds, 0)
        return event.is_set()


class PaceTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = Passing()

    def copying(self, limit, wanted=lambda: True):
        self.pace = pacing.Pace(limit, self.clock)
        return self.pace.of('a-volume', wanted)

    def test_copy_limited_to_bytes_per_second(self):
        copied = self.copying(5)
        for _ in range(4):
            copied(PIECE)
        self.assertEqual(108.0, self.clock.now)

    def test_copies_share_limit(self):
        first = self.copying(5)
        second = self.pace.of('another', lambda: True)
        for copied in (first, second) * 2:
            copied(PIECE)
        self.assertEqual(108.0, self.clock.now)

    def test_unused_bandwidth_not_saved(self):
        copied = self.copying(5)
        self.clock.now += 1000
        copied(PIECE)
        self.assertEqual(1102.0, self.clock.now)

    def test_unlimited_copy_does_not_wait(self):
        copied = self.copying(0)
        for _ in range(1000):
            copied(PIECE)
        self.assertEqual(100.0, self.clock.now)

    def test_unwanted_copy_ends_with_rare_checks(self):
        asked = []
        copied = self.copying(PIECE, lambda: asked.append(1) or len(asked) < 3)
        for _ in range(15):
            copied(PIECE)
        self.assertEqual(2, len(asked))
        with self.assertRaisesRegex(errors.BackendUncertain, 'a-volume is no longer required'):
            for _ in range(6):
                copied(PIECE)
        self.assertEqual(3, len(asked))

    def test_stop_ends_copy_at_once(self):
        copied = self.copying(5)
        self.pace.stop()
        for _ in range(2):
            self.assertRaises(verbs.Left, copied, PIECE)
        self.assertEqual(100.0, self.clock.now)

    def test_stop_ends_waiting_copy(self):
        pace = pacing.Pace(1, clock.Clock())
        waiting, ended = threading.Event(), []

        def copy():
            waiting.set()
            try:
                pace.of('a-volume', lambda: True)(1000)
            except verbs.Left:
                ended.append(1)

        thread = threading.Thread(target=copy)
        thread.start()
        waiting.wait()
        pace.stop()
        thread.join()
        self.assertEqual([1], ended)
