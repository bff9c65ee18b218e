"""External events to Nova and the handling of its answers."""
import logging
import unittest

from blockattach.storage import nova as nova_client
from blockattach.storage.conf import nova as nova_conf
from blockattach.tests.fixtures import nova
from blockattach.tests.unit import samples

OTHER = '44444444-4444-4444-8444-444444444444'
ACCOUNT = {'username': 'blockattach', 'password': 'secret-of-the-account'}
PATH = '/v2.1/os-server-external-events'


class EventsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        logger, silent = logging.getLogger(nova_client.__name__), logging.NullHandler()
        logger.addHandler(silent)
        self.addCleanup(logger.removeHandler, silent)
        self.nova.run(samples.SERVER, 'web')

    def events(self, **settings):
        found = {'endpoint_override': self.nova.url, 'timeout': 60.0, **settings}
        return nova_client.ServerEvents(nova_conf.NovaSettings(**found))

    def send(self, *servers, **settings):
        return self.events(**settings).volume_extended(
            servers or (samples.SERVER,), samples.VOLUME)

    def test_volume_extended_sends_event_for_each_server(self):
        self.nova.run(OTHER, 'db')
        self.assertEqual({}, self.send(samples.SERVER, OTHER))
        [request] = self.nova.requests
        self.assertEqual((PATH, 'compute 2.51'),
                         (request.path, request.headers['openstack-api-version']))
        self.assertEqual({'events': [
            {'name': 'volume-extended', 'server_uuid': one, 'tag': samples.VOLUME}
            for one in (samples.SERVER, OTHER)]}, request.body)

    def test_volume_extended_uses_account_and_catalog(self):
        self.assertEqual({}, self.send(endpoint_override=None, auth_url=self.nova.keystone_url,
                                       **ACCOUNT))
        self.assertEqual('blockattach:service', self.nova.requests[-1].headers['x-auth-token'])

    def test_volume_extended_reports_failure_by_server(self):
        self.assertEqual({OTHER: 'Nova does not know the server'},
                         self.send(samples.SERVER, OTHER))
        self.nova.run(OTHER, 'db', host='')
        self.assertEqual({OTHER: 'the server is not on any host'},
                         self.send(samples.SERVER, OTHER))
        self.nova.end(OTHER)
        self.assertEqual(dict.fromkeys((OTHER, samples.VOLUME), 'Nova does not know the server'),
                         self.send(samples.VOLUME, OTHER))

    def test_volume_extended_with_nova_unreachable(self):
        self.nova.fall_asleep()
        self.assertEqual({samples.SERVER: 'Nova cannot be reached'}, self.send(timeout=0.05))
        self.nova.close()
        self.assertEqual({samples.SERVER: 'Nova cannot be reached'}, self.send())

    def reimaged(self, done):
        self.events().volume_reimaged(samples.SERVER, samples.VOLUME, done)

    def test_volume_reimaged_sends_event_with_status(self):
        for done, status in ((True, 'completed'), (False, 'failed')):
            self.reimaged(done)
            request = self.nova.requests[-1]
            self.assertEqual((PATH, 'compute 2.93'),
                             (request.path, request.headers['openstack-api-version']))
            self.assertEqual({'events': [
                {'name': 'volume-reimaged', 'server_uuid': samples.SERVER, 'status': status,
                 'tag': samples.VOLUME}]}, request.body)

    def test_volume_reimaged_to_unknown_server_logged(self):
        self.nova.end(samples.SERVER)
        with self.assertLogs(nova_client.__name__, 'WARNING') as logged:
            self.reimaged(True)
        self.assertIn('Nova does not know the server', logged.output[0])
