"""Meaning of the extra specs and of the encryption of a volume type."""
import datetime
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type

NOW = datetime.datetime(2026, 1, 1)


class MultiattachTest(unittest.TestCase):

    def test_multiattach_spec_true(self):
        for value in ('<is> True', '<is> true', '<is>  TRUE ', 'True', 'yes', '<is> 1', 'on', 'y',
                      't'):
            self.assertTrue(volume_type.is_multiattach({'multiattach': value}), value)

    def test_multiattach_spec_false(self):
        for value in ('<is> False', 'False', '', '<is>', '<is> True or so', '<in> True', 'no', '0',
                      '<or> True', 'TrueTrue'):
            self.assertFalse(volume_type.is_multiattach({'multiattach': value}), value)

    def test_multiattach_spec_missing_is_false(self):
        self.assertFalse(volume_type.is_multiattach({}))
        self.assertFalse(volume_type.is_multiattach({'Multiattach': '<is> True'}))


def kind(control_location=None, **extra_specs):
    """Return a volume type, which is encrypted if it has a control location."""
    encryption = control_location and records.TypeEncryption(
        'e', 't', 'luks', control_location, None, None, NOW, None)
    return records.VolumeType('t', 'secret', None, True, extra_specs, NOW, None, encryption)


class CacheTest(unittest.TestCase):

    def test_cacheable_multiattach_type_rejected(self):
        with self.assertRaisesRegex(errors.InvalidInput, 'cacheable cannot be set with multi'):
            volume_type.check_specs({'multiattach': '<is> True', 'cacheable': '<is> True'})
        for specs in ({}, {'multiattach': '<is> True'}, {'cacheable': '<is> True'},
                      {'multiattach': '<is> False', 'cacheable': '<is> True'}):
            volume_type.check_specs(specs)


class EncryptionTest(unittest.TestCase):

    def test_encrypted_multiattach_type_rejected(self):
        for location in volume_type.CONTROL_LOCATIONS:
            for value in ('<is> True', '<is> true', 'YES'):
                with self.subTest(location=location, value=value):
                    self.assertRaises(errors.EncryptedMultiattach, volume_type.check_usable,
                                      kind(location, multiattach=value))

    def test_encrypted_or_multiattach_type_usable(self):
        for one in (kind(), kind(multiattach='<is> True'), kind('back-end'),
                    kind('back-end', multiattach='<is> False')):
            volume_type.check_usable(one)

    def test_front_end_encryption_without_key_manager_rejected(self):
        self.assertRaisesRegex(errors.KeyManagerMissing, 'type secret', volume_type.check_usable,
                               kind('front-end'))
