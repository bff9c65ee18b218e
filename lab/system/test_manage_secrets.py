"""``blockattach-manage secrets`` beside a running service."""
import pathlib
import re

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.functional import base
from blockattach.tests.functional import test_manage


class SecretsTest(test_manage.ManageTestCase):
    """Rotation of keys during attachments, and repair after the loss of a key."""

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.service = self.a_stack('file')
        self.state_dir = self.service.state_dir
        self.api = base.Api(self.service.endpoint)
        self.key_file = pathlib.Path(self.state_dir) / 'seal.key'

    def attached(self, host):
        """Create an attachment, and return its id and password."""
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': self.a_volume(self.api), 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self.assertEqual(200, status, made)
        return made['attachment']['id'], self.password(made)

    def password(self, shown):
        return shown['attachment']['connection_info']['auth_password']

    def shown(self, attachment_id):
        return self.password(self.api.ask('GET', f'/attachments/{attachment_id}')[1])

    def counted(self):
        """Return the state of each key and its number of credentials, as printed by the command.
        """
        self.check(0, 'secrets', 'check')
        return [tuple(line.split()[1:]) for line in self.said.splitlines()[1:]]

    def test_a_key_is_replaced_while_everybody_works(self):
        first = dict([self.attached('one')])
        before = self.key_file.read_text()
        self.refused('only one key exists', 'secrets', 'rotate', '--promote')
        self.check(0, 'secrets', 'rotate', '--prepare')
        self.refused('a second key already exists', 'secrets', 'rotate', '--prepare')
        first |= dict([self.attached('two')])
        self.assertEqual([('seals', '2'), ('opens', '0')], self.counted())
        self.check(0, 'secrets', 'rotate', '--promote')
        self.refused('are not sealed with key', 'secrets', 'rotate', '--finish')
        first |= dict([self.attached('three')])
        self.assertEqual([('seals', '1'), ('opens', '2')], self.counted())
        self.refused('credentials are already sealed', 'secrets', 'rotate', '--promote')
        self.check(0, 'secrets', 'rotate', '--reseal')
        self.assertRegex(self.said, '^2 credentials resealed')
        self.assertEqual([('seals', '3'), ('opens', '0')], self.counted())
        self.check(0, 'secrets', 'rotate', '--finish')
        after = self.key_file.read_text()
        self.assertEqual(1, len(after.split()))
        self.assertNotEqual(before, after)
        first |= dict([self.attached('four')])
        self.assertEqual(first, {one: self.shown(one) for one in first})
        self.service.stop()
        self.service.start()
        self.assertEqual(first, {one: self.shown(one) for one in first})
        for line in (self.service.log_text(), self.said):
            self.assertNotIn(before.strip(), line)
            self.assertNotIn(after.strip(), line)

    def test_a_lost_key(self):
        attachment_id, password = self.attached('one')
        self.service.stop()
        self.key_file.unlink()
        with self.assertRaisesRegex(stack.StackRefused, 'blockattach-manage secrets check'):
            self.service.start()
        self.check(3, 'secrets', 'check')
        self.assertRegex(self.said, f'iqn.2026-01.org.example:one +{attachment_id}\n')
        self.refused('cannot decrypt sealed credentials', 'secrets', 'rotate', '--prepare')
        self.check(0, 'secrets', 'check', '--forget')
        self.assertIn(attachment_id, self.said)
        self.check(0, 'secrets', 'check')
        self.assertNotIn(attachment_id, self.said)
        self.service.start()
        # The host receives new credentials with its next connect.
        status, made = self.api.ask('PUT', f'/attachments/{attachment_id}', {
            'attachment': {'connector': base.connector('one')}})
        self.assertEqual(200, status, made)
        fresh = self.password(made)
        self.assertTrue(re.fullmatch('[A-Za-z0-9]{16}', fresh))
        self.assertNotEqual(password, fresh)
        self.assertEqual(fresh, self.shown(attachment_id))
