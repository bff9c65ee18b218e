"""Lists of volumes: pages, links, counts, order, scope and filters."""
import datetime
import itertools
from urllib import parse

from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

_Own = volume_lifecycle.OwnStatus


class ListTestCase(base.ApiTestCase):

    def make(self, **more):
        return make.volume(self.http.database, on_pool=http.POOL, **more)

    def list(self, query='', persona=None, version='3.71', path='/volumes'):
        reply = (persona or self.http.as_member).get(f'{path}{query}', version=version)
        self.assert_status(200, reply)
        return reply.body

    def ids(self, *arguments, **more):
        return [one['id'] for one in self.list(*arguments, **more)['volumes']]

    def assert_refused(self, query, sentence, status=400, persona=None, version='3.71'):
        self.assert_fault(status, sentence, (persona or self.http.as_member).get(
            f'/volumes{query}', version=version))


class PageTest(ListTestCase):

    def setUp(self):
        super().setUp()
        self.made = [self.make(name=name, size_gb=size).id
                     for name, size in (('b', 1), ('a', 2), ('d', 3), ('c', 1))]

    def test_list_keys(self):
        one = self.list()['volumes'][0]
        self.assertEqual({'id', 'name', 'links'}, one.keys())
        self.assertEqual(('c', self.made[3]), (one['name'], one['id']))

    def test_list_paginated_by_limit_marker_offset(self):
        b, a, d, c = self.made
        rows = (
            ('', [c, d, a, b]),
            ('?limit=2', [c, d]),
            (f'?limit=2&marker={d}', [a, b]),
            (f'?marker={b}', []),
            ('?offset=3', [b]),
            ('?limit=0', []),
            ('?sort=name:asc', [a, b, c, d]),
            ('?sort=display_name:desc', [d, c, b, a]),
            ('?sort=size:asc,name:desc', [c, b, a, d]),
            ('?sort_key=size&sort_dir=desc', [d, a, *sorted((b, c), reverse=True)]),
            (f'?sort=name:asc&marker={b}&limit=1', [c]),
        )
        for query, expected in rows:
            for path in ('/volumes', '/volumes/detail'):
                with self.subTest(query=query, path=path):
                    self.assertEqual(expected, self.ids(query, path=path))

    def test_pages_sorted_by_boolean_have_no_duplicates(self):
        self.sql(f"UPDATE volumes SET bootable = 1 WHERE id = '{self.made[1]}'")
        self.make(multiattach=True)
        for name, public in (('a', True), ('b', False), ('c', True), ('d', False)):
            make.volume_type(self.http.database, name, is_public=public)
        for path, noun, keys in (('/volumes', 'volumes', ('bootable', 'multiattach')),
                                 ('/volumes/detail', 'volumes', ('bootable', 'multiattach')),
                                 ('/types', 'volume_types', ('is_public',))):
            everything = sorted(one['id'] for one in self.list(
                '?is_public=None', self.http.as_admin, path=path)[noun]) \
                if noun == 'volume_types' else sorted(self.ids())
            for key, direction in itertools.product(keys, ('asc', 'desc', 'asc,name:desc')):
                with self.subTest(path, sort=f'{key}:{direction}'):
                    scope = 'is_public=None&' if noun == 'volume_types' else ''
                    found, marker = [], ''
                    for _ in everything:
                        [one] = self.list(f'?{scope}sort={key}:{direction}&limit=1{marker}',
                                          self.http.as_admin, path=path)[noun]
                        found.append(one['id'])
                        marker = f'&marker={one["id"]}'
                    self.assertEqual(everything, sorted(found))

    def test_invalid_pagination_rejected(self):
        for query, status, sentence in (
                ('?limit=-1', 400, 'limit param must be positive'),
                ('?limit=a', 400, 'limit param must be an integer'),
                ('?offset=-1', 400, 'offset must be >= 0'),
                (f'?marker={base.ABSENT}', 404, f'Volume {base.ABSENT} could not be found.'),
                ('?sort=zz', 400, 'Invalid sort key'),
                ('?sort=name:up', 400, 'Unknown sort direction'),
                ('?sort=name&sort_key=name', 400, "'sort_key' and 'sort_dir'")):
            with self.subTest(query=query):
                self.assert_refused(query, sentence, status)

    def test_next_links_traverse_all_pages(self):
        for path in ('/volumes', '/volumes/detail'):
            query = '?limit=2&sort=name:asc&availability_zone=nova'
            seen = []
            for _ in range(3):
                body = self.list(query, path=path)
                seen += [one['name'] for one in body['volumes']]
                if 'volumes_links' not in body:
                    break
                link, = body['volumes_links']
                self.assertEqual('next', link['rel'])
                found = parse.urlsplit(link['href'])
                self.assertEqual(f'/v3/{http.PROJECT}{path}', found.path)
                self.assertEqual(
                    {'limit': '2', 'sort': 'name:asc', 'availability_zone': 'nova',
                     'marker': body['volumes'][-1]['id']}, dict(parse.parse_qsl(found.query)))
                query = f'?{found.query}'
            with self.subTest(path=path):
                self.assertEqual(['a', 'b', 'c', 'd'], seen)

    def test_next_link_drops_offset(self):
        first = self.list('?limit=2&sort=name:asc&offset=1')
        link, = first['volumes_links']
        second = self.list(f'?{parse.urlsplit(link["href"]).query}')
        self.assertEqual([['b', 'c'], ['d']],
                         [[one['name'] for one in page['volumes']] for page in (first, second)])

    def test_next_link_only_after_full_page(self):
        for query, linked in (('', False), ('?limit=5', False), ('?limit=4', True),
                              ('?limit=0', False), ('?limit=3', True)):
            with self.subTest(query=query):
                self.assertEqual(linked, 'volumes_links' in self.list(query))

    def test_with_count_counts_filtered_volumes(self):
        for query, expected in (('?with_count=true', 4), ('?with_count=1&limit=1', 4),
                                ('?with_count=true&size=1', 2), ('?with_count=false', None),
                                ('?with_count=true&migration_status=x', 0), ('', None)):
            for path in ('/volumes', '/volumes/detail'):
                with self.subTest(query=query, path=path):
                    self.assertEqual(expected, self.list(query, version='3.45',
                                                         path=path).get('count'))
        self.assert_refused('?with_count=zz', 'with_count')
        self.assert_refused('?with_count=true', 'Invalid filters with_count', version='3.44')


