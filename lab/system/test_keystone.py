"""Permissions of users with tokens of a real Keystone."""
import functools

import requests
from keystoneauth1 import service_token
from keystoneauth1 import session
from openstack import exceptions

from blockattach.tests.fixtures import keystone
from blockattach.tests.functional import base
from lab.system import clouds


class PersonasTest(clouds.CloudTestCase):

    NEEDS_EXPIRED = True

    def setUp(self):
        super().setUp()
        self.storage = self.cloud('ann', 'shop').block_storage
        self.volume = self.storage.create_volume(size=1, name='of the shop')
        self.storage.wait_for_status(self.volume, 'available', wait=clouds.SECONDS)

    def refused(self, error, act, *arguments, **options):
        with self.assertRaises(error):
            act(*arguments, **options)

    def test_a_member_makes_and_attaches(self):
        self.assertEqual(self.shop, self.storage.get_volume(self.volume).project_id)
        made = self.storage.create_attachment(self.volume, connector=base.connector('one'),
                                              instance=base.instance('one'))
        self.storage.complete_attachment(made)
        self.assertEqual('in-use', self.storage.get_volume(self.volume).status)
        self.storage.delete_attachment(made)
        self.storage.delete_volume(self.volume)

    def test_a_reader_looks(self):
        storage = self.cloud('rae', 'shop').block_storage
        self.assertEqual('of the shop', storage.get_volume(self.volume).name)
        self.assertIn(self.volume.id, [found.id for found in storage.volumes()])
        for act in (lambda: storage.create_volume(size=1),
                    lambda: storage.delete_volume(self.volume),
                    lambda: storage.create_attachment(self.volume,
                                                      instance=base.instance('one'))):
            self.refused(exceptions.ForbiddenException, act)

    def test_another_project_sees_nothing(self):
        storage = self.cloud('eve', 'elsewhere').block_storage
        self.refused(exceptions.NotFoundException, storage.get_volume, self.volume.id)
        self.refused(exceptions.NotFoundException, storage.create_attachment, self.volume,
                     instance=base.instance('one'))
        self.assertNotIn(self.volume.id, [found.id for found in storage.volumes()])

    def test_an_administrator_sees_everything(self):
        storage = self.cloud('admin', 'admin').block_storage
        self.assertIn(self.volume.id, [found.id for found in storage.volumes(all_projects=True)])
        self.assertEqual(self.shop, storage.get_volume(self.volume).project_id)
        self.assertEqual({'up'}, {found.state for found in storage.services()})
        self.refused(exceptions.ForbiddenException, lambda: list(self.storage.services()))

    def test_a_default_type_is_that_of_a_project_which_exists(self):
        storage = self.cloud('admin', 'admin').block_storage
        kind = storage.create_type(name='of the shop')
        asked = {'default_type': {'volume_type': kind.id}}
        for project, status in ((self.shop, 200), ('no-such-project', 404)):
            path = f'/default-types/{project}'
            for expected, act in ((status, functools.partial(storage.put, json=asked)),
                                  (status, storage.get), (204, storage.delete)):
                self.assertEqual(expected, act(path, microversion='3.62').status_code)
        storage.delete_type(kind)

    def test_the_role_of_a_service_alone_opens_nothing(self):
        storage = self.cloud('nova', 'service').block_storage
        self.refused(exceptions.ForbiddenException, lambda: list(storage.volumes()))
        self.refused(exceptions.ForbiddenException, storage.create_volume, size=1)

    def test_both_forms_of_the_catalog(self):
        for region in (keystone.REGION, clouds.ELSEWHERE):
            with self.subTest(region=region):
                storage = self.cloud('ann', 'shop', region_name=region).block_storage
                self.assertEqual(region == keystone.REGION,
                                 self.shop in storage.get_endpoint())
                self.assertEqual(self.volume.id, storage.get_volume(self.volume.id).id)

    def used_by_a_server(self):
        """Create and complete an attachment of a server, and return the path of the attachment."""
        made = self.storage.create_attachment(self.volume, connector=base.connector('one'),
                                              instance=base.instance('one'))
        self.storage.complete_attachment(made)
        self.nova.use(base.instance('one'), self.volume.id, made.id)
        return f'/v3/attachments/{made.id}'

    def test_only_a_service_ends_what_a_server_uses(self):
        path = self.used_by_a_server()
        user = self.token('ann', 'shop')
        for token in (user, self.token('admin', 'admin')):
            answer = self.ask('DELETE', path, token)
            self.assertEqual(409, answer.status_code, answer.text)
            self.assertIn('ConflictNovaUsingAttachment',
                          answer.json()['conflictingRequest']['message'])
            # Nova is called with the token of the caller.
            self.assertEqual(token, self.nova.requests[-1].headers['x-auth-token'])
        for other in (user, 'garbage', self.expired):
            with self.subTest(other=other):
                answer = self.ask('DELETE', path, user, service_token=other)
                self.assertEqual(401, answer.status_code, answer.text)
        self.assertEqual(401, self.ask('DELETE', path,
                                       service_token=self.token('nova', 'service')).status_code)
        self.assertEqual(200, self.ask('GET', path, user).status_code)
        self.assertEqual(200, self.ask('DELETE', path, user, service_token=self.token(
            'nova', 'service')).status_code)

    def test_as_nova_does_it(self):
        """Delete an attachment with both tokens by keystoneauth, as Nova does."""
        path = self.used_by_a_server()
        users = self.cloud('ann', 'shop')
        service = self.cloud('nova', 'service')
        both = session.Session(service_token.ServiceTokenAuthWrapper(
            users.session.auth, service.session.auth))
        answer = both.delete(path.removeprefix('/v3'), endpoint_filter={
            'service_type': 'volumev3', 'region_name': keystone.REGION}, raise_exc=False,
            microversion='3.44', microversion_service_type='volume')
        self.assertEqual(200, answer.status_code, answer.text)

    def test_a_service_finishes_for_a_user_whose_token_ran_out(self):
        path = self.used_by_a_server()
        self.assertEqual(401, self.ask('DELETE', path, self.expired).status_code)
        self.assertEqual(200, self.ask('DELETE', path, self.expired, service_token=self.token(
            'nova', 'service')).status_code)


