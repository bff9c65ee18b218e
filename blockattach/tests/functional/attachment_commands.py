"""Base class of tests of the openstackclient plugin, whose commands run as processes."""
import json
import re
import types
import unittest
import uuid

import webob

from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import served
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from blockattach.tests.functional import test_clients

VERSION = 'OpenStack-API-Version'
IQN = 'iqn.2026-01.org.example:'
NOISE = re.compile(r'^(DEBUG|INFO|WARNING|ERROR):.*\n', re.M)
"""Lines that a command logs in addition when it is forked."""


class Between:
    """WSGI application before the API, which can answer by itself or change responses."""

    def __init__(self, application):
        self._application = application
        self.asked = []
        self.answers = []
        self.change = None
        self.date = None
        self.page = None

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        if '/attachments' not in request.path or request.GET.get('limit') == '0':
            return self._application(environ, start_response)
        self.asked.append((request.method, request.headers.get('Idempotency-Key'),
                           request.query_string))
        if self.answers:
            status, after = self.answers.pop(0)
            response = webob.Response(status=status, json_body={
                'serviceUnavailable': {'code': status, 'message': 'Come again.'}})
            response.headers.update({VERSION: 'volume 3.54, blockattach 1.0', **after})
            return response(environ, start_response)
        if self.page is not None:
            request.GET['limit'] = str(self.page)
        response = request.get_response(self._application)
        if self.change is not None and response.status_code == 200:
            response.json_body = self.change(request.method, response.json_body)
        if self.date is not None:
            response.headers['Date'] = self.date
        return response(environ, start_response)


class AttachmentCommandsTestCase(unittest.TestCase):
    """Test case with a service and prepared resources.

    :cvar noun: noun of the commands
    """

    noun = 'attachment'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = cls.enterClassContext(http.ApiFixture())
        cls.between = Between(cls.api)
        cls.service = cls.enterClassContext(served.Served(cls.between))
        cls.plain = base.Api(cls.service.endpoint)
        for name, specs in (('multiattach', {'multiattach': '<is> True'}), ('single', {})):
            cls.plain.ask('POST', '/types', {'volume_type': {'name': name, 'extra_specs': specs}})

    def setUp(self):
        super().setUp()
        self.between.__init__(self.api)

    def volume(self, name=None, kind='multiattach'):
        """Create a volume and return its id, name and project id."""
        status, body = self.plain.ask('POST', '/volumes', {'volume': {
            'size': 1, 'volume_type': kind, 'name': name or f'v-{uuid.uuid4()}'}})
        self.assertEqual(202, status, body)
        made = body['volume']
        return types.SimpleNamespace(id=made['id'], name=made['name'],
                                     project_id=test_clients.PROJECT)

    def attachment(self, volume, state, host='compute-1', **more):
        return make.attachment(self.api.database, volume, state,
                               with_connector=make.connector(host=host, initiator=f'{IQN}{host}'),
                               **more)

    def connected(self, volume, *more):
        return self.shown('direct', 'create', volume.id, '--host', 'compute-1', '--initiator',
                          f'{IQN}compute-1', '--ip', '192.0.2.1', *more)

    def run_command(self, *arguments, prepare=None):
        done = commands.run(
            'openstack', ['--os-auth-type', 'none', '--os-endpoint', self.service.endpoint,
                          'volume', self.noun, *arguments],
            {'NO_PROXY': '127.0.0.1', 'OS_VOLUME_API_VERSION': '3.71'}, prepare)
        self.assertNotIn('Traceback', done.output + done.errors)
        return done._replace(errors=NOISE.sub('', done.errors))

    def output(self, *arguments, **more):
        done = self.run_command(*arguments, **more)
        self.assertEqual(0, done.status, done.errors)
        return done.output

    def shown(self, *arguments):
        return json.loads(self.output(*arguments, '-f', 'json'))

    def ids(self, *arguments):
        return [row['ID'] for row in self.shown('detail', 'list', '--all-projects', *arguments)]

    def assert_refused(self, words, *arguments, status=1):
        done = self.run_command(*arguments)
        self.assertEqual(status, done.status, done.output)
        self.assertRegex(' '.join(done.errors.split()), words)