class LongestPageTest(ListTestCase):

    SETTINGS = {'osapi_max_limit': 2}

    def test_page_size_capped_by_osapi_max_limit(self):
        for _ in range(3):
            self.make()
        for query, count in (('', 2), ('?limit=3', 2), ('?limit=1', 1)):
            with self.subTest(query=query):
                body = self.list(query)
                self.assertEqual(count, len(body['volumes']))
                self.assertIn('volumes_links', body)


class PublicEndpointTest(ListTestCase):

    SETTINGS = {'public_endpoint': 'https://storage.example.org'}

    def test_links_start_with_public_endpoint(self):
        self.make()
        body = self.list('?limit=1')
        for link in (*body['volumes'][0]['links'], *body['volumes_links']):
            self.assertEqual('https://storage.example.org', link['href'][:27])


class ScopeTest(ListTestCase):

    def test_list_scope_by_persona(self):
        mine, other = self.make().id, self.make(project_id=http.OTHER_PROJECT).id
        both = {mine, other}
        rows = (
            (self.http.as_member, '', {mine}),
            (self.http.as_stranger, '', {other}),
            (self.http.as_member, '?all_tenants=1', {mine}),
            (self.http.as_admin, '', {mine}),
            (self.http.as_admin, '?all_tenants=1', both),
            (self.http.as_admin, f'?all_tenants=1&project_id={http.OTHER_PROJECT}', {other}),
            (self.http.as_admin, f'?project_id={http.OTHER_PROJECT}', set()),
        )
        for persona, query, expected in rows:
            for path in ('/volumes', '/volumes/detail'):
                with self.subTest(query=query, path=path):
                    self.assertEqual(expected, set(self.ids(query, persona, path=path)))
        self.assert_refused('?all_tenants=zz', 'all_tenants', persona=self.http.as_admin)
        whose = {one['os-vol-tenant-attr:tenant_id'] for one in self.list(
            '?all_tenants=1', self.http.as_admin, path='/volumes/detail')['volumes']}
        self.assertEqual({http.PROJECT, http.OTHER_PROJECT}, whose)


