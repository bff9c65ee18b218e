"""What a type means: its extra specs, and its encryption."""
import datetime
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type

NOW = datetime.datetime(2026, 1, 1)


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


def kind(control_location=None, **extra_specs):
    """A type; without a control location its volumes are plain."""
    encryption = control_location and records.TypeEncryption(
        'e', 't', 'luks', control_location, None, None, NOW, None)
    return records.VolumeType('t', 'secret', None, True, extra_specs, NOW, None, encryption)


class CacheTest(unittest.TestCase):

    def test_what_is_shared_is_not_cached(self):
        with self.assertRaisesRegex(errors.InvalidInput, 'cacheable cannot be set with multi'):
            volume_type.check_specs({'multiattach': '<is> True', 'cacheable': '<is> True'})
        for specs in ({}, {'multiattach': '<is> True'}, {'cacheable': '<is> True'},
                      {'multiattach': '<is> False', 'cacheable': '<is> True'}):
            volume_type.check_specs(specs)


class EncryptionTest(unittest.TestCase):

    def test_what_is_encrypted_is_not_shared(self):
        for location in volume_type.CONTROL_LOCATIONS:
            for value in ('<is> True', '<is> true', 'YES'):
                with self.subTest(location=location, value=value):
                    self.assertRaises(errors.EncryptedMultiattach, volume_type.check_usable,
                                      kind(location, multiattach=value))

    def test_each_alone(self):
        for one in (kind(), kind(multiattach='<is> True'), kind('back-end'),
                    kind('back-end', multiattach='<is> False')):
            volume_type.check_usable(one)

    def test_consumers_have_no_keys(self):
        self.assertRaisesRegex(errors.KeyManagerMissing, 'type secret', volume_type.check_usable,
                               kind('front-end'))
