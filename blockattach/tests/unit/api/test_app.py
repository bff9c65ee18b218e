"""Assembled WSGI application of the API."""
import re
import types
import unittest

import webob

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.http import auth
from blockattach.platform.http import dispatch
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V
from blockattach.storage.api import app
from blockattach.storage.api import routes
from blockattach.storage.api import versions
from blockattach.tests.fixtures import promises
from blockattach.tests.unit.http import tiny


def services(**settings):
    """Return the services that the API and its public operations need, without a database."""
    return types.SimpleNamespace(
        policy=tiny.enforcer_of(), settings=api_conf.ApiSettings(**settings),
        clock=clock.Clock(), watch_endpoint=None)


def anybody():
    return auth.Authentication(auth.claimed)


def get(application, path, **headers):
    return webob.Request.blank(path, headers=headers).get_response(application)


class BuildTest(unittest.TestCase):
    """Building of the WSGI application from settings."""

    def test_build_app_serves_version_document(self):
        answer = get(app.build_app(services(), anybody(), check=promises.Promises().check), '/v3/')
        self.assertEqual('3.71', answer.json['versions'][0]['version'])

    def test_build_app_applies_settings(self):
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

    def test_authentication_layers_see_errors_as_responses(self):
        """An error within such a layer is rendered before the outer layers see it."""
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
    """Negotiation of the extension of the Block Storage API."""

    def test_requested_extension_version_negotiated(self):
        for header, answered in (
                ('volume 3.71, blockattach 1.0', 'volume 3.71, blockattach 1.0'),
                ('volume 3.71, blockattach latest',
                 f'volume 3.71, blockattach {versions.EXTENSION_MAXIMUM}'),
                ('volume 3.71', 'volume 3.71')):
            with self.subTest(header=header):
                self.assertEqual(answered, app.negotiate(header).header)

    def test_version_documents_name_extension_in_header(self):
        built = app.build_app(services(), anybody(), check=promises.Promises().check)
        for path in ('/', '/v3', '/v3/'):
            with self.subTest(path=path):
                self.assertEqual(f'min=1.0, max={versions.EXTENSION_MAXIMUM}',
                                 get(built, path).headers['Blockattach-API-Versions'])


class OperationsTest(unittest.TestCase):
    """Checks of each operation of the API."""

    def test_each_operation_has_summary(self):
        for row in routes.operations():
            with self.subTest(operation=row.name):
                self.assertTrue(row.summary.endswith('.'))

    def test_only_version_documents_are_public(self):
        public = {row.name for row in routes.operations() if row.public}
        self.assertEqual({'GET /', 'GET /v3', 'GET /v3/'}, public)


class PathsTest(unittest.TestCase):
    """Paths of each operation of the API."""

    def setUp(self):
        super().setUp()
        self.operations = routes.operations()
        self.table = dispatch.Table(self.operations)

    def served(self):
        """Yield each operation with its prefix, its project, and its path variables."""
        for row in self.operations:
            values = {name: f'its {name}' for name in re.findall(r'{(\w+)}', row.path)}
            for prefix, project in ((('', None),) if row.root
                                    else (('/v3', None), ('/v3/über', 'über'))):
                yield row, prefix, project, values

    def test_path_matches_operation(self):
        for row, prefix, project, values in self.served():
            path = prefix + row.path.format(**values)
            with self.subTest(method=row.method, path=path):
                match = self.table.match(row.method, path)
                self.assertIn(row, match.route.operations)
                self.assertEqual((values, project), (match.variables, match.project_id))

    def test_similar_path_matches_nothing(self):
        for row, prefix, _, values in self.served():
            below = row.path.format(**values)
            path = prefix + below
            misses = [path + '\n', path + '\0']
            if not row.root:
                segments = path.split('/')
                misses += [path + '/', path.replace('/v3', '/v2'), f'{prefix}/x{below[1:]}',
                           *('/'.join((*segments[:place], '', *segments[place + 1:]))
                             for place in range(1, len(segments)))]
            # Where versions are found out is left of a path without its only noun.
            for miss in set(misses) - {'/v3/'}:
                with self.subTest(method=row.method, path=miss):
                    self.assertIsNone(self.table.match(row.method, miss))
            with self.subTest(method='PATCH', path=path):
                self.assertIsNone(self.table.match('PATCH', path))