class FilterTest(ListTestCase):

    def setUp(self):
        super().setUp()
        self.plain = self.make(name='plain').id
        self.big = self.make(name='big_one', size_gb=9, metadata={'a': 'b', 'c': 'd'}).id
        self.shared = self.make(name='shared', multiattach=True, metadata={'a': 'b'}).id
        self.broken = self.make(name='broken', own_status=_Own.ERROR).id
        self.sql(f"UPDATE volumes SET bootable = 1 WHERE id = '{self.big}'")
        self.all = {self.plain, self.big, self.shared, self.broken}

    def test_member_filters_match_volumes(self):
        others = self.all - {self.big}
        rows = (
            ('?name=plain', {self.plain}), ('?name=zz', set()), ('?status=error', {self.broken}),
            ('?status=available', self.all - {self.broken}), ('?size=9', {self.big}),
            ('?size=a', set()), ('?availability_zone=nova', self.all),
            ('?availability_zone=zz', set()), ('?bootable=true', {self.big}),
            ('?bootable=False', others), ('?bootable=1', {self.big}), ('?bootable=0', others),
            ('?migration_status=migrating', set()), (f'?group_id={base.ABSENT}', set()),
            ("?metadata={'a':'b'}", {self.big, self.shared}),
            ('?metadata={"a":"b","c":"d"}', {self.big}), ("?metadata={'a':'c'}", set()),
            ('?metadata={}', self.all), ('?name=big_one&size=9', {self.big}),
            ('?name=big_one&size=1', set()),
        )
        for query, expected in rows:
            for persona in (self.http.as_member, self.http.as_admin):
                for version in ('3.10', '3.71'):
                    with self.subTest(query=query, version=version):
                        self.assertEqual(expected, set(self.ids(query, persona, version)))

    def test_boolean_filters_strict_from_3_2(self):
        self.assert_refused('?bootable=maybe', "'bootable = maybe'", version='3.2')
        for value, expected in (('maybe', {self.big}), ('0', {self.big}),
                                ('FALSE', self.all - {self.big})):
            with self.subTest(value=value):
                self.assertEqual(expected, set(self.ids(f'?bootable={value}', version='3.1')))

    def test_unknown_filter_handling_by_version_and_caller(self):
        for query, names in (('?zz=1&yy=2', 'zz,yy'), ('?multiattach=true', 'multiattach'),
                             ('?host=h', 'host'), ('?project_id=p', 'project_id'),
                             ('?name~=pla', 'name~')):
            with self.subTest(query=query):
                self.assertEqual(self.all, set(self.ids(query, version='3.30')))
                self.assert_refused(query, f'Invalid filters {names} are found in query options.',
                                    version='3.31')
                self.assert_refused(query, names)
        self.assertEqual([], self.ids('?zz=1', self.http.as_admin, '3.0'))
        self.assertEqual([], self.ids('?zz=1&limit=0', self.http.as_admin))

    def test_admin_filters_match_volumes(self):
        rows = (
            ('?multiattach=true', {self.shared}), (f'?id={self.plain}', {self.plain}),
            (f'?host={parse.quote(http.POOL)}', self.all - {self.broken}),
            (f'?user_id={http.USER}', self.all), ('?attach_status=detached', self.all),
            ('?attach_status=attached', set()),
        )
        for query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, set(self.ids(query, self.http.as_admin)))

    def test_inexact_filters_match_substrings(self):
        admin = self.http.as_admin
        for query, expected in (
                ('?name~=a', {self.plain, self.shared}), ('?name~=g_o', {self.big}),
                ('?name~=_', {self.big}), ('?name~=%25', set()), ('?status~=err', {self.broken}),
                ('?zz~=a', set()), ('?size~=9', set()), ('?metadata~=a', set())):
            for version in ('3.34', '3.71'):
                with self.subTest(query=query, version=version):
                    self.assertEqual(expected, set(self.ids(query, admin, version)))
        self.assertEqual([], self.ids('?name~=a', admin, '3.33'))

    def test_malformed_metadata_filter_rejected(self):
        for text in ('a', '[1]', '{"a":[1]}', '{"a":null}', '{"a":{}}', '{', '[' * 500,
                     '(' * 5000):
            with self.subTest(text=text):
                self.assert_refused(f'?metadata={parse.quote(text)}', 'is not a mapping')

    def test_consumes_quota_filter_from_3_65(self):
        self.assertEqual(self.all, set(self.ids('?consumes_quota=true', version='3.65')))
        self.assertEqual([], self.ids('?consumes_quota=false', version='3.65'))
        self.assert_refused('?consumes_quota=true', 'Invalid filters', version='3.64')

    def test_group_id_filter_from_3_10(self):
        self.assertEqual(self.all, set(self.ids('?group_id=x', version='3.9')))
        self.assertEqual([], self.ids('?group_id=x', version='3.10'))


