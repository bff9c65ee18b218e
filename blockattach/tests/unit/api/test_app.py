"""The API put together: what it needs, and what anybody may ask it."""
import types
import unittest

import webob

from blockattach import clock
from blockattach import errors
from blockattach.api import app
from blockattach.api import routes
from blockattach.conf import api as api_conf
from blockattach.http import operation
from blockattach.http.operation import V
from blockattach.tests.unit.http import tiny


def services(**settings):
    """What the whole API and its public operations need; no database is behind it."""
    made = types.SimpleNamespace(
        policy=tiny.enforcer_of(), settings=api_conf.ApiSettings(**settings),
        clock=clock.Clock(), alive=True)
    made.check_database = lambda: made.alive
    return made


def get(application, path, **headers):
    return webob.Request.blank(path, headers=headers).get_response(application)


class BuildTest(unittest.TestCase):
    """From settings to a WSGI application."""

    def test_the_whole_api_can_be_put_together(self):
        answer = get(app.build_app(services(), check_answers=True), '/v3/')
        self.assertEqual('3.71', answer.json['versions'][0]['version'])

    def test_settings_arrive(self):
        row = operation.Operation('POST', '/x', lambda services, call: {'at': call.link('/x')},
                                  body={V(3, 0): {}})
        built = app.build_app(services(public_endpoint='https://s.example.org',
                                       max_request_body_size=10), operations=(row,))
        for body, code in ((b'{}', 200), (b'{"aaaaaaaaa":1}', 413)):
            with self.subTest(body=body):
                request = webob.Request.blank('/v3/x', method='POST', body=body,
                                              content_type='application/json')
                answer = request.get_response(built)
                self.assertEqual(code, answer.status_int)
                if code == 200:
                    self.assertEqual('https://s.example.org/v3/x', answer.json['at'])

    def test_keystones_headers_are_never_believed_without_its_middleware(self):
        with self.assertRaises(errors.ConfigurationError):
            app.build_app(services(auth_strategy='keystone'))
        with self.assertRaises(errors.ConfigurationError):
            app.build_app(services(), token_middleware=lambda inner: inner)

    def test_with_the_middleware_what_it_says_counts(self):
        def confirm(inner):
            def handle(environ, start_response):
                environ.update(HTTP_X_IDENTITY_STATUS='Confirmed', HTTP_X_PROJECT_ID='p',
                               HTTP_X_USER_ID='u', HTTP_X_ROLES='reader')
                return inner(environ, start_response)
            return handle
        row = operation.Operation('GET', '/who', lambda services, call: {
            'project': call.context.project_id, 'admin': call.context.is_admin})
        built = app.build_app(services(auth_strategy='keystone'), operations=(row,),
                              token_middleware=confirm)
        self.assertEqual({'project': 'p', 'admin': False}, get(built, '/v3/p/who').json)
        self.assertEqual(400, get(built, '/v3/q/who').status_int)


class ExtensionTest(unittest.TestCase):
    """What goes beyond the Block Storage API is on offer, for who asks."""

    def test_whoever_asks_for_it_gets_it(self):
        for header, told in (('volume 3.71, blockattach 1.0', 'volume 3.71, blockattach 1.0'),
                             ('volume 3.71, blockattach latest', 'volume 3.71, blockattach 1.1'),
                             ('volume 3.71', 'volume 3.71')):
            with self.subTest(header=header):
                self.assertEqual(told, app.negotiator().negotiate(header).header)

    def test_version_documents_name_it_beside_their_strict_bodies(self):
        built = app.build_app(services(), check_answers=True)
        for path in ('/', '/v3', '/v3/'):
            with self.subTest(path=path):
                self.assertEqual('min=1.0, max=1.1',
                                 get(built, path).headers['Blockattach-API-Versions'])


class HealthTest(unittest.TestCase):
    """What a load balancer asks."""

    def test_ok_as_long_as_the_database_answers(self):
        behind = services()
        built = app.build_app(behind)
        answer = get(built, '/healthcheck')
        self.assertEqual((200, b'OK', 'text/plain'),
                         (answer.status_int, answer.body, answer.content_type))
        behind.alive = False
        answer = get(built, '/healthcheck')
        self.assertEqual((503, 'text/plain'), (answer.status_int, answer.content_type))

    def test_a_broken_token_does_not_matter(self):
        built = app.build_app(services())
        self.assertEqual(200, get(built, '/healthcheck', **{'X-Auth-Token': 'x'}).status_int)


class OperationsTest(unittest.TestCase):
    """Over the whole table."""

    def test_every_operation_says_what_it_is_for(self):
        for row in routes.operations():
            with self.subTest(operation=row.name):
                self.assertTrue(row.summary.endswith('.'))

    def test_only_what_tells_nothing_is_public(self):
        public = {row.name for row in routes.operations() if row.public}
        self.assertEqual({'GET /', 'GET /v3', 'GET /v3/', 'GET /healthcheck'}, public)
