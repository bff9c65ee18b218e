"""Tokens of a domain or of the system, as Keystone gives them: they are of no project."""
import dataclasses
import itertools
import json

import webob

from blockattach.api import app
from blockattach.testing import make
from blockattach.tests.api import base

SCOPES = {
    'domain': {'HTTP_X_DOMAIN_ID': 'default'},
    'system': {'HTTP_OPENSTACK_SYSTEM_SCOPE': 'all'},
}
ROLES = {'reader': 'reader', 'member': 'member,reader', 'admin': 'admin,member,reader'}
CALLERS = tuple(itertools.product(SCOPES, ROLES))


class ScopeTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        services = dataclasses.replace(self.http.services, settings=dataclasses.replace(
            self.http.services.settings, auth_strategy='keystone'))
        # What the token middleware would have found out stands in the environ already.
        self.app = app.build_app(services, token_middleware=lambda inner: inner,
                                 check_answers=True)
        self.volume_id = self.volume()
        self.attachment_id = self.attached(self.volume_id, connector=make.connector())

    def ask(self, scope, who, method, path, body=None):
        request = webob.Request.blank(f'/v3{path}', method=method, environ={
            'HTTP_X_IDENTITY_STATUS': 'Confirmed', 'HTTP_X_USER_ID': 'somebody',
            'HTTP_X_ROLES': ROLES[who], 'HTTP_OPENSTACK_API_VERSION': 'volume 3.71',
            **SCOPES[scope]})
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = 'application/json'
        return request.get_response(self.app)

    def test_a_list_is_empty_unless_an_administrator_asks_for_all(self):
        for scope, who in CALLERS:
            with self.subTest(scope=scope, who=who):
                for noun, path in (('attachments', '/attachments'), ('volumes', '/volumes'),
                                   ('attachments', '/attachments/detail'),
                                   ('volumes', '/volumes/detail'), ('messages', '/messages')):
                    answer = self.ask(scope, who, 'GET', path)
                    self.assertEqual((200, []), (answer.status_int, answer.json[noun]))
                for noun in ('attachments', 'volumes'):
                    found = self.ask(scope, who, 'GET', f'/{noun}?all_tenants=1').json[noun]
                    self.assertEqual(1 if who == 'admin' else 0, len(found))
                summary = self.ask(scope, who, 'GET', '/volumes/summary').json['volume-summary']
                self.assertEqual(0, summary['total_count'])

    def test_one_thing_is_there_for_administrators_only(self):
        for scope, who in CALLERS:
            with self.subTest(scope=scope, who=who):
                for path in (f'/attachments/{self.attachment_id}', f'/volumes/{self.volume_id}'):
                    self.assertEqual(200 if who == 'admin' else 404,
                                     self.ask(scope, who, 'GET', path).status_int)

    def test_a_volume_needs_a_project(self):
        for scope, who in itertools.product(SCOPES, ('member', 'admin')):
            with self.subTest(scope=scope, who=who):
                answer = self.ask(scope, who, 'POST', '/volumes', {'volume': {'size': 1}})
                self.assertEqual(400, answer.status_int)
                self.assertIn('belongs to a project', answer.text)
        self.assertEqual(1, len(self.http.as_admin.get('/volumes?all_tenants=1').body['volumes']))

    def test_a_project_in_the_url_is_not_theirs(self):
        for scope, who in CALLERS:
            with self.subTest(scope=scope, who=who):
                answer = self.ask(scope, who, 'GET', f'/{make.PROJECT}/attachments')
                self.assertEqual((400, 'Malformed request url'),
                                 (answer.status_int, answer.json['badRequest']['message']))
