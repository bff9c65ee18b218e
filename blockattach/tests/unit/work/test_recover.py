"""Recovery of interrupted work by repeated passes."""
import types
import unittest

from blockattach.storage import errors
from blockattach.storage.work import recover
from blockattach.tests.fixtures import clock

ROW = types.SimpleNamespace(id='a')


class Acts:
    """Source with one orphaned or one overdue row, whose recovery ends as planned."""

    def __init__(self, *ends, settle_seconds=0):
        self.ends = list(ends)
        self.done = []
        self.overdue = []
        self.clock = clock.ManualClock()
        self.recovery = recover.Recovery([recover.Source(self.due, self.case, settle_seconds)],
                                         'me', monotonic=self.clock.monotonic)

    def due(self, owner=None, shared=False):
        return [ROW] if owner else self.overdue

    def case(self, row):
        return recover.Case('attachment', 'it is interrupted', 'it is resumed',
                            lambda: self.act(row), 'volume', row.id)

    def act(self, row):
        self.done.append(row.id)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def look(self, passes):
        return [self.recovery.look() for _ in range(passes)]


class OrphanTest(unittest.TestCase):

    def orphaned(self, *ends, **how):
        acts = Acts(*ends, **how)
        acts.recovery.remember()
        return acts

    def test_orphan_resumed_once(self):
        acts = self.orphaned(None)
        self.assertEqual([1, 0], acts.look(2))

    def test_orphan_taken_by_other_process_skipped(self):
        for end in (False, errors.StaleGeneration(noun='attachment', id='a', generation=1),
                    errors.AttachmentNotFound(attachment_id='a')):
            with self.subTest(end=end):
                self.assertEqual([0, 0], self.orphaned(end).look(2))

    def test_failed_recovery_retried_in_next_pass(self):
        for end in (recover.Busy(), errors.DatabaseUnavailable()):
            with self.subTest(end=end):
                self.assertEqual([0, 1, 0], self.orphaned(end, None).look(3))

    def test_orphan_resumed_after_settle_time(self):
        acts = self.orphaned(None, settle_seconds=5)
        self.assertEqual([0], acts.look(1))
        acts.clock.advance(5)
        self.assertEqual([1, 0], acts.look(2))

    def test_overdue_orphan_resumed_once(self):
        acts = self.orphaned(None)
        acts.overdue = [ROW]
        self.assertEqual([1], acts.look(1))
        acts.overdue = []
        self.assertEqual([0], acts.look(1))
        self.assertEqual(['a'], acts.done)
