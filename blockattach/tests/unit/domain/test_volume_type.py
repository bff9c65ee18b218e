"""What the extra specs of a type mean."""
import unittest

from blockattach.domain import volume_type


class MultiattachTest(unittest.TestCase):

    def test_words_that_mean_yes(self):
        for value in ('<is> True', '<is> true', '<is>  TRUE ', 'True', 'yes', '<is> 1', 'on', 'y',
                      't'):
            self.assertTrue(volume_type.is_multiattach({'multiattach': value}), value)

    def test_words_that_mean_no(self):
        for value in ('<is> False', 'False', '', '<is>', '<is> True or so', '<in> True', 'no', '0',
                      '<or> True', 'TrueTrue'):
            self.assertFalse(volume_type.is_multiattach({'multiattach': value}), value)

    def test_a_type_that_says_nothing(self):
        self.assertFalse(volume_type.is_multiattach({}))
        self.assertFalse(volume_type.is_multiattach({'Multiattach': '<is> True'}))
