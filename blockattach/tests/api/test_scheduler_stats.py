"""What the pools said of themselves."""
from blockattach.db.services import pools
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make


class PoolsTest(base.ApiTestCase):

    def list(self, query='', version='3.71'):
        reply = self.http.as_admin.get(f'/scheduler-stats/get_pools{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['pools']

    def test_names(self):
        for query in ('', '?detail=false'):
            with self.subTest(query=query):
                self.assertEqual([{'name': http.POOL}], self.list(query))

    def test_capabilities(self):
        self.volume(size=7)
        for query in ('?detail=true', '?detail=1'):
            with self.subTest(query=query):
                pool, = self.list(query)
                self.assertEqual(http.POOL, pool['name'])
                self.assertEqual(
                    {'total_capacity_gb': 1000.0, 'allocated_capacity_gb': 7,
                     'reserved_percentage': 0, 'multiattach': True, 'storage_protocol': 'iSCSI',
                     'vendor_name': 'Open Source', 'volume_backend_name': 'fake',
                     'QoS_support': False},
                    {key: pool['capabilities'][key] for key in (
                        'total_capacity_gb', 'allocated_capacity_gb', 'reserved_percentage',
                        'multiattach', 'storage_protocol', 'vendor_name', 'volume_backend_name',
                        'QoS_support')})

    def test_one_that_is_silent_is_shown_as_down(self):
        before, = self.list('?detail=true')
        self.assertEqual('up', before['capabilities']['backend_state'])
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        after, = self.list('?detail=true')
        self.assertEqual('down', after['capabilities']['backend_state'])
        self.assertEqual(before['capabilities']['timestamp'], after['capabilities']['timestamp'])
        self.assertEqual([{'name': http.POOL}], self.list())

    def test_by_name_from_3_28(self):
        make.pool(self.http.database)
        both = [{'name': http.POOL}, {'name': make.POOL}]
        for query, version, expected in (
                (f'?name={http.POOL}', '3.28', both[:1]), ('?name=zz', '3.28', []),
                ('?name=zz', '3.27', both), ('?zz=1', '3.27', both), ('?zz=1', '3.30', both),
                ('?all_tenants=1', '3.71', both)):
            with self.subTest(query=query, version=version):
                self.assertEqual(expected, self.list(query.replace('#', '%23'), version))

    def test_by_type_from_3_35(self):
        pools.report(self.http.database, 'storage-9@fake', [('storage-9@fake#gold', {
            'total_capacity_gb': 10, 'free_capacity_gb': 10, 'tier': 'gold'})], make.ZONE)
        gold = make.volume_type(self.http.database, 'gold', extra_specs={'tier': 'gold'})
        for query, expected in (
                ('?volume_type=gold', ['storage-9@fake#gold']),
                (f'?volume_type={gold.id}', ['storage-9@fake#gold']),
                (f'?volume_type=gold&name={http.POOL}', []),
                (f'?volume_type={self.multiattach_type().name}', [http.POOL]),
                (f'?volume_type={make.DEFAULT_TYPE}', [http.POOL, 'storage-9@fake#gold'])):
            with self.subTest(query=query):
                found = self.list(query.replace('#', '%23'), '3.35')
                self.assertEqual(expected, [pool['name'] for pool in found])
        self.assert_fault(404, 'silver', self.http.as_admin.get(
            '/scheduler-stats/get_pools?volume_type=silver'))
        self.assertEqual(2, len(self.list('?volume_type=gold', '3.34')))

    def test_what_is_refused(self):
        for query, sentence in (('?zz=1&yy=1', 'Invalid filters zz,yy'), ('?detail=zz', 'detail'),
                                ('?name~=x', 'Invalid filters name~')):
            for version in ('3.31', '3.71'):
                with self.subTest(query=query, version=version):
                    self.assert_fault(400, sentence, self.http.as_admin.get(
                        f'/scheduler-stats/get_pools{query}', version=version))
