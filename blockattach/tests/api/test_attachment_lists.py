"""Lists of attachments: pages, order, scope and filters."""
from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

_State = attachment_lifecycle.State


class ListTestCase(base.ApiTestCase):

    def list(self, query='', persona=None, version='3.71', path='/attachments'):
        reply = (persona or self.http.as_member).get(f'{path}{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['attachments']

    def ids(self, *arguments, **more):
        return [one['id'] for one in self.list(*arguments, **more)]

    def assert_refused(self, query, sentence, status=400, persona=None, version='3.71'):
        self.assert_fault(status, sentence, (persona or self.http.as_member).get(
            f'/attachments{query}', version=version))


class PageTest(ListTestCase):

    def setUp(self):
        super().setUp()
        volume = make.volume(self.http.database, multiattach=True, on_pool=http.POOL)
        self.made = [make.attachment(self.http.database, volume, _State.RESERVED).id
                     for _ in range(5)]
        self.newest_first = self.made[::-1]

    def test_list_and_detail_keys(self):
        self.assertEqual([{'id', 'status', 'instance', 'volume_id'}] * 5,
                         [one.keys() for one in self.list()])
        self.assertEqual({'id', 'status', 'instance', 'volume_id', 'attached_at', 'detached_at',
                          'attach_mode', 'connection_info'},
                         self.list(path='/attachments/detail')[0].keys())

    def test_list_has_no_links_or_count(self):
        reply = self.http.as_member.get('/attachments?limit=2')
        self.assertEqual({'attachments'}, reply.body.keys())

    def test_list_paginated_by_limit_marker_offset(self):
        newest = self.newest_first
        rows = (
            ('', newest),
            ('?limit=2', newest[:2]),
            (f'?limit=2&marker={newest[1]}', newest[2:4]),
            (f'?marker={newest[4]}', []),
            ('?offset=3', newest[3:]),
            ('?limit=1&offset=1', newest[1:2]),
            ('?limit=0', []),
            ('?sort=created_at:asc', self.made),
            ('?sort=created_at', newest),
            ('?sort=id:asc', sorted(self.made)),
            ('?sort=volume_id:asc,id:desc', sorted(self.made, reverse=True)),
            ('?sort_key=id&sort_dir=asc', sorted(self.made)),
            ('?sort_key=id', sorted(self.made, reverse=True)),
            (f'?sort=id:asc&marker={sorted(self.made)[2]}', sorted(self.made)[3:]),
        )
        for query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, self.ids(query))
                self.assertEqual(expected, self.ids(query, path='/attachments/detail'))

    def test_invalid_pagination_rejected(self):
        for query, status, sentence in (
                ('?limit=-1', 400, 'limit param must be positive'),
                ('?limit=a', 400, 'limit param must be an integer'),
                ('?limit=', 400, 'limit param must be an integer'),
                ('?offset=-1', 400, 'offset must be >= 0'),
                ('?offset=a', 400, 'offset must be an integer'),
                ('?offset=99999999999', 400, 'offset must be >= 0'),
                (f'?marker={base.ABSENT}', 404, base.ABSENT),
                ('?sort=zz:asc', 400, 'Invalid sort key'),
                ('?sort=', 400, 'Invalid sort key'),
                ('?sort=id:up', 400, 'Unknown sort direction'),
                ('?sort_key=zz', 400, 'Invalid sort key'),
                ('?sort_dir=up', 400, 'Unknown sort direction'),
                ('?sort=id&sort_key=id', 400, "'sort_key' and 'sort_dir'"),
                ('?sort=id&sort_dir=asc', 400, "'sort_key' and 'sort_dir'")):
            with self.subTest(query=query):
                self.assert_refused(query, sentence, status)

    def test_marker_of_another_project_not_found(self):
        self.assert_refused(f'?marker={self.made[0]}', self.made[0], 404,
                            persona=self.http.as_stranger)


class LongestPageTest(ListTestCase):

    SETTINGS = {'osapi_max_limit': 2}

    def test_page_size_capped_by_osapi_max_limit(self):
        volume = make.volume(self.http.database, multiattach=True, on_pool=http.POOL)
        for _ in range(3):
            make.attachment(self.http.database, volume, _State.RESERVED)
        for query, count in (('', 2), ('?limit=3', 2), ('?limit=1', 1)):
            with self.subTest(query=query):
                self.assertEqual(count, len(self.ids(query)))


