"""A volume's two words, from its own status and its attachments."""
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import volume_lifecycle as lifecycle

Own = lifecycle.OwnStatus

ATTACH_STATUS = {None: 'detached', 1: 'attached', 2: 'attaching', 3: 'detaching', 4: 'reserved',
                 5: 'reserved'}
STATUS_WHEN_AVAILABLE = {None: 'available', 1: 'in-use', 2: 'attaching', 3: 'detaching',
                         4: 'reserved', 5: 'reserved'}


class DeriveStatusTest(unittest.TestCase):

    def test_every_own_status_with_every_rank(self):
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

    def test_a_status_as_text_is_the_same(self):
        for own_status in Own:
            self.assertEqual(lifecycle.derive_status(own_status, 1),
                             lifecycle.derive_status(own_status.value, 1))

    def test_a_word_of_an_operator_stands_above_the_attachments(self):
        self.assertEqual(('maintenance', 'attached'), lifecycle.derive_status('maintenance', 1))

    def test_no_attachment_puts_a_volume_into_an_error(self):
        for rank in ATTACH_STATUS:
            self.assertNotIn('error', lifecycle.derive_status(Own.AVAILABLE, rank).status)

    def test_an_unknown_rank_is_a_mistake_and_no_word(self):
        self.assertRaises(KeyError, lifecycle.derive_status, Own.AVAILABLE, 6)


# Of an administrator, and of a client where no backend has it: from wherever it is.
AT_ANY_TIME = (lifecycle.Event.FORCE_DELETE, lifecycle.Event.DISCARD, lifecycle.Event.RESET)
# Only an administrator says these.
SAID = {Own.MAINTENANCE, Own.ATTACHING, Own.DETACHING, Own.RESERVED, Own.ERROR_BACKING_UP}
ENDS = {Own.GONE, Own.LEFT}
TRANSITIONS = [move for move in lifecycle.TRANSITIONS if move.event not in AT_ANY_TIME]


class TransitionsTest(unittest.TestCase):

    def test_a_move_is_in_the_table_once_and_leads_where_it_says(self):
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

    def test_every_status_but_the_administrators_is_entered_and_left_by_an_event(self):
        entered = {move.target for move in TRANSITIONS if move.source is not move.target}
        left = {move.source for move in TRANSITIONS}
        self.assertEqual({Own.CREATING, Own.MANAGING, Own.ERROR_RESTORING, *SAID},
                         set(Own) - entered)
        self.assertEqual({*ENDS, *SAID}, set(Own) - left)

    def test_an_administrator_may_act_at_any_time_before_the_end(self):
        # What is taken from others, or left to them, is not removed meanwhile.
        kept = {lifecycle.Event.FORCE_DELETE: {Own.MANAGING, Own.UNMANAGING}}
        for event in AT_ANY_TIME:
            self.assertEqual(set(Own) - ENDS - kept.get(event, set()), {
                move.source for move in lifecycle.TRANSITIONS if move.event is event})

    def test_every_event_leads_somewhere(self):
        self.assertEqual(set(lifecycle.Event), {move.event for move in lifecycle.TRANSITIONS})

    def test_whatever_is_under_way_ends_in_a_volume_that_can_be_used_or_deleted(self):
        ends = lifecycle.DELETABLE | ENDS
        reached = {own_status: {move.target for move in TRANSITIONS
                                if move.source is own_status} for own_status in Own}
        for own_status in set(Own) - SAID - ENDS:
            with self.subTest(own_status=own_status):
                self.assertTrue(own_status in ends or reached[own_status] & ends)


class RulesTest(unittest.TestCase):

    def test_what_is_being_worked_on_can_be_neither_deleted_nor_attached(self):
        for own_status in (Own.CREATING, Own.DELETING, Own.GONE, Own.EXTENDING,
                           Own.RETYPING, Own.MIGRATING):
            self.assertNotIn(own_status, lifecycle.DELETABLE)
            self.assertNotIn(own_status, lifecycle.RESERVABLE)

    def test_an_error_can_be_deleted_but_not_attached(self):
        for own_status in (Own.ERROR, Own.ERROR_DELETING):
            self.assertIn(own_status, lifecycle.DELETABLE)
            self.assertNotIn(own_status, lifecycle.RESERVABLE)
