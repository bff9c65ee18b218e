"""Scheduler stats: reported pools, and the explanation of a placement."""
from blockattach.storage.db.services import pools
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make


class PoolsTest(base.ApiTestCase):

    def list(self, query='', version='3.71'):
        reply = self.http.as_admin.get(f'/scheduler-stats/get_pools{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['pools']

    def test_get_pools_lists_names(self):
        for query in ('', '?detail=false'):
            with self.subTest(query=query):
                self.assertEqual([{'name': http.POOL}], self.list(query))

    def test_get_pools_detail_shows_capabilities(self):
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

    def test_silent_backend_shown_down(self):
        before, = self.list('?detail=true')
        self.assertEqual('up', before['capabilities']['backend_state'])
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        after, = self.list('?detail=true')
        self.assertEqual('down', after['capabilities']['backend_state'])
        self.assertEqual(before['capabilities']['timestamp'], after['capabilities']['timestamp'])
        self.assertEqual([{'name': http.POOL}], self.list())

    def test_get_pools_filtered_by_name_from_3_28(self):
        make.pool(self.http.database)
        both = [{'name': http.POOL}, {'name': make.POOL}]
        for query, version, expected in (
                (f'?name={http.POOL}', '3.28', both[:1]), ('?name=zz', '3.28', []),
                ('?name=zz', '3.27', both), ('?zz=1', '3.27', both), ('?zz=1', '3.30', both),
                ('?all_tenants=1', '3.71', both)):
            with self.subTest(query=query, version=version):
                self.assertEqual(expected, self.list(query.replace('#', '%23'), version))

    def test_get_pools_filtered_by_type_from_3_35(self):
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

    def test_invalid_get_pools_query_rejected(self):
        for query, sentence in (('?zz=1&yy=1', 'Invalid filters zz,yy'), ('?detail=zz', 'detail'),
                                ('?name~=x', 'Invalid filters name~')):
            for version in ('3.31', '3.71'):
                with self.subTest(query=query, version=version):
                    self.assert_fault(400, sentence, self.http.as_admin.get(
                        f'/scheduler-stats/get_pools{query}', version=version))


class ExplainPoolsTest(base.ApiTestCase):
    """Explanation of the pools that would host a volume and of those rejected."""

    def ask(self, query, extension=', blockattach 1.6'):
        return self.http.as_admin.get(f'/scheduler-stats/explain_pools{query}',
                                      version=f'3.71{extension}')

    def explained(self, query):
        reply = self.ask(query)
        self.assert_status(200, reply)
        return reply.body

    def pool(self, name, **report):
        pools.report(self.http.database, name.partition('#')[0], [(name, {
            'total_capacity_gb': 10, 'free_capacity_gb': 10, 'multiattach': True, **report})],
            make.ZONE)

    def test_explain_names_filter_that_rejects_pool(self):
        self.pool('storage-8@small#pool')
        self.pool('storage-9@single#pool', total_capacity_gb=5000, free_capacity_gb=5000,
                  multiattach=False)
        kind = self.multiattach_type().name
        found = self.explained(f'?size=20&volume_type={kind}')
        self.assertEqual((20, kind, make.ZONE), (
            found['size'], found['volume_type'], found['availability_zone']))
        self.assertEqual([
            (http.POOL, None, None),
            ('storage-8@small#pool', 'capacity',
             '10 GiB left, 20 GiB required'),
            ('storage-9@single#pool', 'multiattach',
             'multiattach is not supported')],
            [(one['name'], one['refused_by'], one['reason'])
             for one in found['pools']])

    def test_explain_sorts_pools_by_score(self):
        self.pool('storage-9@large#pool', total_capacity_gb=50000, free_capacity_gb=50000)
        first, second = self.explained('?size=1')['pools']
        self.assertEqual(('storage-9@large#pool', 50000.0), (first['name'], first['left_gb']))
        self.assertEqual(http.POOL, second['name'])
        self.assertGreater(first['score'], second['score'])

    def test_explain_creates_and_reserves_nothing(self):
        before = self.explained('?size=7')
        self.assertEqual(before, self.explained('?size=7'))
        self.assertEqual([], self.http.as_admin.get('/volumes?all_tenants=1').body['volumes'])

    def test_explain_pool_with_infinite_capacity(self):
        self.pool('storage-9@endless#pool', total_capacity_gb='infinite',
                  free_capacity_gb='infinite')
        found = {one['name']: one for one in self.explained('?size=100000')['pools']}
        self.assertIsNone(found['storage-9@endless#pool']['left_gb'])
        self.assertIsNone(found['storage-9@endless#pool']['reason'])
        self.assertEqual('capacity', found[http.POOL]['refused_by'])

    def test_explain_without_pools_empty(self):
        self.sql('DELETE FROM pools')
        self.assertEqual([], self.explained('?size=1')['pools'])

    def test_invalid_explain_query_rejected(self):
        for query, status, sentence in (
                ('', 400, "'' for 'size'"), ('?size=0', 400, "'0' for 'size'"),
                ('?size=x', 400, "'x' for 'size'"), ('?size=-1', 400, "'-1' for 'size'"),
                ('?size=9999999999', 400, "for 'size'"), ('?size=%C2%B2', 400, "for 'size'"),
                ('?size=1&volume_type=silver', 404, 'silver'),
                ('?size=1&availability_zone=mars', 400, 'mars')):
            with self.subTest(query=query):
                self.assert_fault(status, sentence, self.ask(query))

    def test_explain_not_found_without_extension(self):
        for asked in ('', ', blockattach 1.5'):
            with self.subTest(asked=asked):
                self.assert_status(404, self.ask('?size=1', asked))