class TimeFilterTest(ListTestCase):

    def setUp(self):
        super().setUp()
        made = [self.make() for _ in range(3)]
        self.first, self.second, self.third = [one.id for one in made]
        self.time = made[1].created_at
        self.zoned = self.time.replace(tzinfo=datetime.UTC).astimezone(
            datetime.timezone(datetime.timedelta(hours=2)))

    def test_time_filter_operators(self):
        at = self.time.isoformat()
        zoned = parse.quote(self.zoned.isoformat())
        rows = (
            (f'gt:{at}', {self.third}), (f'gte:{at}', {self.second, self.third}),
            (f'eq:{at}', {self.second}), (f'neq:{at}', {self.first, self.third}),
            (f'lt:{at}', {self.first}), (f'lte:{at}', {self.first, self.second}),
            (f'gte:{at},lte:{at}', {self.second}), (f'eq:{zoned}', {self.second}),
            ('gt:2000-01-01', {self.first, self.second, self.third}),
        )
        for text, expected in rows:
            for version in ('3.31', '3.60', '3.71'):
                with self.subTest(text=text, version=version):
                    self.assertEqual(expected, set(self.ids(f'?created_at={text}',
                                                            version=version)))
        self.assertEqual(3, len(self.ids(f'?created_at=gt:{at}', version='3.30')))
        self.assertEqual(3, len(self.ids(f'?created_at=gt:{at}', self.http.as_admin, '3.30')))

    def test_invalid_time_filter_rejected(self):
        for text, sentence in (('zz:2026-01-01', 'Invalid zz operator'),
                               ('2026-01-01', 'Invalid 2026-01-01 operator'),
                               ('gt:', 'Invalid created_at value'),
                               ('gt:yesterday', 'Invalid created_at value')):
            with self.subTest(text=text):
                self.assert_refused(f'?created_at={text}', sentence)


class ImageMetadataFilterTest(ListTestCase):

    def setUp(self):
        super().setUp()
        self.bare, self.described = self.make().id, self.make().id
        for pairs in ({'os': 'linux', 'min_disk': '1'}, {'os': 'linux'}):
            self.assert_status(200, self.http.as_member.post(
                f'/volumes/{self.described}/action',
                {'os-set_image_metadata': {'metadata': pairs}}))

    def test_glance_metadata_filter_for_admin_from_3_4(self):
        admin = self.http.as_admin
        for query, expected in (("{'os':'linux'}", {self.described}),
                                ('{"os":"linux","min_disk":"1"}', {self.described}),
                                ("{'os':'other'}", set()), ("{'linux':'os'}", set())):
            for version in ('3.4', '3.71'):
                with self.subTest(query=query, version=version):
                    self.assertEqual(expected, set(self.ids(
                        f'?glance_metadata={query}', admin, version)))
        self.assertEqual({self.bare, self.described}, set(self.ids(
            "?glance_metadata={'os':'other'}", admin, '3.3')))

    def test_glance_metadata_filter_rejected_for_users_by_default(self):
        for version, count in (('3.3', 2), ('3.30', 2)):
            self.assertEqual(count, len(self.ids("?glance_metadata={'a':'b'}", version=version)))
        self.assert_refused("?glance_metadata={'a':'b'}", 'Invalid filters glance_metadata',
                            version='3.31')


class MigrationTest(ListTestCase):

    def setUp(self):
        super().setUp()
        self.plain, self.moving, self.target = (self.make(name=name).id for name in 'pmt')
        for volume_id, status in ((self.moving, 'migrating'),
                                  (self.target, f'target:{self.moving}')):
            self.sql(f"UPDATE volumes SET migration_status = '{status}' WHERE id = '{volume_id}'")

    def test_migration_target_visible_to_admin_only(self):
        for persona, expected in ((self.http.as_member, {self.plain, self.moving}),
                                  (self.http.as_admin, {self.plain, self.moving, self.target})):
            for path in ('/volumes', '/volumes/detail'):
                self.assertEqual(expected, set(self.ids('', persona, path=path)))
            self.assertEqual(len(expected), self.list('?with_count=1&limit=1', persona)['count'])
            self.assertEqual(len(expected), self.list('', persona, path='/volumes/summary')[
                'volume-summary']['total_count'])
        self.assert_refused(f'?marker={self.target}', 'could not be found', 404)
        self.assertEqual(2, len(self.ids(f'?marker={self.target}', self.http.as_admin)))

    def test_migration_status_filter_for_every_persona(self):
        for persona in (self.http.as_member, self.http.as_admin):
            self.assertEqual([self.moving], self.ids('?migration_status=migrating', persona))
            self.assertEqual([], self.ids('?migration_status=error', persona))


class HostFilterTest(ListTestCase):

    def test_host_filter_matches_host_backend_or_pool(self):
        volume_id = self.make().id
        host = http.POOL.partition('@')[0]
        for name, expected in ((http.POOL, [volume_id]), (http.HOST, [volume_id]),
                               (host, [volume_id]), (host[:-1], []), (http.HOST[:-1], []),
                               (f'{http.POOL}x', []), ('%', [])):
            with self.subTest(name=name):
                self.assertEqual(expected, self.ids(f'?host={parse.quote(name)}',
                                                    self.http.as_admin))
