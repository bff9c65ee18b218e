"""Sealing at rest, and the key file."""
import multiprocessing
import os
import pathlib
import stat
import tempfile
import unittest

from cryptography import fernet

from blockattach import errors
from blockattach import secrets

PROCESSES = 4


def start_once(path, barrier, answers):
    """What each process does that starts for the first time."""
    barrier.wait()
    answers.put(secrets.load_sealer(path).seal('hunter2'))


class SealerTest(unittest.TestCase):

    def setUp(self):
        self.key = fernet.Fernet.generate_key()
        self.sealer = secrets.Sealer([self.key])

    def test_sealed_it_says_nothing_and_opens_again(self):
        for text in ('hunter2', '', 'x' * 1000, 'Schlüssel'):
            sealed = self.sealer.seal(text)
            self.assertNotIn(text or 'x' * 9, sealed)
            self.assertEqual(text, self.sealer.unseal(sealed))

    def test_the_same_text_is_sealed_differently_each_time(self):
        self.assertNotEqual(self.sealer.seal('hunter2'), self.sealer.seal('hunter2'))

    def test_a_credential_fits_its_column(self):
        credential = secrets.new_credential()
        self.assertLessEqual(len(self.sealer.seal(credential.password)), 255)
        self.assertLessEqual(len(credential.username), 64)

    def test_another_key_does_not_open_it(self):
        other = secrets.Sealer([fernet.Fernet.generate_key()])
        with self.assertRaises(errors.ConfigurationError) as caught:
            other.unseal(self.sealer.seal('hunter2'))
        self.assertNotIn('hunter2', str(caught.exception))

    def test_what_was_tampered_with_is_refused(self):
        sealed = self.sealer.seal('hunter2')
        swapped = 'A' if sealed[30] != 'A' else 'B'
        self.assertRaises(errors.ConfigurationError, self.sealer.unseal,
                          sealed[:30] + swapped + sealed[31:])
        self.assertRaises(errors.ConfigurationError, self.sealer.unseal, 'no token')

    def test_a_rotated_key_still_opens_what_it_sealed(self):
        old = self.sealer.seal('hunter2')
        new_key = fernet.Fernet.generate_key()
        rotated = secrets.Sealer([new_key, self.key])
        self.assertEqual('hunter2', rotated.unseal(old))
        self.assertEqual('hunter2', secrets.Sealer([new_key]).unseal(rotated.seal('hunter2')))


class CredentialTest(unittest.TestCase):

    def test_it_is_as_initiators_want_it(self):
        credential = secrets.new_credential()
        self.assertRegex(credential.username, '^[A-Za-z0-9]{20}$')
        self.assertRegex(credential.password, '^[A-Za-z0-9]{16}$')

    def test_each_is_new_and_none_is_printed(self):
        made = [secrets.new_credential() for _ in range(100)]
        self.assertEqual(100, len({credential.password for credential in made}))
        self.assertNotIn(made[0].password, repr(made))

    def test_no_name_looks_like_a_number(self):
        """LIO takes 0x and 0b for the beginning of one."""
        made = [secrets.new_credential() for _ in range(1000)]
        self.assertEqual([], [one.username for one in made if one.username[0].isdigit()])


class KeyFileTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / 'state' / 'keys'

    def load(self):
        return secrets.load_sealer(str(self.path))

    def test_the_first_start_makes_it_for_its_owner_only(self):
        sealed = self.load().seal('hunter2')
        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE(self.path.parent.stat().st_mode))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))
        self.assertEqual('hunter2', self.load().unseal(sealed))

    def test_a_key_on_top_seals_and_the_older_still_opens(self):
        old = self.load().seal('hunter2')
        new_key = fernet.Fernet.generate_key()
        self.path.write_bytes(new_key + b'\n' + self.path.read_bytes())
        rotated = self.load()
        self.assertEqual('hunter2', rotated.unseal(old))
        self.assertEqual('hunter2', secrets.Sealer([new_key]).unseal(rotated.seal('hunter2')))

    def test_a_file_without_a_valid_key_is_an_error_and_stays(self):
        self.path.parent.mkdir()
        for text in ('', '\n', 'no key\n', 'c2hvcnQ=\n'):
            with self.subTest(text=text):
                self.path.write_text(text)
                with self.assertRaises(errors.ConfigurationError) as caught:
                    self.load()
                self.assertIn(str(self.path), str(caught.exception))
                self.assertEqual(text, self.path.read_text())

    def test_a_place_where_no_file_can_be_is_an_error(self):
        self.path.parent.write_text('a file where the directory should be')
        self.assertRaises(errors.ConfigurationError, self.load)

    def test_processes_that_start_at_once_have_one_key(self):
        context = multiprocessing.get_context('fork' if os.name == 'posix' else 'spawn')
        barrier, answers = context.Barrier(PROCESSES), context.Queue()
        processes = [context.Process(target=start_once, args=(str(self.path), barrier, answers))
                     for _ in range(PROCESSES)]
        for process in processes:
            process.start()
        sealed = [answers.get(timeout=60) for _ in processes]
        for process in processes:
            process.join(60)
        sealer = self.load()
        self.assertEqual(['hunter2'] * PROCESSES, [sealer.unseal(text) for text in sealed])
        self.assertEqual([self.path], list(self.path.parent.iterdir()))
