"""Access of projects to private volume types."""
from blockattach.platform import failpoints
from blockattach.storage.db.types import volume_types
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

ADD, REMOVE = 'addProjectAccess', 'removeProjectAccess'
PUBLIC = 'Type access modification is not applicable to public volume type.'


class AccessTestCase(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.admin = self.http.as_admin
        self.kind = make.volume_type(self.http.database, 'gold', is_public=False)
        self.path = f'/types/{self.kind.id}'

    def act(self, action, project=http.PROJECT, path=None):
        return self.admin.post(f'{path or self.path}/action', {action: {'project': project}})

    def projects(self):
        reply = self.admin.get(f'{self.path}/os-volume-type-access')
        self.assert_status(200, reply)
        return reply.body['volume_type_access']

    def public(self, value):
        self.assert_status(200, self.admin.put(self.path, {'volume_type': {'is_public': value}}))


class ListTest(AccessTestCase):

    def test_type_access_lifecycle(self):
        self.assertEqual([], self.projects())
        for project in (http.OTHER_PROJECT, http.PROJECT):
            reply = self.act(ADD, project)
            self.assert_status(202, reply)
            self.assertEqual('', reply.text)
        self.assertEqual([{'volume_type_id': self.kind.id, 'project_id': project}
                          for project in sorted((http.OTHER_PROJECT, http.PROJECT))],
                         self.projects())
        self.assert_status(202, self.act(REMOVE))
        self.assertEqual([http.OTHER_PROJECT], [one['project_id'] for one in self.projects()])

    def test_invalid_type_access_rejected(self):
        self.act(ADD)
        pair = f'{self.kind.id} / {http.PROJECT} combination'
        self.assert_fault(409, f'Volume type access for {pair} already exists.', self.act(ADD))
        self.act(REMOVE)
        self.assert_fault(404, f'Volume type access not found for {pair}.', self.act(REMOVE))
        for action in (ADD, REMOVE):
            self.assert_fault(404, f'Volume type {base.ABSENT} could not be found.',
                              self.act(action, path=f'/types/{base.ABSENT}'))
            for body in ({}, {'project': ''}, {'project': None}, {'project': 'x' * 256},
                         {'project': 'x', 'more': 1}, None):
                with self.subTest(body=body):
                    self.assertEqual(400, self.admin.post(f'{self.path}/action',
                                                          {action: body}).status)

    def test_access_list_of_public_type_rejected(self):
        self.act(ADD)
        self.public(True)
        for action in (ADD, REMOVE):
            self.assert_fault(400, PUBLIC, self.act(action))
        self.assert_fault(404, 'Access list not available for public volume types.',
                          self.admin.get(f'{self.path}/os-volume-type-access'))
        self.public(False)
        self.assertEqual(1, len(self.projects()))

    def test_delete_of_type_deletes_access_list(self):
        self.act(ADD)
        self.assert_status(202, self.admin.delete(self.path))
        self.assert_fault(404, self.kind.id, self.admin.get(f'{self.path}/os-volume-type-access'))
        with self.http.database.reader() as connection:
            self.assertEqual([], connection.exec_driver_sql(
                'SELECT project_id FROM volume_type_projects').all())


class UseTest(AccessTestCase):

    def names(self, persona, query=''):
        reply = persona.get(f'/types{query}')
        self.assert_status(200, reply)
        return {one['name'] for one in reply.body['volume_types']} - {make.DEFAULT_TYPE}

    def create(self, persona=None, kind='gold'):
        return (persona or self.http.as_member).post(
            '/volumes', {'volume': {'size': 1, 'volume_type': kind}})

    def test_private_type_usable_with_access(self):
        self.act(ADD)
        for persona in (self.http.as_member, self.http.as_reader):
            self.assert_status(200, persona.get(self.path))
            for query in ('', '?is_public=False'):
                self.assertEqual({'gold'}, self.names(persona, query))
        for named in (self.kind.id, 'gold'):
            self.assert_status(202, self.create(kind=named))
        self.assertIs(False, self.http.as_member.get(self.path).body['volume_type'][
            'os-volume-type-access:is_public'])

    def test_private_type_not_found_without_access(self):
        self.act(ADD)
        stranger = self.http.as_stranger
        for path in (self.path, f'{self.path}/extra_specs',
                     f'/types?marker={self.kind.id}'):
            self.assert_fault(404, f'Volume type {self.kind.id} could not be found.',
                              stranger.get(path))
        self.assertEqual(set(), self.names(stranger))
        self.assert_fault(404, f'Volume type {self.kind.id} could not be found.',
                          self.create(stranger, self.kind.id))
        self.assert_fault(404, 'Volume type with name gold could not be found.',
                          self.create(stranger))

    def test_create_rejected_after_access_removed(self):
        self.act(ADD)
        volume_id = self.create().body['volume']['id']
        self.act(REMOVE)
        self.assert_status(404, self.http.as_member.get(self.path))
        self.assert_status(404, self.create())
        shown = self.http.as_member.get(f'/volumes/{volume_id}')
        self.assertEqual('gold', shown.body['volume']['volume_type'])

    def test_admin_lists_private_types(self):
        stranger = http.Persona(self.http, 'admin,member,reader', http.OTHER_PROJECT)
        self.act(ADD)
        for persona, query, expected in (
                (self.admin, '', {'gold'}), (stranger, '', set()),
                (stranger, '?is_public=true', set()), (stranger, '?is_public=false', {'gold'}),
                (stranger, '?is_public=None', {'gold'})):
            with self.subTest(query=query, project=persona.project_id):
                self.assertEqual(expected, self.names(persona, query))
        self.assert_status(202, self.create(stranger))

    def test_type_made_private_during_create_conflicts(self):
        kind = make.volume_type(self.http.database, 'silver')
        judged = 'control.volumes.before_create'
        self.addCleanup(failpoints.disarm, judged)
        failpoints.arm(judged, lambda: volume_types.update(
            self.http.database, kind.id, is_public=False))
        self.assert_fault(409, 'Retry the request', self.create(kind='silver'))
        failpoints.disarm(judged)
        self.assert_status(404, self.create(kind='silver'))
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])
