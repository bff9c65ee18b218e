"""Table of the rule for ``os-reset_status``."""
import itertools
import unittest

from blockattach.storage.domain import reset_rule
from blockattach.storage.domain import volume_lifecycle

_Own = volume_lifecycle.OwnStatus
_Outcome = reset_rule.Outcome
WORDS = (None, *reset_rule.OWN_STATUSES, *sorted(reset_rule.DERIVED_STATUSES), 'deleting')
RANKS = tuple(volume_lifecycle.RANK_STATUSES)


def facts(status=None, attach_status=None, **changes):
    """Return the facts of a reset of an available volume."""
    return reset_rule.Facts(reset_rule.Requested(status, attach_status), **{
        'own_status': _Own.AVAILABLE, 'at_work': False, 'made': True, 'lowest_rank': None,
        'shown': 'available', **changes})


def every_case():
    for status, attach_status, own, made, rank, announced in itertools.product(
            WORDS, (None, 'attached', 'detached'), _Own, (False, True), RANKS, (False, True)):
        if own in (_Own.GONE, _Own.LEFT):
            continue
        for at_work in (False, True) if own is _Own.CREATING else (own is _Own.DELETING,):
            yield facts(status, attach_status, own_status=own, at_work=at_work, made=made,
                        lowest_rank=rank, shown=volume_lifecycle.derive_status(
                            own, rank, announced).status)


class TableTest(unittest.TestCase):

    def test_row_decides_case(self):
        making = {'own_status': _Own.CREATING, 'at_work': True, 'shown': 'creating'}
        removing = {'own_status': _Own.DELETING, 'at_work': True, 'shown': 'deleting'}
        used = {'lowest_rank': 1, 'shown': 'in-use'}
        for number, outcome, said, changes in (
                (1, _Outcome.NOT_ATTACHED, (None, 'attached'), {}),
                (1, _Outcome.NOT_ATTACHED, (None, 'attached'), {'lowest_rank': 4}),
                (2, _Outcome.UNKNOWN, ('deleting', None), {}),
                (3, _Outcome.CONTRADICTS_ITSELF, ('in-use', 'detached'), used),
                (4, _Outcome.ALLOWED, (None, 'detached'), making),
                (4, _Outcome.ALLOWED, (None, 'attached'), used),
                (5, _Outcome.ALLOWED, ('error', None), making),
                (5, _Outcome.ALLOWED, ('error', None), {**making, 'made': False}),
                (6, _Outcome.AT_WORK, ('available', None), making),
                (6, _Outcome.AT_WORK, ('error', None), removing),
                (7, _Outcome.NEVER_MADE, ('available', None), {'made': False}),
                (8, _Outcome.UNTRUE, ('in-use', None), {}),
                (8, _Outcome.UNTRUE, ('reserved', None), used),
                (8, _Outcome.UNTRUE, ('attaching', None), {'lowest_rank': 4, 'shown': 'reserved'}),
                (9, _Outcome.IN_USE, ('available', None), used),
                (10, _Outcome.ALLOWED, ('available', 'detached'), used),
                (10, _Outcome.ALLOWED, ('error', None), used),
                (10, _Outcome.ALLOWED, ('attaching', None), {}),
                (10, _Outcome.ALLOWED, ('reserved', None), {'made': False}),
                (10, _Outcome.ALLOWED, ('error_backing-up', None), used),
                (10, _Outcome.ALLOWED, ('detaching', None), {**used, 'shown': 'detaching'}),
                (10, _Outcome.ALLOWED, ('available', None), {'own_status': _Own.ERROR})):
            with self.subTest(row=number, said=said, **changes):
                row = reset_rule.decide(facts(*said, **changes))
                self.assertEqual((number, outcome), (row.number, row.outcome))

    def test_rows_ordered_and_each_decides_case(self):
        numbers = [row.number for row in reset_rule.TABLE]
        self.assertEqual(sorted(numbers), numbers)
        self.assertEqual(set(numbers), {reset_rule.decide(one).number for one in every_case()})

    def test_allowed_reset_leaves_consistent_volume(self):
        for one in every_case():
            row = reset_rule.decide(one)
            if row.outcome is not _Outcome.ALLOWED or one.requested.status is None:
                continue
            with self.subTest(one):
                own = one.own_status_then
                # Work under way is not contradicted; a volume that is being made may be given up.
                self.assertTrue(not one.at_work or (
                    one.own_status is _Own.CREATING and own is _Own.ERROR))
                # What others may attach has bytes.
                self.assertTrue(one.made or own not in volume_lifecycle.RESERVABLE)
                # A status that attachments imply is theirs, or nothing is attached.
                self.assertTrue(not one.is_derived or one.lowest_rank is None
                                or own is _Own.AVAILABLE)
                # A volume that seems free has no attachment.
                self.assertTrue(one.requested.status != 'available' or one.empties
                                or one.lowest_rank is None)

    def test_reset_to_error_allowed_without_running_delete(self):
        for one in every_case():
            if one.requested == reset_rule.Requested('error', None) and (
                    one.own_status is not _Own.DELETING):
                with self.subTest(one):
                    self.assertIs(_Outcome.ALLOWED, reset_rule.decide(one).outcome)
