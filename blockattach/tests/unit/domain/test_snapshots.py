"""Lifecycle of a snapshot, and the volumes that allow one."""
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import snapshots

Status = snapshots.Status


class LifecycleTest(unittest.TestCase):

    def test_each_transition_leads_to_expected_status(self):
        moves = {(move.source, move.event): move.target for move in snapshots.TRANSITIONS}
        self.assertEqual(len(snapshots.TRANSITIONS), len(moves))
        for status in Status:
            for event in snapshots.Event:
                with self.subTest(status=status, event=event):
                    if (status, event) in moves:
                        self.assertEqual(moves[status, event] or Status.ERROR,
                                         snapshots.next_status(status, event, Status.ERROR))
                    else:
                        self.assertRaises(errors.InvalidSnapshot, snapshots.next_status, status,
                                          event)

    def test_gone_snapshot_has_no_transition(self):
        self.assertNotIn(Status.GONE, {move.source for move in snapshots.TRANSITIONS})

    def test_force_delete_from_each_status_ends_in_gone(self):
        for status in Status:
            if status is not Status.GONE:
                deleting = snapshots.next_status(status, snapshots.Event.FORCE_DELETE)
                self.assertIs(Status.GONE,
                              snapshots.next_status(deleting, snapshots.Event.DELETED))

    def test_settled_status_of_interrupted_snapshot(self):
        self.assertEqual(
            [Status.ERROR, Status.AVAILABLE, Status.ERROR, Status.ERROR_DELETING],
            [snapshots.settled(one) for one in ('creating', 'available', 'error', 'deleting')])


class SourceTest(unittest.TestCase):

    def test_source_volume_checked_by_status(self):
        rows = (
            ('available', 'available', 'h@b#p', False, None),
            ('available', 'in-use', 'h@b#p', True, None),
            ('available', 'in-use', 'h@b#p', False, 'but current status is: in-use'),
            ('available', 'reserved', 'h@b#p', True, 'must be available, in-use, but current'),
            ('available', 'available', None, True, 'not been scheduled to any host'),
            ('maintenance', 'maintenance', 'h@b#p', True, 'in maintenance mode'),
            ('error', 'error', 'h@b#p', True, 'in error status'),
            ('migrating', 'available', 'h@b#p', True, 'while volume is migrating'),
            ('deleting', 'deleting', 'h@b#p', True, 'but current status is: deleting'),
        )
        for own_status, shown, pool, in_use, sentence in rows:
            with self.subTest(own_status=own_status, shown=shown, pool=pool):
                if sentence is None:
                    snapshots.check_source('v', own_status, shown, pool, in_use)
                else:
                    with self.assertRaisesRegex(errors.InvalidVolume, sentence):
                        snapshots.check_source('v', own_status, shown, pool, in_use)
