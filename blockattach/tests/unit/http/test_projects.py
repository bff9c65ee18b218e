"""Check in Keystone that a project exists."""
import tempfile
import threading
import unittest
from http import server

from oslo_config import cfg

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.http import keystone

PROJECT = 'shop/a?b'


class Identity(server.BaseHTTPRequestHandler):
    """Stand-in for Keystone with the one call that is used."""

    asked = []
    status = 200

    def do_GET(self):
        self.asked.append((self.path, self.headers['X-Auth-Token']))
        self.send_response(self.status)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_):
        """Log nothing, because the requests are recorded."""


class ProjectsTest(unittest.TestCase):

    def setUp(self):
        self.asked = []
        handler = self.handler = type('Handler', (Identity,), {'asked': self.asked})
        self.server = server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.caller = context.RequestContext(auth_token='token')

    def check(self, status=200, tail='/v3'):
        self.handler.status = status
        with tempfile.NamedTemporaryFile('w') as file:
            file.write(f'[{keystone.GROUP}]\nauth_type = password\n'
                       f'auth_url = http://127.0.0.1:{self.server.server_port}{tail}\n')
            file.flush()
            conf = cfg.ConfigOpts()
            conf(['--config-file', file.name])
            keystone.register(conf)
        keystone.project_check(conf)(self.caller, PROJECT)

    def test_project_requested_with_token_of_caller(self):
        for tail in ('', '/', '/v3', '/v3/'):
            self.check(tail=tail)
            self.assertEqual(('/v3/projects/shop%2Fa%3Fb', 'token'), self.asked.pop())

    def test_keystone_status_mapped_to_error(self):
        for status, error in ((404, errors.ProjectNotFound), (403, errors.NotAuthorized),
                              (401, errors.NotAuthorized), (500, errors.IdentityUnavailable),
                              (302, errors.IdentityUnavailable)):
            with self.subTest(status=status), self.assertRaises(error):
                self.check(status)

    def test_keystone_unreachable_is_identity_unavailable(self):
        self.server.shutdown()
        self.server.server_close()
        with self.assertRaises(errors.IdentityUnavailable):
            self.check()