class ScopeTest(ListTestCase):

    def setUp(self):
        super().setUp()
        self.mine = make.attachment(self.http.database, make.volume(
            self.http.database, on_pool=http.POOL), _State.RESERVED).id
        self.other = make.attachment(self.http.database, make.volume(
            self.http.database, on_pool=http.POOL, project_id=http.OTHER_PROJECT),
            _State.RESERVED).id

    def test_list_scope_by_persona(self):
        both = {self.mine, self.other}
        rows = (
            (self.http.as_member, '', {self.mine}),
            (self.http.as_stranger, '', {self.other}),
            (self.http.as_member, '?all_tenants=1', {self.mine}),
            (self.http.as_member, '?all_tenants=zz', {self.mine}),
            (self.http.as_admin, '', {self.mine}),
            (self.http.as_admin, '?all_tenants=0', {self.mine}),
            (self.http.as_admin, '?all_tenants=1', both),
            (self.http.as_admin, '?all_tenants=True', both),
            (self.http.as_admin, f'?all_tenants=1&project_id={http.OTHER_PROJECT}',
             {self.other}),
            (self.http.as_admin, f'?project_id={http.OTHER_PROJECT}', set()),
        )
        for persona, query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, set(self.ids(query, persona)))

    def test_invalid_all_tenants_rejected(self):
        self.assert_refused('?all_tenants=zz', 'all_tenants', persona=self.http.as_admin)


class FilterTest(ListTestCase):

    def setUp(self):
        super().setUp()
        db = self.http.database
        self.volume_record = make.volume(db, multiattach=True, on_pool=http.POOL)
        self.by_state = {
            state: make.attachment(db, self.volume_record, state)
            for state in attachment_lifecycle.LIVE}
        self.lone = make.attachment(db, make.volume(db, on_pool=http.POOL), _State.RESERVED,
                                    instance_uuid=base.SERVER)
        self.all = {*(one.id for one in self.by_state.values()), self.lone.id}

    def of(self, *states):
        return {self.by_state[state].id for state in states}

    def test_member_filters_match_attachments(self):
        volume_id = self.lone.volume_id
        rows = (
            (f'?volume_id={volume_id}', {self.lone.id}),
            (f'?instance_id={base.SERVER}', {self.lone.id}),
            (f'?volume_id={base.ABSENT}', set()),
            (f'?volume_id={volume_id}&instance_id={base.OTHER_SERVER}', set()),
            ('?attach_status=reserved', self.of(_State.RESERVED) | {self.lone.id}),
            ('?attach_status=attaching', self.of(_State.CONNECTING, _State.CONNECTED)),
            ('?attach_status=attached', self.of(_State.ATTACHED)),
            ('?attach_status=detaching', self.of(_State.DISCONNECTING)),
            ('?attach_status=error_attaching', self.of(_State.ERROR_ATTACHING)),
            ('?attach_status=error_detaching', self.of(_State.ERROR_DETACHING)),
            ('?attach_status=detached', set()),
            ('?attach_status=connected', set()),
            ('?status=attaching', self.of(_State.CONNECTING, _State.CONNECTED)),
            ('?status=attaching&attach_status=attached', set()),
        )
        for query, expected in rows:
            for persona in (self.http.as_member, self.http.as_admin):
                for version in ('3.27', '3.71'):
                    with self.subTest(query=query, version=version):
                        self.assertEqual(expected, set(self.ids(query, persona, version)))

    def test_unknown_filter_handling_by_version_and_caller(self):
        member, admin = self.http.as_member, self.http.as_admin
        self.assertEqual(self.all, set(self.ids('?zz=1&yy=2', member, '3.30')))
        self.assert_refused('?zz=1&yy=2', 'Invalid filters zz,yy are found in query options.',
                            version='3.31')
        self.assert_refused('?attached_host=h', 'Invalid filters attached_host')
        self.assert_refused('?with_count=true', 'Invalid filters with_count')
        self.assertEqual([], self.ids('?zz=1', admin))
        self.assertEqual([], self.ids('?zz=1', admin, '3.27'))
        self.assertEqual([], self.ids('?with_count=true', admin))

    def test_admin_filters_match_attachments(self):
        one = self.by_state[_State.ATTACHED]
        for query in (f'?id={one.id}', f'?instance_uuid={one.instance_uuid}',
                      f'?attached_host={one.host}'):
            with self.subTest(query=query):
                self.assertEqual([one.id], self.ids(query, self.http.as_admin))

    def test_inexact_filters_match_substrings(self):
        one = self.by_state[_State.ATTACHED]
        admin = self.http.as_admin
        rows = (
            (f'?attached_host~={one.host[3:]}', {one.id}),
            (f'?volume_id~={self.lone.volume_id[2:20]}', {self.lone.id}),
            (f'?instance_id~={base.SERVER[:20]}', {self.lone.id}),
            ('?attach_status~=error', self.of(_State.ERROR_ATTACHING, _State.ERROR_DETACHING)),
            ('?attached_host~=%25', set()),
            ('?zz~=a', set()),
        )
        for query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, set(self.ids(query, admin)))
        self.assertEqual([], self.ids(f'?attached_host~={one.host}', admin, '3.33'))
        self.assert_refused(f'?volume_id~={one.volume_id}', 'Invalid filters volume_id~')
        self.assertEqual(self.all, set(self.ids('?volume_id~=zz', version='3.30')))
