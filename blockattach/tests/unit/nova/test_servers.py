"""Query of Nova whether a server exists and uses a volume."""
import logging
import unittest

from blockattach.platform import errors
from blockattach.storage import nova as nova_client
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.domain import expiry_rule
from blockattach.tests.fixtures import nova
from blockattach.tests.unit import samples

TASK = 'OS-EXT-STS:task_state'
ACCOUNT = {'username': 'blockattach', 'password': 'secret-of-the-account'}
PATH = f'/v2.1/servers/{samples.SERVER}'

UNCLEAR = (
    (404, b'no such page'), (404, {}), (404, {'message': 'proxy'}), (200, {}), (200, b'no JSON'),
    (200, {'server': []}), (401, {}), (403, {'forbidden': {}}), (500, b''), (503, {}),
    # A server whose cell is down.
    (200, {'server': {'id': samples.SERVER, 'status': 'UNKNOWN'}}),
)


class ServersTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        logger, silent = logging.getLogger(nova_client.__name__), logging.NullHandler()
        logger.addHandler(silent)
        self.addCleanup(logger.removeHandler, silent)

    def look(self, **settings):
        found = {'endpoint_override': self.nova.url, 'timeout': 60.0, **settings}
        return nova_client.Servers(nova_conf.NovaSettings(**found)).look(
            samples.SERVER, samples.VOLUME)

    def refused(self, words, **settings):
        with self.assertRaises(errors.NovaUnavailable) as caught:
            self.look(**settings)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn('127.0.0.1', str(caught.exception))

    def test_server_with_volume(self):
        self.nova.run(samples.SERVER, 'web')
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        self.assertEqual(expiry_rule.Server(True, False, samples.ATTACHMENT), self.look())
        self.assertEqual([PATH, f'{PATH}/os-volume_attachments/{samples.VOLUME}'],
                         [request.path for request in self.nova.requests])
        self.assertEqual({'compute 2.89'}, {request.headers['openstack-api-version']
                                            for request in self.nova.requests})

    def test_server_without_volume(self):
        self.nova.run(samples.SERVER, 'web')
        self.assertEqual(expiry_rule.Server(True), self.look())

    def test_server_with_task_is_busy(self):
        for shown in ({TASK: 'migrating'}, {TASK: 'deleting'}, {'status': 'BUILD', TASK: None}):
            with self.subTest(shown):
                self.nova.run(samples.SERVER, 'web', **shown)
                self.assertEqual(expiry_rule.Server(True, True), self.look())

    def test_unknown_server_does_not_exist(self):
        self.assertEqual(expiry_rule.Server(False), self.look())

    def test_not_found_to_account_without_admin_rejected(self):
        """Nova answers 404 for a server of another project to a user without permission."""
        self.nova.sees_all = False
        self.refused('status 403')

    def test_server_found_with_account_and_catalog(self):
        self.nova.run(samples.SERVER, 'web')
        self.assertEqual(expiry_rule.Server(True), self.look(
            endpoint_override=None, auth_url=self.nova.keystone_url, **ACCOUNT))
        self.assertEqual('blockattach:service', self.nova.requests[-1].headers['x-auth-token'])

    def test_unclear_answer_raises(self):
        for status, body in UNCLEAR:
            with self.subTest(status=status, body=body):
                self.nova.answer = nova.Reply(status, body)
                self.refused(f'status {status}')

    def test_unclear_answer_about_volume_raises(self):
        self.nova.run(samples.SERVER, 'web')
        self.nova.use(samples.SERVER, samples.VOLUME, 5)
        self.refused('status 200')

    def test_nova_unreachable_raises(self):
        self.nova.fall_asleep()
        self.refused('cannot be reached', timeout=0.05)
        self.nova.close()
        self.refused('cannot be reached')
