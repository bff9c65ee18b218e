"""The list of services."""
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.testing import http
from blockattach.tests.api import base

KEYS = {'binary', 'host', 'zone', 'status', 'state', 'updated_at', 'disabled_reason'}
VOLUME_KEYS = {'replication_status', 'active_backend_id', 'frozen'}


class ServicesTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        services.register(self.http.database, binaries.SCHEDULER, 'control-1', 'nova', 'x')

    def list(self, query='', version='3.71'):
        reply = self.http.as_admin.get(f'/os-services{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['services']

    def test_keys_by_version(self):
        for version, added, of_volume in (('3.0', set(), set()), ('3.6', set(), set()),
                                          ('3.7', {'cluster'}, set()),
                                          ('3.48', {'cluster'}, set()),
                                          ('3.49', {'cluster'}, {'backend_state'})):
            with self.subTest(version=version):
                volume, scheduler = self.list(version=version)
                self.assertEqual(KEYS | added, scheduler.keys())
                self.assertEqual(KEYS | added | VOLUME_KEYS | of_volume, volume.keys())

    def test_one_that_lives(self):
        volume, scheduler = self.list()
        self.assertRegex(volume.pop('updated_at'), r'^2\d{3}-')
        self.assertEqual(
            {'binary': 'cinder-volume', 'host': http.HOST, 'zone': 'nova', 'status': 'enabled',
             'state': 'up', 'disabled_reason': None, 'cluster': None, 'backend_state': 'up',
             'replication_status': 'disabled', 'active_backend_id': None, 'frozen': False},
            volume)
        self.assertEqual(('cinder-scheduler', 'control-1', 'up'),
                         (scheduler['binary'], scheduler['host'], scheduler['state']))

    def test_one_that_is_silent(self):
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        self.assertEqual(['down', 'down'], [one['state'] for one in self.list()])
        self.assertEqual('down', self.list()[0]['backend_state'])

    def test_one_that_is_disabled(self):
        services.set_disabled(self.http.database, binaries.VOLUME, http.HOST, True, 'new disks')
        volume = self.list()[0]
        self.assertEqual(('disabled', 'new disks', 'up'),
                         (volume['status'], volume['disabled_reason'], volume['state']))

    def test_some_of_them(self):
        for query, expected in (
                (f'?host={http.HOST}', ['cinder-volume']), ('?host=storage-1', ['cinder-volume']),
                ('?host=storage', []), ('?binary=cinder-scheduler', ['cinder-scheduler']),
                ('?host=control-1&binary=cinder-volume', []),
                ('?host=&binary=', ['cinder-volume', 'cinder-scheduler'])):
            with self.subTest(query=query):
                self.assertEqual(expected, [one['binary'] for one in self.list(query)])
