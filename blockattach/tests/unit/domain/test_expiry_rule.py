"""Table of the rule that expires abandoned attachments."""
import itertools
import unittest

from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import expiry_rule
from blockattach.tests.unit import samples

_Outcome = expiry_rule.Outcome
_Nova = expiry_rule.Nova
ANOTHER = 'another attachment'
GONE = expiry_rule.Server(exists=False)


def facts(**changes):
    """Return the facts of a server that no longer uses the attachment."""
    return expiry_rule.Facts(**{
        'attachment_id': samples.ATTACHMENT, 'server_id': samples.SERVER,
        'nova': _Nova.ASKED,
        'server': expiry_rule.Server(exists=True), **changes})


class TableTest(unittest.TestCase):

    def test_row_decides_case(self):
        mine, others = (expiry_rule.Server(True, False, name)
                        for name in (samples.ATTACHMENT, ANOTHER))
        for number, outcome, changes in (
                (1, _Outcome.STAYS, {'server_id': None, 'has_session': True}),
                (2, _Outcome.ABANDONED, {'server_id': None}),
                (2, _Outcome.ABANDONED, {'server_id': ''}),
                (3, _Outcome.ABANDONED, {'nova': _Nova.NONE, 'server': None}),
                (4, _Outcome.STAYS, {'nova': _Nova.UNKNOWN, 'server': None}),
                (5, _Outcome.ASK_NOVA, {'server': None}),
                (6, _Outcome.ABANDONED, {'server': GONE}),
                (7, _Outcome.STAYS, {'server': mine}),
                (7, _Outcome.STAYS, {'server': mine.__class__(True, True, samples.ATTACHMENT)}),
                (8, _Outcome.STAYS, {'server': expiry_rule.Server(True, True)}),
                (8, _Outcome.STAYS, {'server': expiry_rule.Server(True, True, ANOTHER)}),
                (9, _Outcome.ABANDONED, {}),
                (9, _Outcome.ABANDONED, {'server': others})):
            with self.subTest(row=number, **changes):
                row = expiry_rule.decide(facts(**changes))
                self.assertEqual((number, outcome), (row.number, row.outcome))

    def test_each_case_decided(self):
        servers = (None, GONE, *(expiry_rule.Server(True, busy, name) for busy, name in
                                 itertools.product((False, True),
                                                   (None, ANOTHER, samples.ATTACHMENT))))
        for server_id, nova, server, session in itertools.product(
                (None, samples.SERVER), _Nova, servers, (False, True)):
            case = facts(server_id=server_id, nova=nova, server=server, has_session=session)
            with self.subTest(case):
                row = expiry_rule.decide(case)
                if server_id and nova is _Nova.ASKED and server is not None and server.exists and (
                        server.busy or server.attachment_id == samples.ATTACHMENT):
                    self.assertIs(_Outcome.STAYS, row.outcome)

    def test_rows_ordered_by_number(self):
        numbers = [row.number for row in expiry_rule.TABLE]
        self.assertEqual(sorted(numbers), numbers)


class EndingsTest(unittest.TestCase):

    def test_abandoned_attachment_ends_as_by_delete(self):
        for state, ending in expiry_rule.ENDINGS.items():
            self.assertNotIn(state, lifecycle.TRANSITIONAL)
            self.assertIn(lifecycle.next_state(state, ending.event),
                          (lifecycle.State.GONE, lifecycle.State.DISCONNECTING))
