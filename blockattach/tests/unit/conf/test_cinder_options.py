"""The table of Cinder's options, and the handling of a carried-over cinder.conf."""
import os
import pathlib
import re
import tempfile
import unittest

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.storage.conf import backend
from blockattach.storage.conf import cinder_options
from blockattach.tests.unit.conf import test_unknown_options
from blockattach.wiring import options

TARGET = re.compile(r'\[(?P<group>\w+)\] (?P<name>\w+)')


class TableTest(unittest.TestCase):

    def test_options_have_one_row_each(self):
        for group, rows in cinder_options.GROUPS.items():
            names = [*rows.same.split(), *rows.unneeded.split(), *rows.renamed, *rows.stops]
            with self.subTest(group):
                self.assertEqual(sorted(set(names)), sorted(names))

    def test_targets_are_options_of_this_service(self):
        known = {(group, option.dest) for group, found in options.list_opts() for option in found}
        known |= {('BACKEND', option.dest) for option in backend.OPTS}
        for group, rows in cinder_options.GROUPS.items():
            for name, target in (*rows.renamed.items(), *(
                    (name, stop.now) for name, stop in rows.stops.items() if stop.now)):
                with self.subTest(group=group, name=name):
                    self.assertIn(tuple(TARGET.fullmatch(target).groups()), known)


class CarriedOverTest(unittest.TestCase):

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.path = pathlib.Path(folder, 'cinder.conf')

    def configured(self, text):
        self.path.write_text(text, 'utf-8')
        conf = cfg.ConfigOpts()
        test_unknown_options.read(conf, '--config-file', str(self.path))
        return conf

    def reason(self, text):
        with self.assertRaises(errors.ConfigurationError) as caught:
            options.check_supported(self.configured(text))
        return str(caught.exception)

    def test_unsupported_option_stops_start(self):
        for text, name, advice in (
                ('[DEFAULT]\nauth_strategy = keystone', '[DEFAULT] auth_strategy',
                 'set [api] auth_strategy instead'),
                ('[DEFAULT]\nauth-strategy = keystone', '[DEFAULT] auth_strategy', ''),
                ('[keystone_authtoken]\nauth_type = password', '[keystone_authtoken] auth_type',
                 'set [api] auth_strategy instead'),
                ('[DEFAULT]\nosapi_volume_use_ssl = True', '[DEFAULT] osapi_volume_use_ssl',
                 'set [api] tls_cert_file instead'),
                ('[SSL]\ncert_file = /x.pem', '[ssl] cert_file', 'set [api] tls_cert_file'),
                ('[DEFAULT]\nquota_volumes = 5', '[DEFAULT] quota_volumes',
                 'set [quota] quota_volumes instead'),
                ('[DEFAULT]\nvmdk_allowed_types = streamOptimized',
                 '[DEFAULT] vmdk_allowed_types', ''),
                ('[key_manager]\nfixed_key = 00', '[key_manager] fixed_key', 'remove it')):
            with self.subTest(text):
                reason = self.reason(text)
                self.assertIn(f'{name} in {self.path}', reason)
                self.assertIn(advice, reason)
                self.assertIn('[service] accept_unsupported', reason)

    def test_unsupported_options_reported_together(self):
        reason = self.reason('[DEFAULT]\nauth_strategy = keystone\n[ssl]\nciphers = HIGH\n')
        self.assertIn('auth_strategy', reason)
        self.assertIn('ciphers', reason)

    def test_supported_value_does_not_stop_start(self):
        for text in (
                '[DEFAULT]\nauth_strategy = noauth', '[DEFAULT]\nquota_volumes = 10',
                '[DEFAULT]\nosapi_volume_use_ssl = False',
                '[DEFAULT]\nvmdk_allowed_types = streamOptimized,monolithicSparse',
                '[DEFAULT]\nglance_ca_certificates_file =', '[DEFAULT]\ndebug = true',
                '[DEFAULT]\nauth_strategy = keystone\n[api]\nauth_strategy = keystone',
                '[DEFAULT]\nauth_strategy = keystone\n[api]\nauth_strategy = http_basic',
                '[keystone_authtoken]\nservice_token_roles = service',
                '[keystone_authtoken]\nauth_type = v3password\n[api]\nauth_strategy = keystone',
                '[ssl]\ncert_file = /x.pem\n[api]\ntls_cert_file = /x.pem'):
            with self.subTest(text):
                options.check_supported(self.configured(text))

    def test_accepted_option_does_not_stop_start(self):
        for name in ('auth_strategy', 'DEFAULT.auth_strategy', '[DEFAULT] auth_strategy'):
            with self.subTest(name):
                options.check_supported(self.configured(
                    '[DEFAULT]\nauth_strategy = keystone\n'
                    f'[service]\naccept_unsupported = {name}'))
        reason = self.reason('[DEFAULT]\nauth_strategy = keystone\n[ssl]\nversion = SSLv23\n'
                             '[service]\naccept_unsupported = ssl.version')
        self.assertNotIn('[ssl] version', reason)
        self.assertIn('[DEFAULT] auth_strategy', reason)

    def test_accepting_unknown_option_refused(self):
        self.assertIn('auth_strategi is not an option of Cinder that prevents the start',
                      self.reason('[service]\naccept_unsupported = auth_strategi'))

    def test_unsupported_option_in_environment_stops_start(self):
        before = os.environ.get('OS_DEFAULT__AUTH_STRATEGY')
        self.assertIsNone(before)
        os.environ['OS_DEFAULT__AUTH_STRATEGY'] = 'keystone'
        self.addCleanup(os.environ.pop, 'OS_DEFAULT__AUTH_STRATEGY')
        self.assertIn('[DEFAULT] auth_strategy in the environment', self.reason(''))

    def test_renamed_option_reported_with_new_name(self):
        [found] = options.find_unknown(self.configured('[DEFAULT]\nenabled_backends = a'))
        self.assertEqual('[volume] enabled_backends', found.nearest)

    def test_unneeded_option_reported_separately(self):
        conf = self.configured('[DEFAULT]\nrootwrap_config = /x\n')
        self.assertEqual([], options.find_unknown(conf))
        self.assertEqual([(str(self.path), 'DEFAULT', 'rootwrap_config')],
                         options.find_unneeded(conf))
