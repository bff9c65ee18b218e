"""Nova client: requests, and answers that are not clear."""
import contextlib
import logging
import os
import pathlib
import tempfile
import unittest
import uuid

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.storage import nova as nova_client
from blockattach.storage.conf import nova as nova_conf
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import polling
from blockattach.tests.unit import samples

LIMIT = polling.LIMIT
"""Seconds that no test waits for."""


class ClientTestCase(unittest.TestCase):
    """Test case with a stand-in for Nova and a caller with a token."""

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.request_id = f'req-{uuid.uuid4()}'
        self.caller = context.RequestContext(
            auth_token='token-of-the-user', project_id=samples.PROJECT, overwrite=False,
            global_request_id=self.request_id)
        logger = logging.getLogger(nova_client.__name__)
        silent = logging.NullHandler()
        logger.addHandler(silent)
        self.addCleanup(logger.removeHandler, silent)

    def ask(self, caller=None, **settings):
        found = {'endpoint_override': self.nova.url, 'timeout': LIMIT, **settings}
        return nova_client.NovaClient(nova_conf.NovaSettings(**found)).attachment_in_use(
            caller or self.caller, samples.SERVER, samples.VOLUME)

    def assert_nothing_is_learnt(self, **settings):
        with (self.assertLogs(nova_client.__name__, 'WARNING') as logged,
              self.assertRaises(errors.NovaUnavailable) as caught):
            self.ask(**settings)
        for text in (str(caught.exception), *logged.output):
            self.assertNotIn('token-of-the-user', text)
        self.assertNotIn('127.0.0.1', str(caught.exception))
        self.assertIn(samples.SERVER, str(caught.exception))


class AnswersTest(ClientTestCase):
    """Answers of Nova."""

    def test_attachment_of_server_returned(self):
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        self.assertEqual(samples.ATTACHMENT, self.ask())

    def test_attachment_id_normalized(self):
        for written in (samples.ATTACHMENT.upper(), samples.ATTACHMENT.replace('-', ''),
                        f'{{{samples.ATTACHMENT}}}'):
            self.nova.use(samples.SERVER, samples.VOLUME, written)
            self.assertEqual(samples.ATTACHMENT, self.ask())

    def test_slowly_sent_answer_times_out(self):
        self.nova.drip = 0.02
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        self.assert_nothing_is_learnt(timeout=0.1)

    def test_server_without_volume_returns_none(self):
        self.assertIsNone(self.ask())

    def test_error_status_is_nova_unavailable(self):
        for status in (400, 401, 403, 406, 409, 429, 500, 502, 503, 504):
            with self.subTest(status=status):
                for body in ({'computeFault': {'code': status}},
                             {'volumeAttachment': {'attachment_id': 'another'}}):
                    self.nova.answer = nova.Reply(status, body)
                    self.assert_nothing_is_learnt()

    def test_not_found_of_proxy_is_nova_unavailable(self):
        for body in (b'<html>no such page</html>', b'', {'message': 'no route'}, []):
            with self.subTest(body=body):
                self.nova.answer = nova.Reply(404, body)
                self.assert_nothing_is_learnt()

    def test_answer_without_attachment_id_is_nova_unavailable(self):
        # As a Nova before 2.89 would answer.
        for body in ({'volumeAttachment': {'id': 'x', 'volumeId': samples.VOLUME}},
                     {'volumeAttachment': {'attachment_id': None}}, {'volumeAttachment': None},
                     {'volumeAttachment': {'attachment_id': 'no uuid'}},
                     {}, [], b'', b'\xff'):
            with self.subTest(body=body):
                self.nova.answer = nova.Reply(200, body)
                self.assert_nothing_is_learnt()

    def test_redirect_not_followed(self):
        with nova.NovaStandIn() as elsewhere:
            elsewhere.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
            self.nova.answer = nova.Reply(302, b'', {'Location': elsewhere.url})
            self.assert_nothing_is_learnt()
            self.assertEqual([], elsewhere.requests)

    def test_nova_unreachable_is_nova_unavailable(self):
        self.nova.close()
        self.assert_nothing_is_learnt()

    def test_nova_timeout_is_nova_unavailable(self):
        self.nova.fall_asleep()
        self.assert_nothing_is_learnt(timeout=0.05)


