"""HTTP basic authentication."""
import base64
import pathlib
import tempfile
import unittest

import bcrypt
import webob

from blockattach.platform import errors
from blockattach.platform.conf import changing
from blockattach.platform.http import auth
from blockattach.platform.http import basic_auth
from blockattach.tests.unit.http import test_auth
from blockattach.tests.unit.http import tiny

UMLAUT = 'b\N{LATIN SMALL LETTER O WITH DIAERESIS}b'


def digest(password):
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def header(user, password):
    return 'Basic ' + base64.b64encode(f'{user}:{password}'.encode()).decode()


class Case(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.users = pathlib.Path(folder.name, 'users')
        self.roles = pathlib.Path(folder.name, 'roles')
        self.users.write_text('# ours\n\n' + ''.join(
            f'{user}:{digest(password)}\n' for user, password in (
                ('ann', 'pass:word'), ('bob', UMLAUT))))

    def authenticator(self, roles=None):
        found = None
        if roles is not None:
            self.roles.write_text(roles)
            found = changing.ChangingFile(str(self.roles), basic_auth.parse_roles)
        return basic_auth.Accounts(
            changing.ChangingFile(str(self.users), basic_auth.parse_users), found).authenticate

    def authenticated(self, authenticator, user, password, project_id=None):
        context = test_auth.ask(authenticator, {'Authorization': header(user, password)},
                                project_id)
        return context and (context.user_id, context.project_id, context.roles,
                            tiny.enforcer_of().is_admin(context))


class AuthenticationTest(Case):

    def test_missing_roles_file_makes_users_admin(self):
        one = self.authenticator()
        for project, answered in (('p', 'p'), (None, auth.DEFAULT_PROJECT_ID)):
            self.assertEqual(('ann', answered, ['admin', 'member', 'reader'], True),
                             self.authenticated(one, 'ann', 'pass:word', project))
        self.assertEqual('bob', self.authenticated(one, 'bob', UMLAUT)[0])

    def test_roles_file_gives_project_and_roles(self):
        one = self.authenticator('# who\nann:shop:member,reader\nroot:all:admin\n')
        for _ in range(2):  # the second time the password is known
            self.assertEqual(('ann', 'shop', ['member', 'reader'], False),
                             self.authenticated(one, 'ann', 'pass:word', 'elsewhere'))
        with self.assertLogs('blockattach.platform.http.basic_auth', 'WARNING'):
            self.assertIsNone(self.authenticated(one, 'bob', UMLAUT))

    def test_wrong_user_or_password_rejected(self):
        one = self.authenticator()
        self.authenticated(one, 'ann', 'pass:word')
        for user, password in (('ann', 'other'), ('ann', ''), ('eve', 'pass:word'), ('', ''),
                               ('ann', 'x' * 100), ('ann', 'a\0b'), ('a' * 300, 'x'),
                               ('ann\n', 'pass:word')):
            with self.subTest(user=user[:5], password=password[:5]):
                self.assertIsNone(self.authenticated(one, user, password))

    def test_malformed_authorization_header_rejected(self):
        one = self.authenticator()
        for sent in ('', 'Basic', 'Basic !!!', 'Basic YW5u', 'Bearer abc', 'Basic /////w=='):
            with self.subTest(sent=sent):
                self.assertIsNone(test_auth.ask(one, {'Authorization': sent}))
        self.assertIsNone(test_auth.ask(one))

    def test_changed_password_applied_at_once(self):
        one = self.authenticator()
        self.assertIsNotNone(self.authenticated(one, 'ann', 'pass:word'))
        self.users.write_text(f'ann:{digest("another")}\n')
        self.assertIsNone(self.authenticated(one, 'ann', 'pass:word'))
        self.assertIsNotNone(self.authenticated(one, 'ann', 'another'))
        self.users.write_text('')
        self.assertIsNone(self.authenticated(one, 'ann', 'another'))

    def test_keystone_headers_ignored(self):
        context = test_auth.ask(self.authenticator('ann:shop:reader\n'), {
            'Authorization': header('ann', 'pass:word'), 'X-Roles': 'admin', 'X-Auth-Token': 'x',
            'X-Service-Token': 'nova:service', 'X-Service-Roles': 'service',
            'X-Project-Id': 'other'})
        self.assertEqual((['reader'], [], 'shop', None), (
            context.roles, context.service_roles, context.project_id, context.auth_token))


class FilesTest(unittest.TestCase):

    def test_malformed_line_named_in_error(self):
        good = f'ann:{digest("x")}'
        for parse, text, number in (
                (basic_auth.parse_users, f'{good}\nbob', 2),
                (basic_auth.parse_users, '\n# a\nann:$apr1$x$y', 3),
                (basic_auth.parse_users, 'ann:secret', 1),
                (basic_auth.parse_roles, 'ann', 1), (basic_auth.parse_roles, 'ann:p', 1),
                (basic_auth.parse_roles, 'ann:p:', 1), (basic_auth.parse_roles, 'ann:p:r:s', 1),
                (basic_auth.parse_roles, 'ann:p:,', 1),
                (basic_auth.parse_roles, 'ann:p:r\nann:q:r', 2)):
            with self.subTest(text=text), self.assertRaisesRegex(
                    errors.ConfigurationError, f'^line {number} ') as caught:
                parse(text)
            self.assertNotIn('secret', str(caught.exception))

    def test_first_entry_of_user_used(self):
        first, second = (f'ann:{digest(one)}' for one in 'ab')
        self.assertEqual({'ann': first}, basic_auth.parse_users(f'{first}\n{second}\n'))


class ChallengeTest(unittest.TestCase):

    def test_unauthorized_answer_has_challenge(self):
        for status, answered in ((401, basic_auth.CHALLENGE), (403, None), (200, None)):
            answer = webob.Request.blank('/').get_response(
                basic_auth.challenge(lambda request, status=status: webob.Response(status=status))(
                    webob.Request.blank('/')))
            self.assertEqual(answered, answer.headers.get('WWW-Authenticate'))
