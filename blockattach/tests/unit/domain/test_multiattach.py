"""Admission of a further attachment to a volume."""
import itertools
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import connection
from blockattach.storage.domain import multiattach
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.unit import samples

RW, RO = connection.AccessMode.RW, connection.AccessMode.RO
MODES = (None, RW, RO)
A, B = 'instance-a', 'instance-b'
STATUSES = [*volume_lifecycle.OwnStatus, 'maintenance', 'error_extending', 'uploading']
REFUSED = 'refused'


def holder(instance=A, mode=RW, slot=0):
    return multiattach.Holder(instance, mode, slot)


def volume(own_status='available', shared=True, shown=None, taken=False, **facts):
    return samples.volume_facts(
        id='the-volume', own_status=own_status, status=shown or own_status, multiattach=shared,
        lowest_rank=1 if taken else None, **facts)


def admit(own_status='available', shared=False, holders=(), instance=A, mode=None, shown=None):
    return multiattach.admit(volume(own_status, shared, shown), holders, False, instance, mode)


class AdmitTest(unittest.TestCase):

    def test_admit_in_wrong_status_rejected(self):
        for own_status, shared, holders in itertools.product(
                STATUSES, (False, True), ((), (holder(),))):
            if own_status in ('available', 'downloading'):
                continue
            with self.subTest(own_status=own_status, shared=shared):
                self.assertRaises(errors.InvalidVolume, admit, own_status, shared, holders)

    def test_multiattach_volume_admits_any_number(self):
        for count, instance, mode in itertools.product((0, 1, 2, 50), (None, A, B), MODES):
            holders = [holder(slot=None)] * count
            with self.subTest(count=count, instance=instance, mode=mode):
                self.assertEqual(multiattach.Admission(None, mode),
                                 admit(shared=True, holders=holders, instance=instance,
                                       mode=mode))

    def test_join_of_bootable_volume_needs_policy(self):
        # multiattach, bootable, taken, may join: whether it is forbidden
        for shared, bootable, taken, may in itertools.product((False, True), repeat=4):
            with self.subTest(shared=shared, bootable=bootable, taken=taken, may=may):
                facts = volume(shared=shared, bootable=bootable, taken=taken)
                rule = None if may else 'the:rule'
                if shared and bootable and taken and not may:
                    with self.assertRaises(errors.NotAuthorized) as caught:
                        multiattach.admit(facts, (), False, A, RW, rule)
                    self.assertEqual("Policy doesn't allow the:rule to be performed.",
                                     str(caught.exception))
                else:
                    self.assertEqual(multiattach.admit(facts, (), False, A, RW),
                                     multiattach.admit(facts, (), False, A, RW, rule))

    def test_status_error_precedes_policy_of_join(self):
        for own_status, kind in (('error', errors.InvalidVolume),
                                 ('maintenance', errors.NotAuthorized)):
            facts = volume(own_status, bootable=True, taken=True)
            self.assertRaises(kind, multiattach.admit, facts, (), False, A, RW, 'the:rule')

    def test_plain_volume_admits_first_holder(self):
        for own_status, instance, mode in itertools.product(
                ('available', 'downloading'), (None, A), MODES):
            self.assertEqual(multiattach.Admission(multiattach.HOLDER_SLOT, mode),
                             admit(own_status, instance=instance, mode=mode))

    def test_plain_volume_admits_second_attachment_of_server(self):
        # what holds it, what asks: whether it is admitted
        table = {(A, A): True, (A, B): False, (A, None): False, (None, A): False,
                 (None, None): False}
        for (first, second), admitted in table.items():
            for slot, mode, asked in itertools.product((0, 1), MODES, MODES):
                with self.subTest(first=first, second=second, slot=slot, mode=mode, asked=asked):
                    holders = [holder(first, mode, slot)]
                    if not admitted:
                        self.assertRaises(errors.InvalidVolume, admit, holders=holders,
                                          instance=second, mode=asked)
                        continue
                    self.assertEqual(
                        multiattach.Admission(1 - slot, asked if mode is None else mode),
                        admit(holders=holders, instance=second, mode=asked))

    def test_plain_volume_with_two_attachments_rejected(self):
        holders = [holder(A, RW, 0), holder(A, RW, 1)]
        for instance in (None, A, B):
            self.assertRaises(errors.InvalidVolume, admit, holders=holders, instance=instance)


class RefusalTest(unittest.TestCase):
    """Messages of refused attachments, which Nova and Tempest read."""

    def message(self, *args, **kwargs):
        with self.assertRaises(errors.InvalidVolume) as caught:
            admit(*args, **kwargs)
        return str(caught.exception)

    def test_refusal_names_shown_status(self):
        self.assertEqual(
            'Invalid volume: Volume the-volume status must be available or downloading to '
            'reserve, but the current status is in-use.',
            self.message(holders=[holder()], instance=B, shown='in-use'))

    def test_refusal_of_multiattach_volume_names_in_use(self):
        self.assertIn('available or in-use or downloading',
                      self.message('maintenance', shared=True))

    def test_refusal_names_error_status(self):
        for own_status in ('error', 'error_deleting', 'error_extending'):
            text = self.message(own_status)
            self.assertIn('error state', text)
            self.assertIn(own_status, text)


class ModeTest(unittest.TestCase):

    def test_mode_by_volume_and_request(self):
        # read-only, one writer, another writes, asked: what the new row gets
        for readonly, single, another, asked in itertools.product(
                (False, True), (False, True), (False, True), MODES):
            facts = volume(readonly=readonly, single_writer=single)
            with self.subTest(readonly=readonly, single=single, another=another, asked=asked):
                if readonly:
                    expected = RO
                elif not single:
                    expected = asked
                elif not another:
                    expected = asked or RW
                else:
                    expected = REFUSED if asked is RW else RO
                if expected is REFUSED:
                    self.assertRaises(errors.InvalidVolume, multiattach.mode_of, facts, another,
                                      asked)
                else:
                    self.assertIs(expected, multiattach.mode_of(facts, another, asked))
                    self.assertEqual(multiattach.Admission(None, expected),
                                     multiattach.admit(facts, (), another, A, asked))
