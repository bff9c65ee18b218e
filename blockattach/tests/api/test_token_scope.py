"""Domain-scoped and system-scoped tokens of Keystone, which have no project."""
import itertools
import json

import webob

from blockattach.platform.http import auth
from blockattach.storage.api import app
from blockattach.tests.api import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import promises

SCOPES = {
    'domain': {'HTTP_X_DOMAIN_ID': 'default'},
    'system': {'HTTP_OPENSTACK_SYSTEM_SCOPE': 'all'},
}
ROLES = {'reader': 'reader', 'member': 'member,reader', 'admin': 'admin,member,reader'}
LISTS = (
    ('attachments', '/attachments'), ('attachments', '/attachments/detail'),
    ('volumes', '/volumes'), ('volumes', '/volumes/detail'), ('messages', '/messages'),
)
CALLERS = tuple(itertools.product(SCOPES, ROLES))


class ScopeTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        # The tests put the result of the token middleware into the environ.
        self.app = app.build_app(
            self.http.services,
            auth.Authentication(auth.validated),
            check=promises.Promises().check)
        self.volume_id = self.volume()
        self.attachment_id = self.attached(self.volume_id, connector=make.connector())

    def ask(self, scope, role, method, path, body=None):
        request = webob.Request.blank(f'/v3{path}', method=method, environ={
            'HTTP_X_IDENTITY_STATUS': 'Confirmed', 'HTTP_X_USER_ID': 'somebody',
            'HTTP_X_ROLES': ROLES[role], 'HTTP_OPENSTACK_API_VERSION': 'volume 3.71',
            **SCOPES[scope]})
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = 'application/json'
        return request.get_response(self.app)

    def test_unscoped_list_empty_without_all_tenants(self):
        for scope in SCOPES:
            with self.subTest(scope=scope):
                for noun, path in LISTS:
                    answer = self.ask(scope, 'admin', 'GET', path)
                    self.assertEqual((200, []), (answer.status_int, answer.json[noun]))
                for noun in ('attachments', 'volumes'):
                    found = self.ask(scope, 'admin', 'GET', f'/{noun}?all_tenants=1').json[noun]
                    self.assertEqual(1, len(found))
                summary = self.ask(scope, 'admin', 'GET', '/volumes/summary').json
                self.assertEqual(0, summary['volume-summary']['total_count'])

    def test_unscoped_admin_shows_resource_of_any_project(self):
        for scope in SCOPES:
            for path in (f'/attachments/{self.attachment_id}', f'/volumes/{self.volume_id}'):
                with self.subTest(scope=scope, path=path):
                    self.assertEqual(200, self.ask(scope, 'admin', 'GET', path).status_int)

    def test_unscoped_token_without_admin_role_forbidden(self):
        paths = [path for _, path in LISTS]
        paths += ['/volumes?all_tenants=1', '/attachments?all_tenants=1', '/volumes/summary',
                  f'/attachments/{self.attachment_id}', f'/volumes/{self.volume_id}']
        for scope, role, path in itertools.product(SCOPES, ('reader', 'member'), paths):
            with self.subTest(scope=scope, role=role, path=path):
                self.assert_forbidden(self.ask(scope, role, 'GET', path))

    def test_create_needs_project_scoped_token(self):
        for scope in SCOPES:
            with self.subTest(scope=scope):
                self.assert_forbidden(
                    self.ask(scope, 'member', 'POST', '/volumes', {'volume': {'size': 1}}))
                answer = self.ask(scope, 'admin', 'POST', '/volumes', {'volume': {'size': 1}})
                self.assertEqual(400, answer.status_int)
                self.assertIn('A project-scoped token is required', answer.text)
        self.assertEqual(1, len(self.http.as_admin.get('/volumes?all_tenants=1').body['volumes']))

    def assert_forbidden(self, answer):
        self.assertEqual((403, 'A project-scoped token is required.'),
                         (answer.status_int, answer.json['forbidden']['message']))

    def test_project_id_in_url_rejected_for_unscoped_token(self):
        for scope, role in CALLERS:
            with self.subTest(scope=scope, role=role):
                answer = self.ask(scope, role, 'GET', f'/{make.PROJECT}/attachments')
                self.assertEqual((400, 'Malformed request url'),
                                 (answer.status_int, answer.json['badRequest']['message']))
