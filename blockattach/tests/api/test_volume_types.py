"""Volume types and their extra specs."""
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

KEYS = {'id', 'name', 'description', 'is_public', 'extra_specs',
        'os-volume-type-access:is_public'}


class TypesTestCase(base.ApiTestCase):

    def kind(self, name='fast', **more):
        return make.volume_type(self.http.database, name, **more)

    def post(self, persona=None, **fields):
        return (persona or self.http.as_admin).post('/types', {'volume_type': fields})

    def put(self, type_id, **fields):
        return self.http.as_admin.put(f'/types/{type_id}', {'volume_type': fields})

    def names(self, query='', persona=None, version='3.71'):
        reply = (persona or self.http.as_member).get(f'/types{query}', version=version)
        self.assert_status(200, reply)
        return [one['name'] for one in reply.body['volume_types']]


class CreateTest(TypesTestCase):

    def test_create_type_response_matches_show(self):
        reply = self.post(name=' fast ', description='d', extra_specs={'multiattach': '<is> True'})
        self.assert_status(200, reply)
        made = reply.body['volume_type']
        self.assertEqual(KEYS, made.keys())
        self.assertEqual(
            ('fast', 'd', True, True, {'multiattach': '<is> True'}),
            (made['name'], made['description'], made['is_public'],
             made['os-volume-type-access:is_public'], made['extra_specs']))
        shown = self.http.as_admin.get(f'/types/{made["id"]}').body['volume_type']
        self.assertEqual({**made, 'qos_specs_id': None}, shown)

    def test_create_private_type(self):
        for number, value in enumerate((False, 'false', '0')):
            with self.subTest(value=value):
                reply = self.post(name=f'hidden-{number}',
                                  **{'os-volume-type-access:is_public': value})
                self.assertIs(False, reply.body['volume_type']['is_public'])

    def test_duplicate_type_name_rejected(self):
        self.kind()
        self.assert_fault(409, 'Volume Type fast already exists.', self.post(name='fast'))

    def test_malformed_type_rejected(self):
        for fields in ({}, {'name': None}, {'name': ''}, {'name': '  '}, {'name': 'x' * 256},
                       {'name': 1}, {'name': 'n', 'description': 'd' * 256},
                       {'name': 'n', 'is_public': True},
                       {'name': 'n', 'extra_specs': {'a b': 'c'}},
                       {'name': 'n', 'extra_specs': {'a': 1}}, {'name': 'n', 'extra_specs': []},
                       {'name': 'n', 'os-volume-type-access:is_public': 'maybe'}):
            with self.subTest(fields=fields):
                self.assertEqual(400, self.post(**fields).status)


class ShowTest(TypesTestCase):

    def test_type_keys_and_extra_specs_by_persona(self):
        kind = self.kind(extra_specs={
            'multiattach': '<is> True', 'volume_backend_name': 'a',
            'RESKEY:availability_zones': 'nova', 'replication_enabled': '<is> True'})
        hidden = {'volume_backend_name': 'a'}
        seen = {key: value for key, value in kind.extra_specs.items() if key not in hidden}
        for persona, specs, keys in (
                (self.http.as_admin, kind.extra_specs, KEYS | {'qos_specs_id'}),
                (self.http.as_member, seen, KEYS),
                (self.http.as_reader, seen, KEYS - {'os-volume-type-access:is_public'})):
            with self.subTest(keys=keys):
                shown = persona.get(f'/types/{kind.id}').body['volume_type']
                self.assertEqual(keys, shown.keys())
                self.assertEqual(specs, shown['extra_specs'])
                listed = persona.get('/types').body['volume_types']
                self.assertIn(shown, listed)

    def test_show_default_type(self):
        shown = self.http.as_reader.get('/types/default')
        self.assert_status(200, shown)
        self.assertEqual('__DEFAULT__', shown.body['volume_type']['name'])

    def test_absent_or_private_type_not_found(self):
        hidden = self.kind(is_public=False)
        for persona, type_id in ((self.http.as_admin, base.ABSENT), (self.http.as_admin, 'zz'),
                                 (self.http.as_member, hidden.id)):
            with self.subTest(type_id=type_id):
                for path in (f'/types/{type_id}', f'/types/{type_id}/extra_specs',
                             f'/types/{type_id}/extra_specs/multiattach'):
                    self.assert_fault(404, f'Volume type {type_id} could not be found.',
                                      persona.get(path))
        self.assert_status(200, self.http.as_admin.get(f'/types/{hidden.id}'))


