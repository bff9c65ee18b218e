"""Service without Keystone: HTTP Basic authentication, and permissions."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import bcrypt
import openstack
import requests
from openstack import exceptions

from blockattach.tests.fixtures import certificates
from blockattach.tests.functional import base

SECONDS = 180
PASSWORDS = {'ann': 'canary-ann', 'rae': 'canary-rae', 'root': 'canary-root'}


class HttpBasicTest(base.StackTestCase):
    """HTTP Basic authentication over TLS."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        authority = certificates.Authority()
        self.addCleanup(authority.close)
        issued = authority.issue(self.folder, 'server')
        self.cacert = str(authority.cert)
        self.users = self.folder / 'htpasswd'
        self.write(PASSWORDS)
        self.roles = self.folder / 'roles'
        self.roles.write_text('ann:shop:member,reader\nrae:shop:reader\nroot:all:admin\n')
        self.service = self.a_stack(settings=(
            f'[api]\nauth_strategy = http_basic\nhttp_basic_auth_user_file = {self.users}\n'
            f'http_basic_auth_roles_file = {self.roles}\n'
            f'tls_cert_file = {issued.cert}\ntls_key_file = {issued.key}\n'))
        self.assertTrue(self.service.url.startswith('https://'))

    def write(self, passwords):
        self.users.write_text(''.join(
            f'{user}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n'
            for user, password in passwords.items()))

    def storage(self, user, project=''):
        endpoint = self.service.endpoint + project
        return openstack.connect(
            auth_type='http_basic', block_storage_endpoint_override=endpoint, cacert=self.cacert,
            auth={'username': user, 'password': PASSWORDS[user], 'endpoint': endpoint},
            load_envvars=False, load_yaml_config=False).block_storage

    def get(self, path, user=None, password=None):
        return requests.get(self.service.url + path, verify=self.cacert, timeout=SECONDS,
                            auth=user and (user, password or PASSWORDS[user]))

    def test_the_story_by_openstacksdk(self):
        storage = self.storage('ann', '/shop')
        volume = storage.create_volume(size=1, name='mine')
        storage.wait_for_status(volume, 'available', wait=SECONDS)
        made = storage.create_attachment(volume, connector=base.connector('one'),
                                         instance=base.instance('one'))
        storage.complete_attachment(made)
        reader = self.storage('rae')
        self.assertEqual('in-use', reader.get_volume(volume.id).status)
        with self.assertRaises(exceptions.ForbiddenException):
            reader.delete_attachment(made)
        with self.assertRaises(exceptions.BadRequestException):
            list(self.storage('ann', '/elsewhere').volumes())
        self.assertEqual([volume.id], [found.id for found in self.storage('root').volumes(
            all_projects=True)])
        storage.delete_attachment(made)
        storage.delete_volume(volume)
        for password in PASSWORDS.values():
            self.assertNotIn(password, self.service.log_text())

    def test_by_the_openstack_shell(self):
        done = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), 'openstack'), '--os-auth-type',
             'http_basic', '--os-username', 'root', '--os-endpoint', self.service.endpoint,
             '--os-cacert', self.cacert, '--os-volume-api-version', '3.71', 'volume', 'type',
             'list', '-f', 'json'], env={**os.environ, 'OS_PASSWORD': PASSWORDS['root']},
            capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('multiattach', [row['Name'] for row in json.loads(done.stdout)])

    def test_a_user_without_permission(self):
        for user, password in ((None, None), ('ann', 'wrong'), ('eve', 'canary-ann')):
            with self.subTest(user=user):
                answer = self.get('/v3/volumes', user, password)
                self.assertEqual(401, answer.status_code)
                self.assertEqual({'unauthorized': {
                    'code': 401, 'message': 'This request requires authentication.'}},
                    answer.json())
                self.assertIn('Basic realm=', answer.headers['WWW-Authenticate'])
                self.assertEqual([300, 200], [self.get(path, user, password).status_code
                                              for path in ('/', '/healthcheck')])

    def test_files_are_changed_without_a_stop(self):
        self.assertEqual(200, self.get('/v3/volumes', 'ann').status_code)
        self.roles.write_text('ann:shop:guest\n')
        self.assertEqual(403, self.get('/v3/volumes', 'ann').status_code)
        self.assertEqual(401, self.get('/v3/volumes', 'root').status_code)
        self.write({'ann': 'canary-new'})
        self.assertEqual(401, self.get('/v3/volumes', 'ann').status_code)
        self.assertEqual(403, self.get('/v3/volumes', 'ann', 'canary-new').status_code)
