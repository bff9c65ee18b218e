"""Table of the detach rule for CVE-2023-2088."""
import itertools
import unittest

from blockattach.storage.domain import detach_rule
from blockattach.tests.unit import samples

_Outcome = detach_rule.Outcome
_Verb = detach_rule.Verb
OTHER = 'another attachment'
ELSEWHERE = 'iqn.2016-04.com.example:elsewhere'


def facts(**changes):
    """Return the facts of a user who deletes an attachment that its server uses."""
    return detach_rule.Facts(**{
        'by_service': False, 'volume_id': samples.VOLUME, 'given_id': samples.ATTACHMENT,
        'count': 1, 'record': samples.attachment(),
        'answer': detach_rule.Answer(samples.ATTACHMENT), **changes})


class TableTest(unittest.TestCase):

    def test_row_decides_case(self):
        for number, outcome, changes in (
                (1, _Outcome.ALLOWED, {'by_service': True}),
                (1, _Outcome.ALLOWED, {'by_service': True, 'record': None, 'count': 3}),
                (2, _Outcome.ALLOWED, {'given_id': None, 'count': 0, 'record': None}),
                (4, _Outcome.NOT_NAMED, {'given_id': None, 'count': 2, 'record': None}),
                (4, _Outcome.NOT_NAMED, {'given_id': OTHER, 'count': 0, 'record': None}),
                (5, _Outcome.MISMATCHED, {'volume_id': 'another volume'}),
                (6, _Outcome.ALLOWED, {'record': samples.attachment(instance_uuid=None)}),
                (6, _Outcome.ALLOWED, {'record': samples.attachment(connection=None)}),
                (6, _Outcome.ALLOWED, {'record': samples.attachment(connection={})}),
                (6, _Outcome.ALLOWED, {'verb': _Verb.UPDATE,
                                       'initiator': samples.attachment().initiator}),
                (7, _Outcome.ASK_NOVA, {'verb': _Verb.UPDATE, 'initiator': ELSEWHERE,
                                        'answer': None}),
                (9, _Outcome.IN_USE, {'verb': _Verb.UPDATE, 'initiator': ELSEWHERE}),
                (9, _Outcome.IN_USE, {'verb': _Verb.FORCED_DELETE}),
                (7, _Outcome.ASK_NOVA, {'answer': None}),
                (7, _Outcome.ALLOWED, {'answer': detach_rule.Answer(None)}),
                (8, _Outcome.ALLOWED, {'answer': detach_rule.Answer(OTHER)}),
                (9, _Outcome.IN_USE, {}),
                (9, _Outcome.IN_USE, {'given_id': None})):
            with self.subTest(row=number, **changes):
                row = detach_rule.decide(facts(**changes))
                self.assertEqual((number, outcome), (row.number, row.outcome))

    def test_each_case_decided(self):
        cases = itertools.product(
            (False, True), (samples.VOLUME, 'another volume'), (None, samples.ATTACHMENT),
            (0, 1, 2),
            (None, samples.attachment(), samples.attachment(instance_uuid=None),
             samples.attachment(connection=None)),
            (None, detach_rule.Answer(None), detach_rule.Answer(OTHER),
             detach_rule.Answer(samples.ATTACHMENT)))
        for case in cases:
            with self.subTest(case=case):
                of_case = detach_rule.Facts(*case)
                row = detach_rule.decide(of_case)
                # What the rule is for: used by a server means refused, to all but services.
                if (not of_case.by_service and of_case.record == samples.attachment()
                        and of_case.answer == detach_rule.Answer(samples.ATTACHMENT)
                        and (of_case.given_id or of_case.count)):
                    self.assertIn(row.outcome, (_Outcome.IN_USE, _Outcome.MISMATCHED))

    def test_each_verb_has_nova_question(self):
        self.assertEqual(set(_Verb), set(detach_rule.ASKED))

    def test_rows_ordered_by_number(self):
        numbers = [row.number for row in detach_rule.TABLE]
        self.assertEqual(sorted(numbers), numbers)


class MeantTest(unittest.TestCase):
    """Attachment that a request refers to, as in row 3."""

    def test_attachment_meant_by_request(self):
        one, other = samples.attachment(id='one'), samples.attachment(id='other')
        for wanted, rows, given_id in (
                (None, [], None), (one, [one], None), (None, [one, other], None),
                (None, [], 'one'), (one, [one], 'one'), (other, [one, other], 'other'),
                (None, [one, other], 'third'), (None, [one], 'third')):
            with self.subTest(rows=len(rows), given_id=given_id):
                self.assertEqual(wanted, detach_rule.meant(rows, given_id))
