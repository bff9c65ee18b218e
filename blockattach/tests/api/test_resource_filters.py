"""Resource filters of lists: the built-in table, and a table of the operator."""
import json
import pathlib
import tempfile

from blockattach.platform import errors
from blockattach.storage.conf import resource_filters
from blockattach.tests.api import base
from blockattach.tests.api import snapshots
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

SAMPLE = pathlib.Path(__file__).parents[3] / 'etc' / 'blockattach' / 'resource_filters.json'
OWN = {'volume': ['name~', 'size', 'host', 'colour', 'glance_metadata'], 'pool': ['name'],
       'attachment': ['project_id', 'volume_id~'], 'message': [],
       'snapshot': ['name~', 'user_id', 'colour~'], 'volume_type': ['name~', 'description'],
       'backup': ['name~']}
OF_POOLS = {'pool': ['name~', 'multiattach', 'total_capacity_gb', 'vendor_name']}


class TableTest(base.ApiTestCase):

    def listed(self, query='', version='3.33'):
        reply = self.http.as_nobody.get(f'/resource_filters{query}', version=version)
        self.assert_status(200, reply)
        return {row['resource']: row['filters'] for row in reply.body['resource_filters']}

    def test_default_resource_filters_listed(self):
        table = {resource: list(names) for resource, names in resource_filters.DEFAULT.items()}
        self.assertEqual(table, self.listed())
        self.assertEqual(table, self.listed('?resource='))
        self.assertEqual({'pool': ['name', 'volume_type']}, self.listed('?resource=pool', '3.71'))
        self.assertEqual({}, self.listed('?resource=zz'))

    def test_resource_filters_not_found_before_3_33(self):
        self.assert_status(404, self.http.as_admin.get('/resource_filters', version='3.32'))

    def test_sample_file_equals_default_filters(self):
        self.assertEqual(resource_filters.DEFAULT, resource_filters.read(str(SAMPLE)))


class OwnTableTestCase(snapshots.SnapshotsTestCase):
    """Test case with a resource_query_filters_file."""

    TABLE = OWN

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / 'filters.json'
        path.write_text(json.dumps(self.TABLE), encoding='utf-8')
        self.SETTINGS = {'resource_query_filters_file': str(path)}
        super().setUp()

    def get(self, query, persona=None, version='3.71'):
        return (persona or self.http.as_member).get(query, version=version)


class OwnTableTest(OwnTableTestCase):

    def setUp(self):
        super().setUp()
        self.plain = make.volume(self.http.database, name='plain', on_pool=http.POOL).id
        self.other = make.volume(self.http.database, name='other', size_gb=2,
                                 on_pool=http.POOL).id

    def ids(self, query, *arguments):
        reply = self.get(f'/volumes?{query}', *arguments)
        self.assert_status(200, reply)
        return {one['id'] for one in reply.body['volumes']}

    def test_configured_resource_filters_listed(self):
        self.assertEqual([{'resource': name, 'filters': names} for name, names in OWN.items()],
                         self.get('/resource_filters').body['resource_filters'])

    def test_configured_filters_match_volumes(self):
        for query, expected in (('size=2', {self.other}), ('name=plain', {self.plain}),
                                ('name~=lai', {self.plain}), ('host=x', set()),
                                ("glance_metadata={'a':'b'}", set()), ('colour=red', set())):
            with self.subTest(query=query):
                self.assertEqual(expected, self.ids(query))

    def test_unconfigured_filters_rejected_for_users(self):
        both = {self.plain, self.other}
        for query in ('status=zz', 'size~=2', 'colour~=red', 'metadata=zz'):
            with self.subTest(query=query):
                self.assert_fault(400, f'Invalid filters {query.partition("=")[0]} are found',
                                  self.get(f'/volumes?{query}'))
                self.assertEqual(both, self.ids(query, None, '3.30'))
        self.assert_fault(400, 'Invalid filters name~ are found',
                          self.get('/volumes?name~=p', version='3.33'))

    def test_admin_filters_not_limited_by_file(self):
        for query, expected in (('status=available', {self.plain, self.other}),
                                ('name~=the', {self.other}), ('name=plain', {self.plain})):
            with self.subTest(query=query):
                self.assertEqual(expected, self.ids(query, self.http.as_admin))

    def test_configured_filters_apply_to_other_lists(self):
        reserved = self.reserve(self.plain)
        for path, status in (('/messages?event_id=x', 400), ('/attachments?attach_status=x', 400),
                             (f'/attachments?volume_id={self.plain}', 200),
                             (f'/attachments?volume_id~={self.plain[:8]}', 200)):
            with self.subTest(path=path):
                reply = self.get(path)
                self.assert_status(status, reply)
                if status == 200:
                    self.assertEqual([reserved], [one['id'] for one in reply.body['attachments']])
        self.assertEqual([], self.get(
            f'/attachments?project_id={http.OTHER_PROJECT}').body['attachments'])
        pools = '/scheduler-stats/get_pools'
        self.assert_status(200, self.get(f'{pools}?name={http.POOL.replace("#", "%23")}',
                                         self.http.as_admin))
        self.assert_fault(400, 'Invalid filters volume_type', self.get(
            f'{pools}?volume_type=x', self.http.as_admin))


