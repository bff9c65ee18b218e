"""Configuration of the authentication, whose errors are reported at the start."""
import pathlib
import sys

import bcrypt
import webob

from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.http import keystone
from blockattach.platform.http import middleware
from blockattach.tests.unit.wiring import test_wiring
from blockattach.wiring import authentication

PASSWORD = {'auth_type': 'password', 'auth_url': 'http://127.0.0.1:1/v3', 'username': 'u',
            'password': 'canary', 'project_name': 'p'}


class Case(test_wiring.WiringTestCase):

    def setUp(self):
        super().setUp()
        self.file = pathlib.Path(self.conf.state_path, 'blockattach.conf')

    def configure(self, text):
        self.file.write_text(text)
        self.conf.reset()
        self.conf.clear_override('state_path')
        self.conf(['--config-file', str(self.file)], project='blockattach')

    def settings(self):
        return api_conf.settings(self.conf)

    def refused(self, act, *words):
        with self.assertRaises(errors.ConfigurationError) as caught:
            act()
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotIn('\n', str(caught.exception))


class AddressTest(Case):

    def check(self):
        authentication.check_address(self.conf, self.settings())

    def test_noauth_listens_on_loopback_only(self):
        for host in ('127.0.0.1', 'localhost', '::1'):
            self.configure(f'[api]\nhost = {host}\n')
            self.check()
        for host in ('0.0.0.0', '::', '192.0.2.1', 'no-such-name.invalid', '""'):
            with self.subTest(host=host):
                self.configure(f'[api]\nhost = {host}\n')
                self.refused(self.check, 'cannot listen on', '[api] host in', str(self.file),
                             'auth_strategy')

    def test_authenticated_api_listens_on_any_address(self):
        for strategy, tls in (('keystone', ''), ('http_basic', 'tls_cert_file = x')):
            self.configure(f'[api]\nhost = 0.0.0.0\nauth_strategy = {strategy}\n{tls}\n')
            with self.assertNoLogs('blockattach.wiring.authentication'):
                self.check()

    def test_http_basic_without_tls_logged(self):
        self.configure('[api]\nhost = 0.0.0.0\nauth_strategy = http_basic\n')
        with self.assertLogs('blockattach.wiring.authentication', 'WARNING'):
            self.check()

    def test_tls_key_or_ca_without_certificate_rejected(self):
        for name in ('tls_key_file', 'tls_client_ca_file'):
            self.configure(f'[api]\n{name} = x\n')
            self.refused(self.settings, f'[api] {name} in {self.file}', 'without tls_cert_file')