class ListTest(TypesTestCase):

    def setUp(self):
        super().setUp()
        self.kind('a', extra_specs={'multiattach': '<is> True', 'secret': 'x'})
        self.kind('b', is_public=False)
        self.kind('c', extra_specs={'secret': 'y'})

    def test_types_list_by_persona_and_is_public(self):
        everything = ['c', 'b', 'a', '__DEFAULT__']
        public = ['c', 'a', '__DEFAULT__']
        rows = (
            (self.http.as_member, '', public), (self.http.as_member, '?is_public=none', public),
            (self.http.as_member, '?is_public=false', public), (self.http.as_admin, '', public),
            (self.http.as_admin, '?is_public=true', public),
            (self.http.as_admin, '?is_public=false', ['b']),
            (self.http.as_admin, '?is_public=None', everything),
            (self.http.as_admin, '?name=a', ['a']), (self.http.as_admin, '?name=b', []),
            (self.http.as_admin, '?name~=_DEF', public[2:]),
        )
        for persona, query, expected in rows:
            for version in ('3.52',) if '~' in query else ('3.0', '3.52'):
                with self.subTest(query=query, version=version):
                    self.assertEqual(expected, self.names(query, persona, version))
        self.assert_fault(400, 'Invalid is_public filter [maybe]',
                          self.http.as_admin.get('/types?is_public=maybe'))

    def test_types_list_paginated(self):
        self.assertEqual(['a', 'c'], self.names('?sort=name:asc&offset=1'))
        reply = self.http.as_member.get('/types?sort=name:asc&limit=2')
        names = [one['name'] for one in reply.body['volume_types']]
        self.assertEqual(['__DEFAULT__', 'a'], names)
        link, = reply.body['volume_type_links']
        self.assertIn(f'marker={reply.body["volume_types"][1]["id"]}', link['href'])
        self.assertIn(f'/v3/{http.PROJECT}/types?', link['href'])
        self.assertNotIn('volume_type_links', self.http.as_member.get('/types').body)
        self.assert_fault(404, base.ABSENT, self.http.as_member.get(
            f'/types?marker={base.ABSENT}'))
        self.assert_fault(400, 'Invalid sort key', self.http.as_member.get('/types?sort=zz'))

    def test_types_filtered_by_extra_specs_from_3_52(self):
        query = "?extra_specs={'multiattach':'<is> True'}"
        self.assertEqual(['a'], self.names(query, version='3.52'))
        self.assertEqual(3, len(self.names(query, version='3.51')))
        self.assertEqual(['c'], self.names('?extra_specs={"secret":"y"}', self.http.as_admin))
        self.kind('d', extra_specs={'RESKEY:availability_zones': 'east,west_1'})
        for zone, found in (('west_1', ['d']), ('east', ['d']), ('westx1', [])):
            self.assertEqual(found, self.names(
                f"?extra_specs={{'RESKEY:availability_zones':'{zone}'}}"))
        self.assertEqual([], self.names('?extra_specs={"secret":"y"}'))
        self.assert_fault(400, 'is not a mapping',
                          self.http.as_member.get('/types?extra_specs=zz'))

    def test_unknown_type_filters_by_version_and_caller(self):
        for key in ('zz', 'name', 'name~'):
            with self.subTest(key):
                self.assertEqual(3, len(self.names(f'?{key}=1', version='3.51')))
                self.assert_fault(400, f'Invalid filters {key} are found',
                                  self.http.as_member.get(f'/types?{key}=1'))
                self.assertEqual([], self.names(f'?{key}=1', self.http.as_admin))


