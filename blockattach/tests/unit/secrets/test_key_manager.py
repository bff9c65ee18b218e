"""Sealing with keys of a key manager through Castellan."""
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
        """Create a key in the key manager and return its name from the printed text."""
        return sealer.add().split()[1]

    def test_sealed_text_opened_by_other_process(self):
        sealed = self.sealer().seal('hunter2')
        self.assertEqual('hunter2', self.sealer().unseal(sealed))

    def test_key_rotation_by_configuration(self):
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

    def test_unknown_key_rejected(self):
        self.named.append('3c1e8a4e-0000-4000-8000-000000000000')
        with self.assertRaisesRegex(errors.ConfigurationError, self.named[1]):
            self.sealer()

    def test_failed_reload_keeps_keys(self):
        running = self.sealer()
        sealed = running.seal('hunter2')
        self.named.append('3c1e8a4e-0000-4000-8000-000000000000')
        with self.assertLogs('blockattach', 'ERROR'):
            running.reload()
        self.assertEqual('hunter2', running.unseal(sealed))

    def test_key_of_wrong_size_rejected(self):
        store = shared_keys.SharedKeys(self.conf)
        short = symmetric_key.SymmetricKey('AES', 128, b'x' * 16)
        self.named.append(store.store('context', short))
        with self.assertRaisesRegex(errors.ConfigurationError, 'does not have 256 bits'):
            self.sealer()

    def test_key_manager_failure_hides_password(self):
        self.configure('nothing')
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.sealer()
        self.assertNotIn('geheim', str(caught.exception))
