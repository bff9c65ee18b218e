"""Status and attach status of a volume, and the transitions of its own status."""
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import volume_lifecycle as lifecycle

Own = lifecycle.OwnStatus

ATTACH_STATUS = {None: 'detached', 1: 'attached', 2: 'attaching', 3: 'detaching', 4: 'reserved',
                 5: 'reserved'}
STATUS_WHEN_AVAILABLE = {None: 'available', 1: 'in-use', 2: 'attaching', 3: 'detaching',
                         4: 'reserved', 5: 'reserved'}


class DeriveStatusTest(unittest.TestCase):

    def test_status_of_each_own_status_and_rank(self):
        for own_status in Own:
            for rank in ATTACH_STATUS:
                with self.subTest(own_status=own_status, rank=rank):
                    # Clients see nothing of a migration but where the volume is.
                    status = (STATUS_WHEN_AVAILABLE[rank]
                              if own_status in (Own.AVAILABLE, Own.MIGRATING)
                              else 'maintenance' if own_status is Own.MIGRATING_LOCKED
                              else own_status.value)
                    self.assertEqual((status, ATTACH_STATUS[rank]),
                                     lifecycle.derive_status(own_status, rank))

    def test_status_derived_from_text(self):
        for own_status in Own:
            self.assertEqual(lifecycle.derive_status(own_status, 1),
                             lifecycle.derive_status(own_status.value, 1))

    def test_maintenance_overrides_attachments(self):
        self.assertEqual(('maintenance', 'attached'), lifecycle.derive_status('maintenance', 1))

    def test_no_rank_derives_error_status(self):
        for rank in ATTACH_STATUS:
            self.assertNotIn('error', lifecycle.derive_status(Own.AVAILABLE, rank).status)

    def test_unknown_rank_raises(self):
        self.assertRaises(KeyError, lifecycle.derive_status, Own.AVAILABLE, 6)


# Of an administrator, and of a client where no backend has it: from wherever it is.
AT_ANY_TIME = (lifecycle.Event.FORCE_DELETE, lifecycle.Event.DISCARD, lifecycle.Event.RESET)
# Only an administrator says these.
SAID = {Own.MAINTENANCE, Own.ATTACHING, Own.DETACHING, Own.RESERVED, Own.ERROR_BACKING_UP}
ENDS = {Own.GONE, Own.LEFT}
TRANSITIONS = [move for move in lifecycle.TRANSITIONS if move.event not in AT_ANY_TIME]


class TransitionsTest(unittest.TestCase):

    def test_each_transition_leads_to_expected_status(self):
        moves = {(move.source, move.event): move.target for move in lifecycle.TRANSITIONS}
        self.assertEqual(len(lifecycle.TRANSITIONS), len(moves))
        for own_status in Own:
            for event in lifecycle.Event:
                with self.subTest(own_status=own_status, event=event):
                    if (own_status, event) in moves:
                        chosen = None if moves[own_status, event] else Own.MAINTENANCE
                        self.assertEqual(
                            moves[own_status, event] or chosen,
                            lifecycle.next_status(own_status.value, event, chosen))
                    else:
                        with self.assertRaisesRegex(errors.InvalidVolume,
                                                    f'Cannot {event} a volume in status'):
                            lifecycle.next_status(own_status, event, Own.MAINTENANCE)

    def test_each_status_entered_and_left_by_transition(self):
        entered = {move.target for move in TRANSITIONS if move.source is not move.target}
        left = {move.source for move in TRANSITIONS}
        self.assertEqual({Own.CREATING, Own.MANAGING, Own.ERROR_RESTORING, *SAID},
                         set(Own) - entered)
        self.assertEqual({*ENDS, *SAID}, set(Own) - left)

    def test_admin_events_allowed_in_each_status(self):
        # What is taken from others, or left to them, is not removed meanwhile.
        kept = {lifecycle.Event.FORCE_DELETE: {Own.MANAGING, Own.UNMANAGING}}
        for event in AT_ANY_TIME:
            self.assertEqual(set(Own) - ENDS - kept.get(event, set()), {
                move.source for move in lifecycle.TRANSITIONS if move.event is event})

    def test_each_event_has_transition(self):
        self.assertEqual(set(lifecycle.Event), {move.event for move in lifecycle.TRANSITIONS})

    def test_each_status_leads_to_deletable_status(self):
        ends = lifecycle.DELETABLE | ENDS
        reached = {own_status: {move.target for move in TRANSITIONS
                                if move.source is own_status} for own_status in Own}
        for own_status in set(Own) - SAID - ENDS:
            with self.subTest(own_status=own_status):
                self.assertTrue(own_status in ends or reached[own_status] & ends)


class RulesTest(unittest.TestCase):

    def test_transitional_status_neither_deletable_nor_reservable(self):
        for own_status in (Own.CREATING, Own.DELETING, Own.GONE, Own.EXTENDING,
                           Own.RETYPING, Own.MIGRATING):
            self.assertNotIn(own_status, lifecycle.DELETABLE)
            self.assertNotIn(own_status, lifecycle.RESERVABLE)

    def test_error_status_deletable_but_not_reservable(self):
        for own_status in (Own.ERROR, Own.ERROR_DELETING):
            self.assertIn(own_status, lifecycle.DELETABLE)
            self.assertNotIn(own_status, lifecycle.RESERVABLE)