class UpdateTest(TypesTestCase):

    def test_update_type_fields(self):
        kind = self.kind()
        for fields, expected in (
                ({'name': ' quick '}, ('quick', None, True)),
                ({'description': 'd'}, ('quick', 'd', True)),
                ({'is_public': False}, ('quick', 'd', False)),
                ({'is_public': 'true', 'name': None}, ('quick', 'd', True)),
                ({'description': ''}, ('quick', '', True))):
            with self.subTest(fields=fields):
                reply = self.put(kind.id, **fields)
                self.assert_status(200, reply)
                changed = reply.body['volume_type']
                self.assertEqual({'id', 'name', 'description', 'is_public', 'extra_specs'},
                                 changed.keys())
                self.assertEqual(expected, (changed['name'], changed['description'],
                                            changed['is_public']))

    def test_invalid_type_update_rejected(self):
        kind = self.kind()
        self.kind('other')
        for fields, status, sentence in (
                ({}, 400, 'Specify volume type name, description, is_public or a combination'),
                ({'name': None}, 400, 'Specify volume type name'),
                ({'name': ' '}, 400, 'Volume type name can not be empty.'),
                ({'name': 'x' * 256}, 400, 'name'),
                ({'extra_specs': {}}, 400, 'Additional properties are not allowed'),
                ({'name': 'other'}, 409, 'Volume Type other already exists.')):
            with self.subTest(fields=fields):
                self.assert_fault(status, sentence, self.put(kind.id, **fields))
        self.assert_fault(404, base.ABSENT, self.put(base.ABSENT, name='n'))


class DeleteTest(TypesTestCase):

    def test_delete_unused_type(self):
        kind = self.kind()
        reply = self.http.as_admin.delete(f'/types/{kind.id}')
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)
        self.assert_status(404, self.http.as_admin.get(f'/types/{kind.id}'))
        self.assert_fault(404, kind.id, self.http.as_admin.delete(f'/types/{kind.id}'))
        self.assert_status(200, self.post(name='fast'))

    def test_delete_and_rename_of_default_type_rejected(self):
        default = self.http.as_admin.get('/types/default').body['volume_type']['id']
        self.assert_fault(400, 'is the only currently defined volume type',
                          self.http.as_admin.delete(f'/types/{default}'))
        self.assert_fault(400, 'is a default volume type and cannot be renamed.',
                          self.http.as_admin.put(f'/types/{default}', {
                              'volume_type': {'name': 'other'}}))
        self.assert_status(200, self.http.as_admin.put(f'/types/{default}', {
            'volume_type': {'name': make.DEFAULT_TYPE, 'description': 'as before'}}))
        used = self.kind()
        volume_id = self.volume(volume_type='fast')
        self.assert_fault(400, 'Target volume type is still in use.',
                          self.http.as_admin.delete(f'/types/{used.id}'))
        self.assert_fault(400, 'is a default volume type and cannot be deleted.',
                          self.http.as_admin.delete(f'/types/{default}'))
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assert_status(202, self.http.as_admin.delete(f'/types/{used.id}'))


