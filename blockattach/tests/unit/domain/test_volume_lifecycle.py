"""A volume's two words, from its own status and its attachments."""
import unittest

from blockattach.domain import volume_lifecycle as lifecycle

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
                    status = (STATUS_WHEN_AVAILABLE[rank] if own_status is Own.AVAILABLE
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


class RulesTest(unittest.TestCase):

    def test_what_is_being_worked_on_can_be_neither_deleted_nor_attached(self):
        for own_status in (Own.CREATING, Own.DELETING, Own.GONE):
            self.assertNotIn(own_status, lifecycle.DELETABLE)
            self.assertNotIn(own_status, lifecycle.RESERVABLE)

    def test_an_error_can_be_deleted_but_not_attached(self):
        for own_status in (Own.ERROR, Own.ERROR_DELETING):
            self.assertIn(own_status, lifecycle.DELETABLE)
            self.assertNotIn(own_status, lifecycle.RESERVABLE)