class TokensTest(clouds.CloudTestCase):

    NEEDS_EXPIRED = True

    def assert_unauthenticated(self, answer):
        self.assertEqual(401, answer.status_code, answer.text)
        self.assertEqual({'unauthorized': {
            'code': 401, 'message': 'This request requires authentication.'}}, answer.json())
        self.assertEqual(f'Keystone uri="{self.keystone.url}"',
                         answer.headers['WWW-Authenticate'])
        self.assertIn('x-openstack-request-id', answer.headers)

    def test_without_a_good_token_only_versions_and_health_are_shown(self):
        for token in (None, '', 'garbage', self.expired, 'ann:shop:admin'):
            with self.subTest(token=token):
                for path in ('/v3/volumes', f'/v3/{self.shop}/volumes'):
                    self.assert_unauthenticated(self.ask('GET', path, token))
                self.assertEqual([300, 200, 200], [
                    self.ask('GET', path, token).status_code for path in ('/', '/v3', '/v3/')])
                self.assertEqual('OK', self.ask('GET', '/healthcheck', token).text)

    def test_identity_headers_of_client_ignored(self):
        claimed = {'X-Identity-Status': 'Confirmed', 'X-Roles': 'admin', 'X-User-Id': 'u',
                   'X-Project-Id': self.shop, 'X-Service-Identity-Status': 'Confirmed',
                   'X-Service-Roles': 'service', 'OpenStack-System-Scope': 'all'}
        self.assert_unauthenticated(requests.get(
            f'{self.stack.endpoint}/volumes', headers=claimed, timeout=clouds.SECONDS))
        answer = requests.get(
            f'{self.stack.endpoint}/os-services', timeout=clouds.SECONDS,
            headers={**claimed, 'X-Auth-Token': self.token('rae', 'shop')})
        self.assertEqual(403, answer.status_code)

    def test_a_token_that_was_taken_back(self):
        token = self.token('rae', 'shop')
        headers = {'X-Auth-Token': token, 'X-Subject-Token': token}
        self.assertEqual(204, requests.delete(f'{self.keystone.url}/auth/tokens', headers=headers,
                                              timeout=clouds.SECONDS).status_code)
        self.assert_unauthenticated(self.ask('GET', '/v3/volumes', token))

    def test_the_project_of_the_path_is_that_of_the_token(self):
        token = self.token('ann', 'shop')
        for path, status in ((f'/v3/{self.shop}/volumes', 200), ('/v3/volumes', 200),
                             (f'/v3/{self.keystone.project("elsewhere")}/volumes', 400)):
            with self.subTest(path=path):
                answer = self.ask('GET', path, token)
                self.assertEqual(status, answer.status_code)
                if status == 400:
                    self.assertEqual('Malformed request url',
                                     answer.json()['badRequest']['message'])

    def issued(self, scope, name='admin'):
        """Return a token with another scope than a project."""
        answer = requests.post(f'{self.keystone.url}/auth/tokens', timeout=clouds.SECONDS, json={
            'auth': {'identity': {'methods': ['password'], 'password': {'user': {
                'name': name, 'domain': {'id': keystone.DOMAIN},
                'password': self.passwords[name]}}}, 'scope': scope}})
        self.assertEqual(201, answer.status_code, answer.text)
        return answer.headers['X-Subject-Token']

    def test_tokens_without_a_project(self):
        """A token without project lists the volumes of all projects, and creates none."""
        identity = self.keystone.cloud().identity
        reader = identity.find_role('reader')
        rae = identity.find_user('rae')
        identity.assign_domain_role_to_user(keystone.DOMAIN, rae, reader)
        wish = {'volume': {'size': 1}}
        for scope, name, listed, made in (
                ({'system': {'all': True}}, 'admin', 200, 400),
                ({'domain': {'id': keystone.DOMAIN}}, 'rae', 403, 403),
                ('unscoped', 'rae', 403, 403)):
            with self.subTest(scope=scope):
                token = self.issued(scope, name)
                self.assertEqual(listed, self.ask('GET', '/v3/volumes', token).status_code)
                answer = self.ask('POST', '/v3/volumes', token, wish)
                self.assertEqual(made, answer.status_code, answer.text)
        admin = self.cloud('admin', 'admin').block_storage
        self.assertEqual([], list(admin.volumes(all_projects=True)))

    def test_validated_token_cached_for_all_services(self):
        token = self.token('ann', 'shop')
        self.addCleanup(self.memcached.start)
        with base.ForkedStack('fake', settings=self.settings()) as other:
            self.assertEqual(200, self.ask('GET', '/v3/volumes', token).status_code)
            self.keystone.stop()
            for service in (self.stack, other):
                self.assertEqual(200, self.ask('GET', '/v3/volumes', token,
                                               service=service).status_code)
            # The validity of a token that is not cached is unknown without Keystone.
            for unknown in ('garbage', self.expired):
                answer = self.ask('GET', '/v3/volumes', unknown)
                self.assertEqual(503, answer.status_code, answer.text)
                self.assertIn('the identity service',
                              answer.json()['serviceUnavailable']['message'])
            self.assertEqual(401, self.ask('GET', '/v3/volumes').status_code)
            self.memcached.stop()
            self.assertEqual(503, self.ask('GET', '/v3/volumes', token).status_code)
            self.keystone.start()
            self.assertEqual(200, self.ask('GET', '/v3/volumes', token).status_code)
        self.assertNotIn('Traceback', self.stack.log_text())
        self.assertNotIn(token, self.stack.log_text())
