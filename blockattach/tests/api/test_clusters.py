"""Clusters, whose members are shown, disabled and enabled together."""
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.api import base

NAME = 'alpha@fake'
MEMBERS = ('node-1@fake', 'node-2@fake')
SUMMARY = {'name', 'binary', 'state', 'status'}
DETAIL = SUMMARY | {'num_hosts', 'num_down_hosts', 'last_heartbeat', 'created_at', 'updated_at',
                    'disabled_reason'}
REPLICATION = {'replication_status', 'frozen', 'active_backend_id'}


class ClustersTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        for member in MEMBERS:
            self.join(member)
        self.join('node-9@fake', cluster='beta@fake')

    def join(self, host, cluster=NAME):
        services.register(self.http.database, binaries.VOLUME, host, 'nova', 'x', cluster=cluster)

    def silence(self, *hosts):
        for host in hosts:
            self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000' "
                     f"WHERE host = '{host}'")

    def list(self, path='', version='3.71'):
        reply = self.http.as_admin.get(f'/clusters{path}', version=version)
        self.assert_status(200, reply)
        return reply.body['clusters']

    def show(self, version='3.71'):
        reply = self.http.as_admin.get(f'/clusters/{NAME}', version=version)
        self.assert_status(200, reply)
        return reply.body['cluster']

    def put(self, action, version='3.71', **body):
        return self.http.as_admin.put(f'/clusters/{action}', body, version=version)

    def test_cluster_keys_by_version(self):
        for version, more, of_summary in (('3.7', set(), set()), ('3.25', set(), set()),
                                          ('3.26', REPLICATION, {'replication_status'})):
            with self.subTest(version=version):
                self.assertEqual(SUMMARY | of_summary, self.list(version=version)[0].keys())
                self.assertEqual(DETAIL | more, self.list('/detail', version)[0].keys())
                self.assertEqual(DETAIL | more, self.show(version).keys())
        for path in ('', '/detail', f'/{NAME}'):
            self.assert_status(404, self.http.as_admin.get(f'/clusters{path}', version='3.6'))

    def test_cluster_shows_state_of_members(self):
        self.silence(MEMBERS[0])
        shown = self.show()
        times = [shown.pop(key) for key in ('last_heartbeat', 'created_at', 'updated_at')]
        self.assertRegex(times[0], r'^2\d{3}-')
        self.assertGreater(times[0], '2020-01-01T00:00:01')
        self.assertEqual(
            {'name': NAME, 'binary': 'cinder-volume', 'state': 'up', 'status': 'enabled',
             'num_hosts': 2, 'num_down_hosts': 1, 'disabled_reason': None,
             'replication_status': 'disabled', 'frozen': False, 'active_backend_id': None}, shown)
        self.silence(MEMBERS[1])
        self.assertEqual(('down', 2), (self.show()['state'], self.show()['num_down_hosts']))

    def test_cluster_filters(self):
        self.silence('node-9@fake')
        self.put('disable', name=NAME)
        both = [NAME, 'beta@fake']
        for query, expected in (
                ('', both), (f'?name={NAME}', both[:1]), ('?name=zz', []),
                ('?binary=cinder-volume', both), ('?binary=cinder-backup', []),
                ('?is_up=true', both[:1]), ('?is_up=0', both[1:]), ('?disabled=yes', both[:1]),
                ('?num_hosts=2', both[:1]), ('?num_down_hosts=1', both[1:]),
                ('?num_down_hosts=x', []), ('?frozen=false', both), ('?frozen=true', []),
                ('?replication_status=disabled', both), ('?active_backend_id=x', [])):
            for path in ('', '/detail'):
                with self.subTest(query=query, path=path):
                    self.assertEqual(expected,
                                     [one['name'] for one in self.list(f'{path}{query}')])

    def test_invalid_cluster_filters_rejected(self):
        for query, version, words in (('?zz=1', '3.71', 'Invalid filter keys: zz'),
                                      ('?frozen=true', '3.25', 'Invalid filter keys: frozen'),
                                      ('?is_up=maybe', '3.71', 'is_up'),
                                      ('?disabled=', '3.71', 'disabled')):
            with self.subTest(query=query, version=version):
                self.assert_fault(400, words, self.http.as_admin.get(
                    f'/clusters{query}', version=version))

    def test_disable_and_enable_cluster_change_all_members(self):
        reply = self.put('disable', name=NAME, disabled_reason=' new disks ')
        self.assert_status(200, reply)
        summary = {'name': NAME, 'binary': 'cinder-volume', 'state': 'up',
                   'replication_status': 'disabled'}
        self.assertEqual({'cluster': {**summary, 'status': 'disabled',
                                      'disabled_reason': 'new disks'}}, reply.body)
        self.assertEqual([('disabled', 'new disks')] * 2, self.members())
        self.assertEqual('new disks', self.show()['disabled_reason'])
        reply = self.put('enable', name=NAME, binary='cinder-volume')
        self.assertEqual({'cluster': {**summary, 'status': 'enabled', 'disabled_reason': None}},
                         reply.body)
        self.assertEqual([('enabled', None)] * 2, self.members())

    def members(self):
        found = self.http.as_admin.get('/os-services').body['services']
        return [(one['status'], one['disabled_reason']) for one in found
                if one['cluster'] == NAME]

    def test_cluster_enabled_while_one_member_enabled(self):
        services.set_disabled(self.http.database, binaries.VOLUME, MEMBERS[0], True, 'disks')
        self.assertEqual(('enabled', 'disks'),
                         (self.show()['status'], self.show()['disabled_reason']))

    def test_new_member_inherits_cluster_disabled(self):
        self.put('disable', name=NAME, disabled_reason='new disks')
        self.join('node-3@fake')
        self.assertEqual([('disabled', 'new disks')] * 3, self.members())
        self.put('enable', name=NAME)
        self.join('node-4@fake')
        self.assertEqual([('enabled', None)] * 4, self.members())
        services.set_disabled(self.http.database, binaries.VOLUME, 'storage-1@fake', True)
        services.register(self.http.database, binaries.VOLUME, 'storage-2@fake', 'nova', 'x')
        self.assertFalse(services.get_by_host(
            self.http.database, binaries.VOLUME, 'storage-2@fake', 60).disabled)

    def test_frozen_cluster_shown_disabled(self):
        self.http.as_admin.put('/os-services/freeze', {'cluster': NAME})
        shown = self.show()
        self.assertEqual(('disabled', 'frozen', True),
                         (shown['status'], shown['disabled_reason'], shown['frozen']))
        self.assertEqual([NAME], [one['name'] for one in self.list('?disabled=true')])

    def test_unknown_cluster_not_found(self):
        admin = self.http.as_admin
        for reply in (admin.get('/clusters/zz'),
                      admin.get(f'/clusters/{NAME}?binary=cinder-backup'),
                      self.put('enable', name='zz'), self.put('disable', name='zz'),
                      self.put('disable', name=NAME, binary='cinder-backup')):
            self.assert_status(404, reply)
        self.assert_fault(404, 'Cluster zz could not be found.', admin.get('/clusters/zz'))

    def test_malformed_cluster_requests_change_nothing(self):
        for action, body in (
                ('disable', {}), ('disable', {'name': ''}), ('disable', {'name': None}),
                ('disable', {'name': NAME, 'colour': 'red'}),
                ('disable', {'name': NAME, 'disabled_reason': 'r' * 256}),
                ('enable', {'name': NAME, 'disabled_reason': 'x'})):
            with self.subTest(action, body=body):
                self.assert_status(400, self.put(action, **body))
        self.assertEqual('enabled', self.show()['status'])
