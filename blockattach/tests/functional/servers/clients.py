"""Base class of tests of clients that use the compute API together with Block Storage."""
import json
import os
import re
import tempfile

from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import served
from blockattach.tests.functional import attachment_commands
from blockattach.tests.functional import commands
from blockattach.tests.functional.servers import cloud

TOKEN = f'{make.USER}:{http.PROJECT}:admin,member,reader'


class Both:
    """WSGI application with Compute below ``/v2.1`` and Block Storage below ``/v3``.

    All requests have the same caller. Work that continues after a response is finished before the
    response is sent, unless it is held.

    :ivar asked: methods and paths of the writing requests to Compute
    :ivar held: number of responses, from the first writing request on, that are sent before the
        work continues
    :ivar roles: roles of the caller, or None for all roles
    """

    def __init__(self, both):
        self.asked = []
        self.held = 0
        self.roles = None
        self._cloud = both

    def __call__(self, environ, start_response):
        environ['HTTP_X_AUTH_TOKEN'] = (
            TOKEN if self.roles is None else f'{make.USER}:{http.PROJECT}:{self.roles}')
        if environ['PATH_INFO'].startswith('/v3'):
            return self._cloud.storage(environ, start_response)
        if environ['REQUEST_METHOD'] != 'GET':
            self.asked.append(f'{environ["REQUEST_METHOD"]} {environ["PATH_INFO"]}')
        answered = list(self._cloud.api.application(environ, start_response))
        if self.asked and self.held:
            self.held -= 1
        else:
            self._cloud.settle()
        return answered


class ClientsTestCase(cloud.ComputeTestCase):
    """Test case with a cloud, and clients that use it over HTTP."""

    VERSION = '2.100'

    def setUp(self):
        super().setUp()
        self.both = Both(self.cloud)
        self.serve(self.both)

    def serve(self, application):
        """Serve this application to the clients from now on."""
        service = self.enterContext(served.Served(application))
        address = service.endpoint.removesuffix('/v3')
        self.overrides = {'compute_endpoint_override': f'{address}/v2.1',
                          'block_storage_endpoint_override': f'{address}/v3',
                          # Without it, "server create" opens a client of Glance, which has no
                          # endpoint.
                          'has_image': False,
                          # "server list" opens a client of Keystone, to which any API of version 3
                          # looks valid.
                          'identity_endpoint_override': f'{address}/v3'}

    def run_command(self, *arguments, version=None):
        """Run ``openstack`` and return its exit status and output."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'clouds.yaml')
            with open(path, 'w', encoding='utf-8') as file:
                # JSON is YAML.
                json.dump({'clouds': {'tested': {'auth_type': 'none', **self.overrides}}}, file)
            done = commands.run('openstack', arguments, {
                'NO_PROXY': '127.0.0.1', 'OS_CLIENT_CONFIG_FILE': path, 'OS_CLOUD': 'tested',
                'OS_COMPUTE_API_VERSION': version or self.VERSION})
        self.assertNotIn('Traceback', done.output + done.errors)
        return done._replace(errors=attachment_commands.NOISE.sub('', done.errors))

    def output(self, *arguments, **more):
        """Run a command that succeeds, and return its output."""
        done = self.run_command(*arguments, **more)
        self.assertEqual(0, done.status, done.errors)
        return done.output

    def shown(self, *arguments, **more):
        """Run a command that succeeds, and return its JSON output."""
        return json.loads(self.output(*arguments, '-f', 'json', **more))

    def assert_refused(self, words, *arguments, status=1):
        done = self.run_command(*arguments)
        self.assertEqual(status, done.status, done.output)
        self.assertRegex(re.sub(r'\s+', ' ', done.errors), words)
