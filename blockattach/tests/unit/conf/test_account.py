"""Accounts as in a cinder.conf, with any keystoneauth plugin."""
import pathlib
import tempfile
import unittest

from keystoneauth1.identity import v3
from oslo_config import cfg

from blockattach.compute import conf as compute_conf
from blockattach.platform import errors
from blockattach.platform import identity
from blockattach.platform.conf import account
from blockattach.storage.conf import glance
from blockattach.storage.conf import nova
from blockattach.storage.conf import service_user
from blockattach.tests.unit.conf import test_unknown_options
from blockattach.wiring import options

READERS = (('nova', nova.settings), ('glance', glance.settings),
           ('block_storage', compute_conf.storage_settings))
PASSWORD = """
auth_type = password
auth_url = https://identity.example.org/v3/
user_domain_id = default
project_domain_id = default
project_name = services
username = cinder
password = SECRET
region_name = two
valid_interfaces = internal,public
"""
CREDENTIAL = """
auth_type = v3applicationcredential
auth_url = https://identity.example.org
application_credential_id = 0123
application_credential_secret = SECRET
"""


class AccountTest(unittest.TestCase):

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.path = pathlib.Path(folder, 'blockattach.conf')

    def configured(self, text):
        self.path.write_text(text, 'utf-8')
        conf = cfg.ConfigOpts()
        test_unknown_options.read(conf, '--config-file', str(self.path))
        return conf

    def test_password_plugin_with_domain_ids(self):
        for group, read in READERS:
            with self.subTest(group):
                found = read(self.configured(f'[{group}]{PASSWORD}'))
                self.assertTrue(found.has_account)
                self.assertFalse(found.is_basic)
                self.assertEqual(['internal', 'public'], found.interfaces)
                self.assertEqual('https://identity.example.org/v3', found.keystone)
                self.assertNotIn('SECRET', repr(found))
                plugin = identity.own(found)
                self.assertEqual('https://identity.example.org/v3/', plugin.auth_url)

    def test_application_credential_plugin(self):
        for group, read in READERS:
            with self.subTest(group):
                plugin = identity.own(read(self.configured(f'[{group}]{CREDENTIAL}')))
                self.assertIsInstance(plugin, v3.ApplicationCredential)
                # Defaults are not passed on, because such a credential has its project.
                self.assertIsNone(plugin.project_name)

    def test_service_user_read_if_token_is_sent(self):
        self.assertIsNone(service_user.settings(self.configured(f'[service_user]{PASSWORD}')))
        found = service_user.settings(self.configured(
            f'[service_user]{PASSWORD}send_service_user_token = true\n'))
        self.assertTrue(found.has_account)
        with self.assertRaises(errors.ConfigurationError):
            service_user.settings(self.configured(
                '[service_user]\nsend_service_user_token = true\n'))

    def test_account_in_auth_section(self):
        conf = self.configured(
            f'[nova]\nauth_section = mine\nregion_name = one\n[mine]{CREDENTIAL}')
        found = nova.settings(conf)
        self.assertIsInstance(identity.own(found), v3.ApplicationCredential)
        self.assertEqual('one', found.region_name)
        self.assertEqual([], options.find_unknown(conf))

    def test_options_of_plugin_known(self):
        conf = self.configured(f'[nova]{CREDENTIAL}user_domain_idd = x\n')
        account.register(conf, 'nova')
        [found] = options.find_unknown(conf)
        self.assertEqual(('user_domain_idd', 'user_domain_id'), (found.name, found.nearest))

    def test_account_without_plugin_by_former_names(self):
        found = nova.settings(self.configured(
            '[nova]\nauth_url = https://identity.example.org\nusername = nova\n'
            'password = x\ninterface = internal\n'))
        self.assertEqual(['internal'], found.interfaces)
        self.assertIsInstance(identity.own(found), v3.Password)

    def test_unusable_plugin_names_option(self):
        for text, words in (
                ('auth_type = v4password', 'v4password'),
                ('auth_type = v3applicationcredential\nauth_url = https://x',
                 'application_credential_secret')):
            with self.subTest(text):
                with self.assertRaises(errors.ConfigurationError) as caught:
                    nova.settings(self.configured(f'[nova]\n{text}\n'))
                self.assertIn(f'[nova] auth_type in {self.path}', str(caught.exception))
                self.assertIn(words, str(caught.exception).replace('-', '_'))
