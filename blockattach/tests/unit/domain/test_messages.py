"""User messages."""
import unittest

from blockattach.storage.domain import messages

TEXTS = {name: value for name, value in vars(messages).items()
         if isinstance(value, messages.Text)}


class TextTest(unittest.TestCase):

    def test_event_id(self):
        self.assertEqual('VOLUME_VOLUME_001_003', messages.NO_VALID_POOL.event_id)

    def test_user_message(self):
        self.assertEqual('schedule allocate volume:Could not find any available weighted backend.',
                         messages.NO_VALID_POOL.user_message)

    def test_event_ids_unique(self):
        self.assertGreater(len(TEXTS), 1)
        self.assertEqual(len(TEXTS), len({text.event_id for text in TEXTS.values()}))

    def test_action_and_detail_have_one_text(self):
        for numbers in ({(text.action_id, text.action) for text in TEXTS.values()},
                        {(text.detail_id, text.detail) for text in TEXTS.values()}):
            self.assertEqual(len(numbers), len({number for number, _ in numbers}))

    def test_event_id_numbers_have_three_digits(self):
        for name, text in TEXTS.items():
            self.assertRegex(text.event_id, r'^VOLUME_[A-Z_]+_\d{3}_\d{3}$', name)
