"""The API put together: what it needs, and what anybody may ask it."""
import types
import unittest

import webob

from blockattach import clock
from blockattach import errors
from blockattach.api import app
from blockattach.api import routes
from blockattach.conf import api as api_conf
from blockattach.http import auth
from blockattach.http import operation
from blockattach.http.operation import V
from blockattach.tests.fixtures import promises
from blockattach.tests.unit.http import tiny


def services(**settings):
    """What the whole API and its public operations need; no database is behind it."""
    return types.SimpleNamespace(
        policy=tiny.enforcer_of(), settings=api_conf.ApiSettings(**settings),
        clock=clock.Clock())


def anybody():
    return auth.Authentication(auth.claimed)


def get(application, path, **headers):
    return webob.Request.blank(path, headers=headers).get_response(application)


class BuildTest(unittest.TestCase):
    """From settings to a WSGI application."""

    def test_the_whole_api_can_be_put_together(self):
        answer = get(app.build_app(services(), anybody(), check=promises.Promises().check), '/v3/')
        self.assertEqual('3.71', answer.json['versions'][0]['version'])

    def test_settings_arrive(self):
        row = operation.Operation('POST', '/x', lambda services, call: {'at': call.link('/x')},
                                  body={V(3, 0): {}})
        built = app.build_app(services(public_endpoint='https://s.example.org',
                                       max_request_body_size=10), anybody(), operations=(row,))
        for body, code in ((b'{}', 200), (b'{"aaaaaaaaa":1}', 413)):
            with self.subTest(body=body):
                request = webob.Request.blank('/v3/x', method='POST', body=body,
                                              content_type='application/json')
                answer = request.get_response(built)
                self.assertEqual(code, answer.status_int)
                if code == 200:
                    self.assertEqual('https://s.example.org/v3/x', answer.json['at'])

    def test_layers_of_the_authentication_see_refusals_as_answers(self):
        """And what fails in them is answered too, inside of what stands in front."""
        def layer(inner):
            def handle(request):
                if 'boom' in request.path:
                    raise errors.IdentityUnavailable()
                response = inner(request)
                response.headers['Seen'] = str(response.status_code)
                return response
            return handle

        def front(inner):
            def handle(request):
                response = inner(request)
                response.headers['Front'] = str(response.status_code)
                return response
            return handle
        nobody = auth.Authentication(lambda request, project_id: None, (layer,))
        built = app.build_app(services(), nobody, outer=(front,))
        answer = get(built, '/v3/volumes')
        self.assertEqual((401, '401', '401'), (
            answer.status_int, answer.headers['Seen'], answer.headers['Front']))
        answer = get(built, '/v3/boom')
        self.assertEqual((503, '503'), (answer.status_int, answer.headers['Front']))
        self.assertIn('serviceUnavailable', answer.json)
        self.assertIn('x-openstack-request-id', answer.headers)


class ExtensionTest(unittest.TestCase):
    """What goes beyond the Block Storage API is there if asked for."""

    def test_what_is_asked_for_is_answered(self):
        for header, answered in (
                ('volume 3.71, blockattach 1.0', 'volume 3.71, blockattach 1.0'),
                ('volume 3.71, blockattach latest', 'volume 3.71, blockattach 1.3'),
                ('volume 3.71', 'volume 3.71')):
            with self.subTest(header=header):
                self.assertEqual(answered, app.negotiate(header).header)

    def test_version_documents_name_it_beside_their_strict_bodies(self):
        built = app.build_app(services(), anybody(), check=promises.Promises().check)
        for path in ('/', '/v3', '/v3/'):
            with self.subTest(path=path):
                self.assertEqual('min=1.0, max=1.3',
                                 get(built, path).headers['Blockattach-API-Versions'])


class OperationsTest(unittest.TestCase):
    """Over the whole table."""

    def test_every_operation_says_what_it_is_for(self):
        for row in routes.operations():
            with self.subTest(operation=row.name):
                self.assertTrue(row.summary.endswith('.'))

    def test_only_what_reveals_nothing_is_public(self):
        public = {row.name for row in routes.operations() if row.public}
        self.assertEqual({'GET /', 'GET /v3', 'GET /v3/'}, public)
