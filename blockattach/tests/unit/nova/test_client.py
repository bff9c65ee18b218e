"""Nova is asked as it expects to be, and nothing but a clear answer counts as one."""
import contextlib
import logging
import os
import pathlib
import tempfile
import unittest
import uuid

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.nova import client
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import polling
from blockattach.tests.unit import samples

LIMIT = polling.LIMIT
"""Seconds that no test waits for."""


class ClientTestCase(unittest.TestCase):
    """A Nova, and somebody with a token."""

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.request_id = f'req-{uuid.uuid4()}'
        self.caller = context.RequestContext(
            auth_token='token-of-the-user', project_id=samples.PROJECT, overwrite=False,
            global_request_id=self.request_id)
        logger = logging.getLogger(client.__name__)
        silent = logging.NullHandler()
        logger.addHandler(silent)
        self.addCleanup(logger.removeHandler, silent)

    def ask(self, caller=None, **settings):
        found = {'endpoint_override': self.nova.url, 'timeout': LIMIT, **settings}
        return client.NovaClient(nova_conf.NovaSettings(**found)).attachment_in_use(
            caller or self.caller, samples.SERVER, samples.VOLUME)

    def assert_nothing_is_learnt(self, **settings):
        with (self.assertLogs(client.__name__, 'WARNING') as logged,
              self.assertRaises(errors.NovaUnavailable) as caught):
            self.ask(**settings)
        for text in (str(caught.exception), *logged.output):
            self.assertNotIn('token-of-the-user', text)
        self.assertNotIn('127.0.0.1', str(caught.exception))
        self.assertIn(samples.SERVER, str(caught.exception))


class AnswersTest(ClientTestCase):
    """What Nova may answer."""

    def test_a_server_that_uses_the_volume(self):
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        self.assertEqual(samples.ATTACHMENT, self.ask())

    def test_the_id_of_an_attachment_is_a_uuid_however_it_is_written(self):
        for written in (samples.ATTACHMENT.upper(), samples.ATTACHMENT.replace('-', ''),
                        f'{{{samples.ATTACHMENT}}}'):
            self.nova.use(samples.SERVER, samples.VOLUME, written)
            self.assertEqual(samples.ATTACHMENT, self.ask())

    def test_an_answer_that_drips_is_none(self):
        self.nova.drip = 0.02
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        self.assert_nothing_is_learnt(timeout=0.1)

    def test_a_server_that_does_not_or_is_none(self):
        self.assertIsNone(self.ask())

    def test_failures(self):
        for status in (400, 401, 403, 406, 409, 429, 500, 502, 503, 504):
            with self.subTest(status=status):
                for body in ({'computeFault': {'code': status}},
                             {'volumeAttachment': {'attachment_id': 'another'}}):
                    self.nova.answer = nova.Reply(status, body)
                    self.assert_nothing_is_learnt()

    def test_not_found_by_anyone_but_nova(self):
        for body in (b'<html>no such page</html>', b'', {'message': 'no route'}, []):
            with self.subTest(body=body):
                self.nova.answer = nova.Reply(404, body)
                self.assert_nothing_is_learnt()

    def test_an_answer_without_the_id(self):
        # As a Nova before 2.89 would answer.
        for body in ({'volumeAttachment': {'id': 'x', 'volumeId': samples.VOLUME}},
                     {'volumeAttachment': {'attachment_id': None}}, {'volumeAttachment': None},
                     {'volumeAttachment': {'attachment_id': 'no uuid'}},
                     {}, [], b'', b'\xff'):
            with self.subTest(body=body):
                self.nova.answer = nova.Reply(200, body)
                self.assert_nothing_is_learnt()

    def test_a_token_is_sent_nowhere_else(self):
        with nova.NovaStandIn() as elsewhere:
            elsewhere.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
            self.nova.answer = nova.Reply(302, b'', {'Location': elsewhere.url})
            self.assert_nothing_is_learnt()
            self.assertEqual([], elsewhere.requests)

    def test_nova_is_away(self):
        self.nova.close()
        self.assert_nothing_is_learnt()

    def test_nova_is_slow(self):
        self.nova.fall_asleep()
        self.assert_nothing_is_learnt(timeout=0.05)


class RequestTest(ClientTestCase):
    """What Nova is asked, and where."""

    def test_the_request(self):
        self.ask()
        request, = self.nova.requests
        self.assertEqual(f'/v2.1/servers/{samples.SERVER}/os-volume_attachments/{samples.VOLUME}',
                         request.path)
        for name, value in {'x-auth-token': 'token-of-the-user',
                            'openstack-api-version': 'compute 2.89',
                            'x-openstack-request-id': self.request_id}.items():
            self.assertEqual(value, request.headers.get(name), name)

    def test_without_a_token(self):
        self.ask(caller=context.RequestContext(overwrite=False))
        self.assertEqual('notused', self.nova.requests[0].headers['x-auth-token'])

    def test_a_name_cannot_leave_its_place_in_the_path(self):
        client.NovaClient(nova_conf.NovaSettings(
            endpoint_override=self.nova.url, timeout=LIMIT)).attachment_in_use(
            self.caller, '../../x?y#z', samples.VOLUME)
        self.assertEqual('/v2.1/servers/..%2F..%2Fx%3Fy%23z/os-volume_attachments/'
                         f'{samples.VOLUME}', self.nova.requests[0].path)

    def test_nova_is_found_in_the_catalog(self):
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

    def test_a_catalog_without_it(self):
        here = {'endpoint_override': None, 'auth_url': self.nova.keystone_url}
        self.assert_nothing_is_learnt(**here, region_name='two')
        self.assert_nothing_is_learnt(**here, interface='internal')
        for status, body in ((401, {}), (200, {}), (200, b'x'), (302, b''), (500, b'')):
            with self.subTest(status=status, body=body):
                self.nova.answer = nova.Reply(status, body)
                self.assert_nothing_is_learnt(**here)


class EnvironmentTest(ClientTestCase):
    """What the environment of the process changes."""

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

    def test_accounts_of_a_netrc_are_not_sent(self):
        self.assertEqual(samples.ATTACHMENT, self.ask())
        self.assertNotIn('authorization', self.nova.requests[-1].headers)

    def test_a_proxy_is_asked(self):
        os.environ['http_proxy'] = self.nova.keystone_url
        with contextlib.closing(nova.NovaStandIn()) as elsewhere:
            self.ask(endpoint_override=elsewhere.url)
        self.assertEqual([], elsewhere.requests)
        self.assertIn(elsewhere.url, self.nova.requests[-1].path)
        self.assertNotIn('authorization', self.nova.requests[-1].headers)
