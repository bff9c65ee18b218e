"""Cleanup of work left by services that are down."""
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.api import base
from blockattach.tests.fixtures import http

NOTHING = {'cleaning': [], 'unavailable': []}


class CleanupTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume()

    def leave(self):
        """Request a delete, and stop the manager before it deletes the volume."""
        self.http.hold = True
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{self.volume_id}'))
        self.silence()

    def silence(self):
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")

    def ask(self, **body):
        reply = self.http.as_admin.post('/workers/cleanup', body, version='3.24')
        self.assert_status(202, reply)
        return reply.body

    def test_cleanup_without_leftover_work_empty(self):
        self.assertEqual(NOTHING, self.ask())
        self.silence()
        self.assertEqual(NOTHING, self.ask())

    def test_cleanup_without_other_member_unavailable(self):
        self.leave()
        found = self.ask()
        [service] = found['unavailable']
        self.assertIsInstance(service.pop('id'), int)
        self.assertEqual({'host': http.HOST, 'binary': 'cinder-volume', 'cluster_name': None},
                         service)
        self.assertEqual([], found['cleaning'])
        self.assertEqual('deleting', self.shown(self.volume_id)['status'])

    def test_cleanup_by_other_cluster_member(self):
        """Another member of the cluster of the dead service does the cleanup."""
        self.leave()
        self.sql("UPDATE services SET cluster = 'storage-1@fake' WHERE host = 'storage-1@fake'")
        services.register(self.http.database, binaries.VOLUME, 'storage-2@fake', 'nova', 'x',
                          cluster=http.HOST)
        found = self.ask()
        self.assertEqual(([http.HOST], []), (
            [one['host'] for one in found['cleaning']], found['unavailable']))

    def test_cleanup_by_other_scheduler(self):
        self.http.hold = True
        self.http.as_member.post('/volumes', {'volume': {'size': 1}})
        self.silence()
        self.assertEqual(['control-1'], [one['host'] for one in self.ask()['unavailable']])
        services.register(self.http.database, binaries.SCHEDULER, 'control-2', 'nova', 'x')
        self.assertEqual(['control-1'], [one['host'] for one in self.ask()['cleaning']])

    def test_cleanup_filters(self):
        self.leave()
        service_id = services.get_by_host(
            self.http.database, binaries.VOLUME, http.HOST, 60).id
        for body, found in (
                ({'service_id': service_id}, True), ({'service_id': str(service_id)}, True),
                ({'service_id': 0}, False), ({'host': http.HOST}, True),
                ({'host': 'storage-1'}, True), ({'host': 'storage-2'}, False),
                ({'binary': 'cinder-volume'}, True), ({'binary': 'cinder-scheduler'}, False),
                ({'is_up': False}, True), ({'is_up': 'true'}, False), ({'disabled': 'no'}, True),
                ({'disabled': True}, False), ({'cluster_name': 'alpha@fake'}, False),
                ({'cluster_name': None, 'resource_type': None, 'service_id': None}, True),
                ({'resource_type': 'volume'}, True), ({'resource_type': 'Snapshot'}, False),
                ({'resource_id': self.volume_id, 'resource_type': 'VOLUME'}, True),
                ({'resource_id': base.ABSENT, 'host': http.HOST}, False)):
            with self.subTest(body=body):
                self.assertEqual([http.HOST] * found,
                                 [one['host'] for one in self.ask(**body)['unavailable']])

    def test_cleanup_of_running_service_needs_is_up(self):
        self.http.hold = True
        self.http.as_member.delete(f'/volumes/{self.volume_id}')
        self.assertEqual(NOTHING, self.ask())
        self.assertEqual([http.HOST], [one['host'] for one in self.ask(is_up=True)['cleaning']])

    def test_invalid_cleanup_rejected(self):
        for body, words in (
                ({'zz': 1}, 'zz'), ({'binary': 'cinder-backup'}, 'cinder-backup'),
                ({'is_up': 'maybe'}, 'is_up'), ({'host': ''}, 'host'),
                ({'resource_type': 'Backup'}, 'Resource type Backup not valid, must be Snapshot '
                                              'or Volume'),
                ({'resource_id': 'x'}, 'resource_id'), ({'service_id': 'x'}, 'service_id'),
                ({'resource_id': base.ABSENT}, f'no resource with UUID {base.ABSENT}')):
            with self.subTest(body=body):
                self.assert_fault(400, words, self.http.as_admin.post('/workers/cleanup', body))
        self.assert_status(404, self.http.as_admin.post('/workers/cleanup', {}, version='3.23'))
