"""Copies of one backend share its limit, and end early where nobody wants them."""
import threading
import unittest

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.storage.volume import pacing
from blockattach.storage.work import verbs

PIECE = 10


class Passing(clock.Clock):
    """Time passes while it is waited for."""

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

    def test_so_many_bytes_a_second(self):
        copied = self.copying(5)
        for _ in range(4):
            copied(PIECE)
        self.assertEqual(108.0, self.clock.now)

    def test_all_copies_together(self):
        first = self.copying(5)
        second = self.pace.of('another', lambda: True)
        for copied in (first, second) * 2:
            copied(PIECE)
        self.assertEqual(108.0, self.clock.now)

    def test_what_was_not_used_is_not_saved_up(self):
        copied = self.copying(5)
        self.clock.now += 1000
        copied(PIECE)
        self.assertEqual(1102.0, self.clock.now)

    def test_no_limit(self):
        copied = self.copying(0)
        for _ in range(1000):
            copied(PIECE)
        self.assertEqual(100.0, self.clock.now)

    def test_what_is_not_wanted_ends_and_the_question_is_rare(self):
        asked = []
        copied = self.copying(PIECE, lambda: asked.append(1) or len(asked) < 3)
        for _ in range(15):
            copied(PIECE)
        self.assertEqual(2, len(asked))
        with self.assertRaisesRegex(errors.BackendUncertain, 'a-volume is no longer required'):
            for _ in range(6):
                copied(PIECE)
        self.assertEqual(3, len(asked))

    def test_the_end_of_the_process_ends_it_at_once(self):
        copied = self.copying(5)
        self.pace.stop()
        for _ in range(2):
            self.assertRaises(verbs.Left, copied, PIECE)
        self.assertEqual(100.0, self.clock.now)

    def test_one_that_waits_for_long_ends_too(self):
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
