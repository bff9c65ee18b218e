"""Keys in a key manager, by Castellan."""
import tempfile
import unittest

from castellan.common.objects import symmetric_key
from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.secrets import key_manager
from blockattach.tests.unit.secrets import shared_keys

SETTINGS = """
[key_manager]
backend = {backend}
auth_type = {auth_type}
username = blockattach
password = geheim
"""


class KeyManagerTest(unittest.TestCase):

    def setUp(self):
        self.configure('password')
        self.named = []
        self.addCleanup(shared_keys.SharedKeys.KEYS.clear)
        self.named.append(self.made(self.sealer()))

    def configure(self, auth_type):
        self.conf = cfg.ConfigOpts()
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            file.write(SETTINGS.format(backend=shared_keys.BACKEND, auth_type=auth_type))
            file.flush()
            self.conf(['--config-file', file.name])

    def sealer(self):
        return key_manager.KeyManagerSealer(self.conf, lambda: self.named)

    def made(self, sealer):
        """The name of a key that the key manager makes, out of what the operator reads."""
        return sealer.add().split()[1]

    def test_processes_open_what_others_sealed(self):
        sealed = self.sealer().seal('hunter2')
        self.assertEqual('hunter2', self.sealer().unseal(sealed))

    def test_a_key_is_replaced_by_configuration(self):
        running = self.sealer()
        old = running.seal('hunter2')
        first = running.ring()[0].id
        self.named.append(self.made(running))
        self.assertEqual([first], [key.id for key in running.ring()])
        running.reload()
        self.assertEqual((2, first), (len(running.ring()), running.ring()[0].id))
        self.assertIn('seal_key_ids', running.promote())
        self.named.reverse()
        running.reload()
        self.assertNotEqual(first, running.ring()[0].id)
        self.assertEqual('hunter2', running.unseal(old))
        self.assertIn('seal_key_ids', running.keep_first())
        del self.named[1]
        running.reload()
        self.assertEqual('hunter2', running.unseal(old))
        self.assertIsNone(running.key_of(old))
        self.assertRaises(errors.ConfigurationError, self.sealer().unseal, old)

    def test_a_key_that_is_not_there_is_reported(self):
        self.named.append('3c1e8a4e-0000-4000-8000-000000000000')
        with self.assertRaisesRegex(errors.ConfigurationError, self.named[1]):
            self.sealer()

    def test_keys_that_cannot_be_fetched_anew_leave_the_former(self):
        running = self.sealer()
        sealed = running.seal('hunter2')
        self.named.append('3c1e8a4e-0000-4000-8000-000000000000')
        with self.assertLogs('blockattach', 'ERROR'):
            running.reload()
        self.assertEqual('hunter2', running.unseal(sealed))

    def test_what_is_no_key_of_ours_is_reported(self):
        store = shared_keys.SharedKeys(self.conf)
        short = symmetric_key.SymmetricKey('AES', 128, b'x' * 16)
        self.named.append(store.store('context', short))
        with self.assertRaisesRegex(errors.ConfigurationError, 'does not have 256 bits'):
            self.sealer()

    def test_one_that_does_not_answer_is_reported_without_secrets(self):
        self.configure('nothing')
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.sealer()
        self.assertNotIn('geheim', str(caught.exception))
