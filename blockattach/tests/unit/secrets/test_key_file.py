"""Key file for sealing: its creation, and changes while it is in use."""
import multiprocessing
import os
import pathlib
import stat
import tempfile
import threading
import unittest
from concurrent import futures

from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.platform.secrets import key_file
from blockattach.tests.fixtures import polling

PROCESSES = 4
THREADS = 4


def start_once(path, barrier, answers):
    """Open the key file as a process that starts for the first time, and seal a text."""
    barrier.wait()
    answers.put(key_file.KeyFile(path).seal('hunter2'))


class KeyFileTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / 'state' / 'keys'

    def load(self):
        return key_file.KeyFile(str(self.path))

    def test_first_start_creates_private_key_file(self):
        sealed = self.load().seal('hunter2')
        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE(self.path.parent.stat().st_mode))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))
        self.assertEqual('hunter2', self.load().unseal(sealed))

    def test_invalid_key_file_rejected_and_kept(self):
        self.path.parent.mkdir()
        self.path.touch(0o600)
        for text in ('', '\n', 'no key\n', 'c2hvcnQ=\n', f'{secrets.new_key().decode()}\nno key'):
            with self.subTest(text=text):
                self.path.write_text(text)
                with self.assertRaises(errors.ConfigurationError) as caught:
                    self.load()
                self.assertIn(str(self.path), str(caught.exception))
                self.assertEqual(text, self.path.read_text())

    def test_key_file_readable_by_others_rejected(self):
        sealed = self.load().seal('hunter2')
        for mode in (0o640, 0o604, 0o666):
            self.path.chmod(mode)
            with self.assertRaisesRegex(errors.ConfigurationError,
                                        f'mode {mode:04o}.. Run: chmod 600 {self.path}'):
                self.load()
        self.path.chmod(0o400)
        self.assertEqual('hunter2', self.load().unseal(sealed))

    def test_key_file_in_unusable_folder_rejected(self):
        self.path.parent.write_text('a file where the directory should be')
        self.assertRaises(errors.ConfigurationError, self.load)

    def test_concurrent_first_starts_share_key(self):
        context = multiprocessing.get_context('fork' if os.name == 'posix' else 'spawn')
        barrier, answers = context.Barrier(PROCESSES), context.Queue()
        processes = [context.Process(target=start_once, args=(str(self.path), barrier, answers))
                     for _ in range(PROCESSES)]
        for process in processes:
            process.start()
        sealed = [answers.get(timeout=polling.LIMIT) for _ in processes]
        for process in processes:
            process.join(polling.LIMIT)
        sealer = self.load()
        self.assertEqual(['hunter2'] * PROCESSES, [sealer.unseal(text) for text in sealed])
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_key_rotation_noticed_by_running_process(self):
        running, operator = self.load(), self.load()
        old = running.seal('hunter2')
        first = running.ring()[0].id
        self.assertIn('for decryption only', operator.add())
        self.assertEqual([first], [key.id for key in running.ring()][:1])
        self.assertEqual(2, len(running.ring()))
        self.assertEqual(first, running.key_of(running.seal('x')))
        second = running.ring()[1].id
        self.assertIn(second, operator.promote())
        self.assertEqual((second, first), tuple(key.id for key in running.ring()))
        self.assertEqual('hunter2', running.unseal(old))
        self.assertEqual(second, running.key_of(running.seal('x')))
        self.assertIn(second, operator.keep_first())
        # What was read before is opened; nothing else knows the key any more.
        self.assertEqual('hunter2', running.unseal(old))
        self.assertIsNone(running.key_of(old))
        self.assertRaises(errors.ConfigurationError, self.load().unseal, old)
        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_invalid_change_keeps_keys(self):
        running = self.load()
        sealed = running.seal('hunter2')
        self.path.write_text('no key at all')
        with self.assertLogs('blockattach', 'ERROR') as logged:
            self.assertEqual('hunter2', running.unseal(sealed))
        self.assertNotIn('no key at all', logged.output[0])

    def test_concurrent_key_change_refused(self):
        first, second = self.load(), self.load()
        with (first.alone(),
              self.assertRaisesRegex(errors.ConfigurationError, 'another process is changing'),
              second.alone()):
            self.fail('both are at it')
        with second.alone():
            pass

    def test_threads_see_changed_keys_at_once(self):
        """No thread may get the previous keys after the change."""
        running, operator = self.load(), self.load()
        for _ in range(20):
            barrier = threading.Barrier(THREADS)

            def look(barrier=barrier):
                barrier.wait()
                return [len(running.ring()) for _ in range(50)]

            operator.add()
            with futures.ThreadPoolExecutor(THREADS) as pool:
                asked = [pool.submit(look) for _ in range(THREADS)]
                self.assertEqual({2}, {count for one in asked for count in one.result()})
            operator.keep_first()
            self.assertEqual(1, len(running.ring()))