class OtherListsTest(OwnTableTestCase):
    """Resource filters of the lists beside those of volumes."""

    def check(self, path, key, rows):
        """Check list requests.

        :param rows: query, expected names or the name of the rejected filter, and an optional
            version
        """
        for query, expected, *version in rows:
            with self.subTest(path=path, query=query, version=version):
                reply = self.get(f'{path}?{query}', None, *version)
                if isinstance(expected, str):
                    self.assert_fault(400, f'Invalid filters {expected} are found', reply)
                    self.assert_status(200, self.get(f'{path}?{query}', self.http.as_admin))
                else:
                    self.assert_status(200, reply)
                    self.assertEqual(expected, [one['name'] for one in reply.body[key]])

    def test_snapshot_resource_filters(self):
        self.snapshot(self.volume(), name='a1')
        self.snapshot(self.volume(), name='b1')
        for path in ('/snapshots', '/snapshots/detail'):
            self.check(path, 'snapshots', (
                ('name=a1', ['a1']), ('name~=1&sort=name:asc', ['a1', 'b1']), ('name~=b', ['b1']),
                ('user_id=x', []), ('colour=red', []), ('colour~=red', []),
                ('status=available', 'status'), ('metadata={}', 'metadata'),
                ('user_id~=x', 'user_id~'), ('name~=1', 'name~', '3.33'),
                ('name=a1', ['a1'], '3.31'),
                ('status=error&name~=zz&sort=created_at:asc', ['a1', 'b1'], '3.30')))

    def test_volume_type_resource_filters(self):
        for name in ('gold', 'silver'):
            self.assert_status(200, self.http.as_admin.post('/types', {'volume_type': {
                'name': name, 'description': f'of {name}'}}))
        self.check('/types', 'volume_types', (
            ('name=gold', ['gold']), ('name~=ol', ['gold']), ('name~=zz', []),
            ('description=of%20silver', ['silver']), ('is_public=true', 'is_public'),
            ('extra_specs={}', 'extra_specs'), ('description~=of', 'description~'),
            ('name~=ol', ['gold'], '3.52'), ('name=gold&zz=1&is_public=x', ['gold'], '3.51'),
            ('name=gold&description~=x', ['gold'], '3.0')))

    def test_resource_filters_of_unoffered_resources(self):
        self.check('/backups', 'backups', (
            ('name=x', []), ('name~=x', []), ('status=x', 'status'), ('name~=x', 'name~', '3.33'),
            ('status=x', [], '3.30')))
        self.check('/groups', 'groups', (('name=x', 'name'), ('name=x', [], '3.30')))
        self.check('/group_snapshots', 'group_snapshots', (('status=x', 'status'),))


class PoolsTest(OwnTableTestCase):

    TABLE = OF_POOLS

    def test_pool_filters_match_capabilities(self):
        found = [{'name': http.POOL}]
        for query, expected, version in (
                ('multiattach=true', found, '3.28'), ('multiattach=false', [], '3.71'),
                ('total_capacity_gb=1000', found, '3.71'), ('total_capacity_gb=x', [], '3.71'),
                ('vendor_name=Open Source', found, '3.71'), ('vendor_name=Open', [], '3.71'),
                ('name~=fake', found, '3.34'), ('name~=zz', [], '3.34'),
                ('name~=zz', 400, '3.33'), ('vendor_name~=Open', 400, '3.71'),
                ('vendor_name=zz', found, '3.27'), ('tier=gold', found, '3.30')):
            with self.subTest(query=query, version=version):
                reply = self.get(f'/scheduler-stats/get_pools?{query.replace(" ", "%20")}',
                                 self.http.as_admin, version)
                if expected == 400:
                    self.assert_fault(400, 'Invalid filters', reply)
                else:
                    self.assert_status(200, reply)
                    self.assertEqual(expected, reply.body['pools'])


class UnusableFileTest(base.ApiTestCase):

    def test_invalid_filters_file_rejected_at_start(self):
        for text, sentence in (('{', 'cannot read'), ('[]', 'must contain a JSON object'),
                               ('{"volume": "name"}', 'must contain a JSON object'),
                               ('{"volume": [1]}', 'must contain a JSON object'),
                               (None, 'cannot read')):
            with self.subTest(text=text), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / 'filters.json'
                if text is not None:
                    path.write_text(text, encoding='utf-8')
                with self.assertRaisesRegex(errors.ConfigurationError, sentence) as caught:
                    http.ApiFixture(resource_query_filters_file=str(path))
                self.assertIn('resource_query_filters_file', str(caught.exception))
