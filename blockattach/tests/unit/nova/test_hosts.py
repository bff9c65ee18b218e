"""Query of Nova for the host of a server."""
import logging
import unittest

from blockattach.storage import errors
from blockattach.storage import nova as nova_client
from blockattach.storage.conf import nova as nova_conf
from blockattach.tests.fixtures import nova
from blockattach.tests.unit import samples

HOST = 'OS-EXT-SRV-ATTR:host'
OF_OURS = {'tenant_id': samples.PROJECT}
ACCOUNT = {'username': 'blockattach', 'password': 'secret-of-the-account'}

ANSWERS = (
    # status, body, words of the error
    (404, {'itemNotFound': {}}, 'the server does not exist'),
    (200, {'server': {**OF_OURS, HOST: None}}, 'the server is not on any host'),
    (200, {'server': {**OF_OURS, HOST: ''}}, 'the server is not on any host'),
    (200, {'server': OF_OURS}, 'Nova does not show the host'),
    (200, {'server': {'tenant_id': 'another', HOST: 'compute-1'}}, 'the server does not exist'),
    (200, {'server': {HOST: 'compute-1'}}, 'the server does not exist'),
    (200, {}, 'status 200'), (200, b'no JSON', 'status 200'), (200, {'server': []}, 'status 200'),
    (403, {'forbidden': {}}, 'status 403'), (500, b'', 'status 500'),
)


class HostsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        logger, silent = logging.getLogger(nova_client.__name__), logging.NullHandler()
        logger.addHandler(silent)
        self.addCleanup(logger.removeHandler, silent)
        self.nova.run(samples.SERVER, 'web', **OF_OURS, **{HOST: 'compute-1'})

    def ask(self, **settings):
        found = {'endpoint_override': self.nova.url, 'timeout': 60.0, **settings}
        return nova_client.ServerHosts(nova_conf.NovaSettings(**found)).host_of(
            samples.SERVER, samples.PROJECT)

    def refused(self, words, **settings):
        with self.assertRaises(errors.ServerHostUnknown) as caught:
            self.ask(**settings)
        self.assertIn(words, str(caught.exception))
        self.assertIn(samples.SERVER, str(caught.exception))
        self.assertNotIn('127.0.0.1', str(caught.exception))

    def test_host_found_without_keystone(self):
        self.assertEqual('compute-1', self.ask())
        request, = self.nova.requests
        self.assertEqual((f'/v2.1/servers/{samples.SERVER}', 'notused'),
                         (request.path, request.headers['x-auth-token']))

    def test_host_found_with_account_and_catalog(self):
        for auth_url in (self.nova.keystone_url, f'{self.nova.keystone_url}/v3'):
            with self.subTest(auth_url):
                self.nova.requests.clear()
                self.assertEqual('compute-1', self.ask(
                    endpoint_override=None, auth_url=auth_url, **ACCOUNT))
                asked = self.nova.requests[-1]
                self.assertEqual(f'/v2.1/servers/{samples.SERVER}', asked.path)
                self.assertEqual('blockattach:service', asked.headers['x-auth-token'])

    def test_unusable_answer_raises(self):
        for status, body, words in ANSWERS:
            with self.subTest(status=status, body=body):
                self.nova.answer = nova.Reply(status, body)
                self.refused(words)

    def test_unknown_region_raises(self):
        self.refused('cannot be reached', endpoint_override=None, region_name='two',
                     auth_url=self.nova.keystone_url, **ACCOUNT)

    def test_nova_unreachable_raises(self):
        self.nova.fall_asleep()
        self.refused('cannot be reached', timeout=0.05)
        self.nova.close()
        self.refused('cannot be reached')

    def test_settings_repr_hides_password(self):
        settings = nova_conf.NovaSettings(**ACCOUNT)
        self.assertNotIn(ACCOUNT['password'], repr(settings))
