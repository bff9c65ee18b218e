"""Default volume types of projects."""
import dataclasses

import webob

from blockattach.platform import errors
from blockattach.platform.http import auth
from blockattach.storage.api import app
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import promises

PATH = f'/default-types/{http.PROJECT}'


class DefaultTypesTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.admin = self.http.as_admin
        self.kind = make.volume_type(self.http.database, 'gold')

    def put(self, kind='gold', path=PATH, **more):
        return self.admin.put(path, {'default_type': {'volume_type': kind}}, **more)

    def made_of(self, persona=None):
        """Create a volume without a type and return the type that it got."""
        reply = (persona or self.http.as_member).post('/volumes', {'volume': {'size': 1}})
        self.assert_status(202, reply)
        return reply.body['volume']['volume_type']

    def default(self, persona=None):
        reply = (persona or self.http.as_member).get('/types/default')
        self.assert_status(200, reply)
        return reply.body['volume_type']['name']

    def test_default_type_lifecycle(self):
        self.assert_fault(404, f'Default type for project {http.PROJECT} not found.',
                          self.admin.get(PATH))
        shown = {'default_type': {'project_id': http.PROJECT, 'volume_type_id': self.kind.id}}
        for named in ('gold', self.kind.id):
            reply = self.put(named)
            self.assert_status(200, reply)
            self.assertEqual(shown, reply.body)
        self.assertEqual(shown, self.admin.get(PATH).body)
        other = make.volume_type(self.http.database, 'silver')
        self.put('silver')
        self.put(path=f'/default-types/{http.OTHER_PROJECT}')
        self.assertEqual({'default_types': [
            {'project_id': http.OTHER_PROJECT, 'volume_type_id': self.kind.id},
            {'project_id': http.PROJECT, 'volume_type_id': other.id},
        ]}, self.admin.get('/default-types').body)
        for _ in range(2):
            reply = self.admin.delete(PATH)
            self.assert_status(204, reply)
        self.assert_status(404, self.admin.get(PATH))

    def test_volume_without_type_gets_project_default(self):
        self.assertEqual(make.DEFAULT_TYPE, self.made_of())
        self.put()
        self.assertEqual(('gold', 'gold'), (self.made_of(), self.default()))
        stranger = self.http.as_stranger
        self.assertEqual((make.DEFAULT_TYPE,) * 2,
                         (self.made_of(stranger), self.default(stranger)))
        self.put(make.DEFAULT_TYPE)
        self.assertEqual((make.DEFAULT_TYPE,) * 2, (self.made_of(), self.default()))
        self.admin.delete(PATH)
        self.assertEqual(make.DEFAULT_TYPE, self.made_of())

    def test_private_default_type_needs_access(self):
        kind = make.volume_type(self.http.database, 'hidden', is_public=False)
        self.assert_status(200, self.put('hidden'))
        member = self.http.as_member
        absent = f'Volume type {kind.id} could not be found.'
        self.assert_fault(404, absent, member.post('/volumes', {'volume': {'size': 1}}))
        self.assert_fault(404, absent, member.get('/types/default'))
        self.assertEqual('hidden', self.made_of(self.admin))
        self.admin.post(f'/types/{kind.id}/action', {'addProjectAccess': {
            'project': http.PROJECT}})
        self.assertEqual(('hidden', 'hidden'), (self.made_of(), self.default()))

    def test_delete_of_default_type_rejected(self):
        self.put()
        path = f'/types/{self.kind.id}'
        self.assert_fault(400, f'The volume type {self.kind.id} is a default volume type and '
                               f'cannot be deleted.', self.admin.delete(path))
        self.assert_status(200, self.admin.put(path, {'volume_type': {'name': 'golden'}}))
        self.assertEqual('golden', self.default())
        self.admin.delete(PATH)
        self.assert_status(202, self.admin.delete(path))

    def test_invalid_default_type_rejected(self):
        self.assert_fault(400, 'Volume type with name zz could not be found.', self.put('zz'))
        self.assert_fault(400, f'Volume type {base.ABSENT} could not be found.',
                          self.put(base.ABSENT))
        for body in ({}, {'default_type': {}}, {'default_type': {'volume_type': ''}},
                     {'default_type': {'volume_type': None}},
                     {'default_type': {'volume_type': 'gold', 'more': 1}}):
            with self.subTest(body=body):
                self.assertEqual(400, self.admin.put(PATH, body).status)
        self.assert_status(404, self.put(path=f'/default-types/{"x" * 256}'))
        self.assert_status(404, self.admin.get(PATH))

    def test_default_types_served_from_3_62(self):
        self.put()
        for version, status in (('3.61', 404), ('3.62', 200)):
            for path in (PATH, '/default-types'):
                self.assert_status(status, self.admin.get(path, version=version))
            self.assert_status(status, self.put(version=version))
        self.assert_status(404, self.admin.delete(PATH, version='3.61'))


class ProjectTest(base.ApiTestCase):
    """Default types with Keystone as the source of existing projects."""

    def setUp(self):
        super().setUp()
        self.gone = []
        services = dataclasses.replace(self.http.services, project_check=self.check)
        self.app = app.build_app(services, auth.Authentication(auth.claimed),
                                 check=promises.Promises().check)

    def check(self, caller, project_id):
        if project_id in self.gone:
            raise errors.ProjectNotFound(project_id=project_id)

    def ask(self, method, body=None):
        request = webob.Request.blank(f'/v3{PATH}', method=method, headers={
            'OpenStack-API-Version': 'volume 3.62'})
        if body is not None:
            request.json = body
        return request.get_response(self.app)

    def test_set_and_get_need_existing_project_delete_does_not(self):
        asked = {'default_type': {'volume_type': make.DEFAULT_TYPE}}
        self.assertEqual(200, self.ask('PUT', asked).status_int)
        self.gone.append(http.PROJECT)
        for answer in (self.ask('PUT', asked), self.ask('GET')):
            self.assertEqual((404, f'Project with id {http.PROJECT} not found.'),
                             (answer.status_int, answer.json['itemNotFound']['message']))
        self.assertEqual(204, self.ask('DELETE').status_int)
        self.gone.clear()
        self.assertIn('Default type for project', self.ask('GET').json['itemNotFound']['message'])


class WithoutConfiguredTest(base.ApiTestCase):
    SETTINGS = {'options': {'control': {'default_volume_type': 'lost'}}}

    def test_project_default_type_suffices_without_configured_default(self):
        self.assert_status(404, self.http.as_member.get('/types/default'))
        make.volume_type(self.http.database, 'gold')
        self.http.as_admin.put(PATH, {'default_type': {'volume_type': 'gold'}})
        self.assert_status(202, self.http.as_member.post('/volumes', {'volume': {'size': 1}}))