class AuthenticationTest(Case):

    def build(self):
        made = authentication.build_authentication(self.conf, self.settings())
        return middleware.application(made.layers, lambda request: None)

    def keystone(self, **options):
        lines = ''.join(f'{name} = {value}\n' for name, value in options.items()
                        if value is not None)
        self.configure(f'[api]\nauth_strategy = keystone\n[keystone_authtoken]\n{lines}')

    def test_missing_or_invalid_http_basic_files_rejected(self):
        users = pathlib.Path(self.conf.state_path, 'htpasswd')
        roles = pathlib.Path(self.conf.state_path, 'roles')
        text = (f'[api]\nauth_strategy = http_basic\nhttp_basic_auth_user_file = {users}\n'
                f'http_basic_auth_roles_file = {roles}\n')
        self.configure(text)
        self.refused(self.build, f'cannot read {users}: No such file',
                     f'[api] http_basic_auth_user_file in {self.file}')
        users.write_text('ann:plain\n')
        self.refused(self.build, f'cannot read {users}: line 1')
        users.write_text(f'ann:{bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode()}\n')
        self.refused(self.build, f'cannot read {roles}: No such file',
                     f'[api] http_basic_auth_roles_file in {self.file}')
        roles.write_text('ann\n')
        self.refused(self.build, f'cannot read {roles}: line 1')
        roles.write_text('ann:shop:member\n')
        self.build()

    def test_start_without_keystone_reachable(self):
        self.keystone(**PASSWORD)
        self.build()
        group = self.conf[keystone.GROUP]
        self.assertTrue(group.service_token_roles_required)
        self.assertEqual(['service'], group.service_token_roles)

    def test_incomplete_keystone_account_rejected(self):
        for options, words in (
                ({'auth_type': None}, '[keystone_authtoken] auth_type, not set in'),
                ({'auth_type': 'admin_token'}, '[keystone_authtoken] auth_type in'),
                ({'auth_url': None}, '[keystone_authtoken] auth_url, not set in')):
            self.keystone(**{**PASSWORD, 'www_authenticate_uri': 'http://127.0.0.1:1', **options})
            for act in (self.build, self.check_of_projects):
                with self.subTest(options=options, act=act.__name__):
                    self.refused(act, 'cannot use [api] auth_strategy = keystone',
                                 words, str(self.file))

    def check_of_projects(self):
        authentication.build_project_check(self.conf, self.settings())

    def test_invalid_auth_token_options_rejected(self):
        for options, words in (
                ({'auth_type': 'no-such'}, 'no-such'),
                ({'memcache_security_strategy': 'ENCRYPT'}, 'memcache_secret_key'),
                ({'memcache_tls_enabled': 'true', 'memcache_tls_cafile': '/no/such/file'},
                 'No such file'),
                ({'memcache_security_strategy': 'best'}, 'memcache_security_strategy'),
                ({'http_connect_timeout': 'long'}, 'http_connect_timeout')):
            with self.subTest(options=options):
                self.keystone(**{**PASSWORD, **options})
                self.refused(self.build, words)

    def test_missing_memcached_library_rejected(self):
        for options, module in (({}, 'memcache'),
                                ({'memcache_tls_enabled': 'true'}, 'bmemcached')):
            self.keystone(**PASSWORD, memcached_servers='127.0.0.1:1', **options)
            self.build()
            before = sys.modules.get(module)
            sys.modules[module] = None
            try:
                self.refused(self.build, 'is not installed',
                             f'[keystone_authtoken] memcached_servers in {self.file}')
            finally:
                del sys.modules[module]
                if before is not None:
                    sys.modules[module] = before

    def test_keystone_account_in_auth_section(self):
        self.configure('[api]\nauth_strategy = keystone\n[keystone_authtoken]\n'
                       'auth_section = account\n[account]\n')
        self.refused(self.build, f'[account] auth_type, not set in {self.file}')
        self.configure('[api]\nauth_strategy = keystone\n[keystone_authtoken]\n'
                       'auth_section = account\n[account]\n' + ''.join(
                           f'{name} = {value}\n' for name, value in PASSWORD.items()))
        self.build()

    def test_invalid_oslo_middleware_option_rejected(self):
        self.configure('[oslo_middleware]\nenable_proxy_headers_parsing = perhaps\n')
        self.refused(lambda: authentication.build_outer_middleware(self.conf, self.settings()),
                     f'[oslo_middleware] enable_proxy_headers_parsing in {self.file}')

    def test_noauth_refuses_remote_client_before_proxy_headers(self):
        self.configure('[oslo_middleware]\nenable_proxy_headers_parsing = true\n')
        layers = authentication.build_outer_middleware(self.conf, self.settings())
        application = middleware.application(layers, served)
        for environ, status in (({'REMOTE_ADDR': '127.0.0.1'}, 200),
                                ({'REMOTE_ADDR': '192.0.2.1',
                                  'HTTP_X_FORWARDED_FOR': '127.0.0.1'}, 403)):
            answer = webob.Request.blank('/', environ=environ).get_response(application)
            self.assertEqual(status, answer.status_code)
        self.configure('[api]\nauth_strategy = http_basic\n')
        self.assertEqual((), authentication.build_outer_middleware(self.conf, self.settings()))


def served(_request):
    return webob.Response()