class ExtraSpecsTest(TypesTestCase):

    def setUp(self):
        super().setUp()
        self.path = f'/types/{self.kind(extra_specs={"secret": "x"}).id}/extra_specs'
        self.admin = self.http.as_admin

    def specs(self, persona=None):
        return (persona or self.admin).get(self.path).body['extra_specs']

    def test_extra_specs_lifecycle(self):
        reply = self.admin.post(self.path, {'extra_specs': {'multiattach': '<is> True', 'b': ''}})
        self.assert_status(200, reply)
        self.assertEqual({'extra_specs': {'multiattach': '<is> True', 'b': ''}}, reply.body)
        self.assertEqual({'secret': 'x', 'multiattach': '<is> True', 'b': ''}, self.specs())
        reply = self.admin.put(f'{self.path}/b', {'b': '2'})
        self.assert_status(200, reply)
        self.assertEqual({'b': '2'}, reply.body)
        self.assertEqual({'b': '2'}, self.admin.get(f'{self.path}/b').body)
        self.assert_status(200, self.admin.put(f'{self.path}/new:one.x', {'new:one.x': '1'}))
        reply = self.admin.delete(f'{self.path}/b')
        self.assert_status(202, reply)
        self.assertEqual({'secret': 'x', 'multiattach': '<is> True', 'new:one.x': '1'},
                         self.specs())

    def test_users_see_visible_extra_specs_only(self):
        self.admin.post(self.path, {'extra_specs': {'multiattach': '<is> True'}})
        self.assertEqual({'multiattach': '<is> True'}, self.specs(self.http.as_reader))
        self.assertEqual({'multiattach': '<is> True'},
                         self.http.as_reader.get(f'{self.path}/multiattach').body)
        self.assert_fault(404, 'has no extra specs with key secret.',
                          self.http.as_reader.get(f'{self.path}/secret'))

    def test_unknown_extra_spec_or_type_not_found(self):
        for reply in (self.admin.get(f'{self.path}/zz'), self.admin.delete(f'{self.path}/zz')):
            self.assert_fault(404, 'has no extra specs with key zz.', reply)
        absent = f'/types/{base.ABSENT}/extra_specs'
        for reply in (self.admin.post(absent, {'extra_specs': {'a': 'b'}}),
                      self.admin.put(f'{absent}/a', {'a': 'b'}),
                      self.admin.delete(f'{absent}/a')):
            self.assert_fault(404, f'Volume type {base.ABSENT} could not be found.', reply)

    def test_malformed_extra_specs_rejected(self):
        for body in ({}, {'extra_specs': None}, {'extra_specs': {'a b': 'c'}},
                     {'extra_specs': {'a': 1}}, {'extra_specs': {'': 'c'}},
                     {'extra_specs': {'a' * 256: 'c'}}, {'extra_specs': {'a': 'c' * 256}},
                     {'extra_specs': {'a': 'b'}, 'more': 1}):
            with self.subTest(body=body):
                self.assertEqual(400, self.admin.post(self.path, body).status)
        for body, sentence in (({'b': 'c'}, 'Request body and URI mismatch'), ({}, 'non-empty'),
                               ({'a': 'b', 'c': 'd'}, ''), ({'a': None}, '')):
            with self.subTest(body=body):
                self.assert_fault(400, sentence, self.admin.put(f'{self.path}/a', body))

    def test_empty_extra_specs_change_nothing(self):
        before = self.admin.get(self.path).body
        reply = self.admin.post(self.path, {'extra_specs': {}})
        self.assertEqual((200, {'extra_specs': {}}), (reply.status, reply.body))
        self.assertEqual(before, self.admin.get(self.path).body)

    def test_cacheable_with_multiattach_rejected(self):
        shared, cached = {'multiattach': '<is> True'}, {'cacheable': '<is> True'}
        for specs, more in ((shared, cached), (cached, shared), ({}, {**shared, **cached})):
            path = f'/types/{self.kind(f"fast-{base.new_id()}", extra_specs=specs).id}/extra_specs'
            with self.subTest(specs=specs):
                self.assert_fault(400, 'cacheable cannot be set with multiattach.',
                                  self.admin.post(path, {'extra_specs': more}))
                self.assertEqual(specs, self.admin.get(path).body['extra_specs'])
        self.assert_fault(400, 'cacheable cannot be set with multiattach.', self.admin.post(
            '/types', {'volume_type': {'name': 'both', 'extra_specs': {**shared, **cached}}}))
        self.assertNotIn('both', [one['name'] for one in self.admin.get('/types').body[
            'volume_types']])

    def test_malformed_boolean_extra_spec_rejected(self):
        for key in ('multiattach', 'cacheable'):
            for value in ('<is True>', 'True or so', '<in> True', '', '<is>'):
                with self.subTest(key=key, value=value):
                    for reply in (
                            self.admin.post('/types', {'volume_type': {
                                'name': 'odd', 'extra_specs': {key: value}}}),
                            self.admin.post(self.path, {'extra_specs': {key: value}}),
                            self.admin.put(f'{self.path}/{key}', {key: value})):
                        self.assert_fault(400, "Use '<is> True' or '<is> False'", reply)
            for value in ('True', '<is> True', 'false', '<is> False'):
                self.assert_status(200, self.admin.post('/types', {'volume_type': {
                    'name': f'{key}-{value}', 'extra_specs': {key: value}}}))

    def test_multiattach_spec_true_makes_volume_multiattach(self):
        kind = self.kind('plainly', extra_specs={'multiattach': 'True'})
        volume = self.volume(volume_type=kind.name)
        self.assertEqual(('available', True), tuple(
            self.shown(volume)[key] for key in ('status', 'multiattach')))

    def test_extra_specs_of_type_in_use_immutable(self):
        self.admin.delete(f'{self.path}/secret')
        self.volume(volume_type='fast')
        for reply in (self.admin.post(self.path, {'extra_specs': {'a': 'b'}}),
                      self.admin.put(f'{self.path}/a', {'a': 'b'}),
                      self.admin.delete(f'{self.path}/a')):
            self.assert_fault(400, 'Volume Type is currently in use.', reply)