class RequestTest(ClientTestCase):
    """Requests to Nova and its endpoint."""

    def test_request_path_and_headers(self):
        self.ask()
        request, = self.nova.requests
        self.assertEqual(f'/v2.1/servers/{samples.SERVER}/os-volume_attachments/{samples.VOLUME}',
                         request.path)
        for name, value in {'x-auth-token': 'token-of-the-user',
                            'openstack-api-version': 'compute 2.89',
                            'x-openstack-request-id': self.request_id}.items():
            self.assertEqual(value, request.headers.get(name), name)

    def test_caller_without_token_sends_placeholder(self):
        self.ask(caller=context.RequestContext(overwrite=False))
        self.assertEqual('notused', self.nova.requests[0].headers['x-auth-token'])

    def test_server_id_quoted_in_path(self):
        nova_client.NovaClient(nova_conf.NovaSettings(
            endpoint_override=self.nova.url, timeout=LIMIT)).attachment_in_use(
            self.caller, '../../x?y#z', samples.VOLUME)
        self.assertEqual('/v2.1/servers/..%2F..%2Fx%3Fy%23z/os-volume_attachments/'
                         f'{samples.VOLUME}', self.nova.requests[0].path)

    def test_endpoint_found_in_catalog(self):
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        for auth_url in (self.nova.keystone_url, f'{self.nova.keystone_url}/v3'):
            for region_name in (None, 'one'):
                with self.subTest(auth_url=auth_url, region_name=region_name):
                    self.nova.requests.clear()
                    self.assertEqual(samples.ATTACHMENT, self.ask(
                        endpoint_override=None, auth_url=auth_url, region_name=region_name))
                    self.assertEqual(['token-of-the-user'] * 2, [
                        request.headers['x-auth-token'] for request in self.nova.requests])
                    self.assertEqual('/v3/auth/catalog', self.nova.requests[0].path)

    def test_catalog_without_nova_is_nova_unavailable(self):
        here = {'endpoint_override': None, 'auth_url': self.nova.keystone_url}
        self.assert_nothing_is_learnt(**here, region_name='two')
        self.assert_nothing_is_learnt(**here, interface='internal')
        for status, body in ((401, {}), (200, {}), (200, b'x'), (302, b''), (500, b'')):
            with self.subTest(status=status, body=body):
                self.nova.answer = nova.Reply(status, body)
                self.assert_nothing_is_learnt(**here)


class EnvironmentTest(ClientTestCase):
    """Environment variables of the process."""

    def setUp(self):
        super().setUp()
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        kept = dict(os.environ)
        self.addCleanup(os.environ.update, kept)
        self.addCleanup(os.environ.clear)
        for name in ('http_proxy', 'HTTP_PROXY', 'no_proxy', 'NO_PROXY', 'all_proxy', 'ALL_PROXY'):
            os.environ.pop(name, None)
        file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'netrc'
        file.write_text('machine 127.0.0.1 login somebody password secret\n', 'utf-8')
        os.environ['NETRC'] = str(file)

    def test_netrc_credentials_not_sent(self):
        self.assertEqual(samples.ATTACHMENT, self.ask())
        self.assertNotIn('authorization', self.nova.requests[-1].headers)

    def test_http_proxy_used(self):
        os.environ['http_proxy'] = self.nova.keystone_url
        with contextlib.closing(nova.NovaStandIn()) as elsewhere:
            self.ask(endpoint_override=elsewhere.url)
        self.assertEqual([], elsewhere.requests)
        self.assertIn(elsewhere.url, self.nova.requests[-1].path)
        self.assertNotIn('authorization', self.nova.requests[-1].headers)
