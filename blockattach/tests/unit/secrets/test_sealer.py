"""Sealing of secrets at rest, independent of the source of the keys."""
import unittest

from cryptography import fernet

from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.storage.domain import connection


class SealerTest(unittest.TestCase):

    def setUp(self):
        self.key = secrets.new_key()
        self.sealer = secrets.Sealer([self.key])

    def test_sealed_text_hidden_and_unsealed(self):
        for text in ('hunter2', '', 'x' * 1000, 'Schlüssel'):
            sealed = self.sealer.seal(text)
            self.assertNotIn(text or 'x' * 9, sealed)
            self.assertEqual(text, self.sealer.unseal(sealed))

    def test_sealed_texts_differ(self):
        self.assertNotEqual(self.sealer.seal('hunter2'), self.sealer.seal('hunter2'))

    def test_sealed_credential_fits_column(self):
        credential = connection.new_credential()
        self.assertLessEqual(len(self.sealer.seal(credential.password)), 255)
        self.assertLessEqual(len(credential.username), 64)

    def test_unseal_with_other_key_fails(self):
        other = secrets.Sealer([secrets.new_key()])
        sealed = self.sealer.seal('hunter2')
        with self.assertRaises(errors.ConfigurationError) as caught:
            other.unseal(sealed)
        self.assertNotIn('hunter2', str(caught.exception))
        self.assertIsNone(other.key_of(sealed))

    def test_unseal_of_modified_text_fails(self):
        sealed = self.sealer.seal('hunter2')
        swapped = 'A' if sealed[30] != 'A' else 'B'
        self.assertRaises(errors.ConfigurationError, self.sealer.unseal,
                          sealed[:30] + swapped + sealed[31:])
        self.assertRaises(errors.ConfigurationError, self.sealer.unseal, 'no token')

    def test_first_key_seals_and_each_key_unseals(self):
        old = self.sealer.seal('hunter2')
        new_key = secrets.new_key()
        rotated = secrets.Sealer([new_key, self.key])
        self.assertEqual('hunter2', rotated.unseal(old))
        again = rotated.seal('hunter2')
        self.assertEqual('hunter2', secrets.Sealer([new_key]).unseal(again))
        self.assertEqual([key.id for key in rotated.ring()],
                         [rotated.key_of(again), rotated.key_of(old)])

    def test_invalid_key_rejected(self):
        for text in (b'', b'no key', b'c2hvcnQ='):
            self.assertRaises(ValueError, secrets.Sealer, [text])

    def test_key_id_fits_column_and_hides_key(self):
        [key] = self.sealer.ring()
        self.assertRegex(key.id, '^[0-9a-f]{16}$')
        self.assertEqual(key.id, secrets.Key(self.key + b'\n').id)
        self.assertNotIn(key.id.encode(), self.key)

    def test_given_keys_cannot_be_changed(self):
        for change in (self.sealer.add, self.sealer.promote, self.sealer.keep_first):
            self.assertRaises(errors.ConfigurationError, change)

    def test_sealed_text_is_fernet_token(self):
        self.assertEqual(b'hunter2', fernet.Fernet(self.key).decrypt(self.sealer.seal('hunter2')))


class CredentialTest(unittest.TestCase):

    def test_credential_has_lengths_for_initiators(self):
        credential = connection.new_credential()
        self.assertRegex(credential.username, '^[A-Za-z0-9]{20}$')
        self.assertRegex(credential.password, '^[A-Za-z0-9]{16}$')

    def test_credentials_differ_and_repr_hides_password(self):
        made = [connection.new_credential() for _ in range(100)]
        self.assertEqual(100, len({credential.password for credential in made}))
        self.assertNotIn(made[0].password, repr(made))

    def test_username_does_not_start_with_digit(self):
        """LIO takes a value that starts with 0x or 0b for a number."""
        made = [connection.new_credential() for _ in range(1000)]
        self.assertEqual([], [one.username for one in made if one.username[0].isdigit()])

    def test_password_letters_equally_likely(self):
        drawn = ''.join(connection.new_credential().password for _ in range(3000))
        share = sum(map(drawn.count, 'abcdefgh')) / len(drawn)
        self.assertAlmostEqual(8 / 62, share, delta=0.015)
