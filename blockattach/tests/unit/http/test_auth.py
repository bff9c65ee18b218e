"""Authentication of requests without and with Keystone."""
import unittest
import uuid

import webob
from keystoneauth1 import noauth
from keystoneauth1 import session

from blockattach.platform.http import auth
from blockattach.platform.http import middleware
from blockattach.platform.telemetry import acts
from blockattach.tests.unit.http import tiny


def ask(authenticator, headers=None, project_id=None, environ=None):
    """Return the context that an authenticator builds from headers."""
    seen = []

    def inner(request):
        seen.append(authenticator(request, project_id))
        return webob.Response()
    request = webob.Request.blank('/', headers=headers or {}, environ=environ or {})
    layers = (middleware.watch_request(acts.Telemetry()),)
    request.get_response(middleware.application(layers, inner))
    return seen[0]


class NoAuthenticationTest(unittest.TestCase):
    """Authentication by claimed tokens, without verification."""

    def setUp(self):
        self.is_admin = tiny.enforcer_of().is_admin

    def authenticated(self, token, project_id=None, **headers):
        if token is not None:
            headers['X-Auth-Token'] = token
        context = ask(auth.claimed, headers, project_id)
        return context and (context.user_id, context.project_id, context.roles,
                            self.is_admin(context))

    def test_token_gives_user_project_and_roles(self):
        for token, wanted in (
                ('u:p', ('u', 'p', ['admin', 'member', 'reader'], True)),
                ('u:p:member', ('u', 'p', ['member'], False)),
                ('u:p:member,reader', ('u', 'p', ['member', 'reader'], False)),
                ('u:p:admin', ('u', 'p', ['admin'], True))):
            with self.subTest(token=token):
                self.assertEqual(wanted, self.authenticated(token))

    def test_malformed_token_rejected(self):
        for token in ('x', ':', 'u:', ':p', 'u:p:', 'u:p:r:s', 'u' * 256 + ':p', 'u:p\x1b',
                      'u\n:p'):
            with self.subTest(token=token[:10]):
                self.assertIsNone(self.authenticated(token))

    def test_repeated_token_rejected(self):
        """Servers join repeated headers with a comma."""
        for token in ('u:p, u:p', 'u:p,u:q', 'u:p:admin, u:p:admin', 'u,v:p'):
            for name in ('X-Auth-Token', 'X-Service-Token'):
                with self.subTest(name, token=token):
                    self.assertIsNone(ask(auth.claimed, {name: token}))

    def test_missing_token_gives_admin_of_project_in_url(self):
        for token in (None, '', auth.NO_TOKEN):
            with self.subTest(token=token):
                self.assertEqual((auth.DEFAULT_USER_ID, 'p', list(auth.ALL_ROLES), True),
                                 self.authenticated(token, 'p'))
                self.assertEqual(auth.DEFAULT_PROJECT_ID, self.authenticated(token)[1])

    def test_default_ids_are_uuids(self):
        for value in (auth.DEFAULT_USER_ID, auth.DEFAULT_PROJECT_ID):
            self.assertEqual(value, uuid.UUID(value).hex)

    def test_context_keeps_token(self):
        for headers, token in (({'X-Auth-Token': 'u:p:member'}, 'u:p:member'), ({}, None)):
            self.assertEqual(token, ask(auth.claimed, headers).auth_token)

    def test_keystoneauth_noauth_plugin_sends_placeholder_token(self):
        self.assertEqual(auth.NO_TOKEN, noauth.NoAuth().get_token(session.Session()))

    def test_service_token_gives_service_roles(self):
        for token, roles in (('nova:service', ['service']), ('nova:service:a,b', ['a', 'b'])):
            with self.subTest(token=token):
                context = ask(auth.claimed,
                              {'X-Auth-Token': 'u:p:member', 'X-Service-Token': token})
                self.assertEqual((roles, ['member']), (context.service_roles, context.roles))
        self.assertIsNone(self.authenticated('u:p', **{'X-Service-Token': 'x'}))

    def test_context_keeps_global_request_id(self):
        name = 'req-6f1b2f7e-4f0e-4c6e-9d3a-6b0d7c4a1e11'
        for sent, kept in ((name, name), ('req-nonsense\n', None), (None, None)):
            with self.subTest(sent=sent):
                headers = {} if sent is None else {'X-OpenStack-Request-ID': sent}
                context = ask(auth.claimed, headers)
                self.assertEqual(kept, context.global_request_id)
                self.assertRegex(context.request_id, '^req-')
                self.assertNotEqual(name, context.request_id)


