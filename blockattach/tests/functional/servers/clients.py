"""What tests of clients of the compute API share: it and block storage behind one address, and
the commands of openstackclient as they are typed.
"""
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
    """Compute below ``/v2.1``, block storage below ``/v3``, for one caller.

    What an act does after its answer is done before that is sent, unless it is held.

    :ivar asked: the requests to compute that write
    :ivar held: how many answers, from the first one to a request that writes on, are sent before
        acts go on
    :ivar roles: of the caller; None: all
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
    """A cloud for each test, and clients that speak to it over HTTP."""

    VERSION = '2.100'

    def setUp(self):
        super().setUp()
        self.both = Both(self.cloud)
        self.serve(self.both)

    def serve(self, application):
        """Let clients speak to this one from now on."""
        service = self.enterContext(served.Served(application))
        address = service.endpoint.removesuffix('/v3')
        self.overrides = {'compute_endpoint_override': f'{address}/v2.1',
                          'block_storage_endpoint_override': f'{address}/v3',
                          # "server create" opens Glance's client, which finds none.
                          'has_image': False,
                          # "server list" opens Keystone's client, for which any version 3 does.
                          'identity_endpoint_override': f'{address}/v3'}

    def run_command(self, *arguments, version=None):
        """Run ``openstack`` to its end."""
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
        """What a command prints that succeeds."""
        done = self.run_command(*arguments, **more)
        self.assertEqual(0, done.status, done.errors)
        return done.output

    def shown(self, *arguments, **more):
        """The same, as a program reads it."""
        return json.loads(self.output(*arguments, '-f', 'json', **more))

    def assert_refused(self, words, *arguments, status=1):
        done = self.run_command(*arguments)
        self.assertEqual(status, done.status, done.output)
        self.assertRegex(re.sub(r'\s+', ' ', done.errors), words)