class KeystoneAuthenticationTest(unittest.TestCase):
    """Authentication by the headers of the Keystone middleware."""

    CONFIRMED = {
        'HTTP_X_IDENTITY_STATUS': 'Confirmed', 'HTTP_X_USER_ID': 'u', 'HTTP_X_PROJECT_ID': 'p',
        'HTTP_X_ROLES': 'admin,member', 'HTTP_X_SERVICE_ROLES': 'service',
        'HTTP_X_SERVICE_IDENTITY_STATUS': 'Confirmed',
    }

    def setUp(self):
        self.is_admin = tiny.enforcer_of().is_admin

    def ask(self, **changes):
        return ask(auth.validated, environ={**self.CONFIRMED, **changes})

    def test_confirmed_identity_accepted(self):
        context = self.ask()
        self.assertEqual(('u', 'p', ['admin', 'member'], ['service'], True), (
            context.user_id, context.project_id, context.roles, context.service_roles,
            self.is_admin(context)))

    def test_unconfirmed_identity_rejected(self):
        for status in ('Invalid', '', 'confirmed'):
            with self.subTest(status=status):
                self.assertIsNone(self.ask(HTTP_X_IDENTITY_STATUS=status))
        self.assertIsNone(ask(auth.validated))

    def test_invalid_service_token_rejected(self):
        self.assertIsNone(self.ask(HTTP_X_SERVICE_IDENTITY_STATUS='Invalid'))

    def test_missing_service_token_gives_no_service_roles(self):
        environ = {**self.CONFIRMED}
        del environ['HTTP_X_SERVICE_IDENTITY_STATUS']
        del environ['HTTP_X_SERVICE_ROLES']
        self.assertEqual([], ask(auth.validated, environ=environ).service_roles)

    def test_context_has_domains_and_names(self):
        context = self.ask(
            HTTP_X_USER_DOMAIN_ID='d1', HTTP_X_PROJECT_DOMAIN_ID='d2', HTTP_X_USER_NAME='ann',
            HTTP_X_PROJECT_NAME='shop', HTTP_X_IS_ADMIN_PROJECT='False')
        self.assertEqual(('d1', 'd2', 'ann', 'shop', False), (
            context.user_domain_id, context.project_domain_id, context.user_name,
            context.project_name, context.is_admin_project))

    def test_system_scope_of_service_token_ignored(self):
        for environ, scope in (({}, None), ({'HTTP_X_PROJECT_ID': None}, 'all'),
                               ({'HTTP_X_PROJECT_ID': None, 'HTTP_X_DOMAIN_ID': 'd'}, None)):
            with self.subTest(environ=environ):
                self.assertEqual(scope, self.ask(
                    HTTP_OPENSTACK_SYSTEM_SCOPE='all', **environ).system_scope)

    def test_project_of_url_ignored(self):
        context = ask(auth.validated, environ=self.CONFIRMED, project_id='q')
        self.assertEqual('p', context.project_id)

    def test_token_without_project_has_no_project(self):
        for scope in ({}, {'HTTP_X_DOMAIN_ID': 'd'}, {'HTTP_OPENSTACK_SYSTEM_SCOPE': 'all'}):
            with self.subTest(scope=scope):
                confirmed = {**self.CONFIRMED, **scope}
                del confirmed['HTTP_X_PROJECT_ID']
                context = ask(auth.validated, environ=confirmed)
                self.assertEqual(auth.NO_PROJECT, context.project_id)
