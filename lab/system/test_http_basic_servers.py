"""Compute API with attached volumes, without Keystone: HTTP Basic authentication over TLS."""
import pathlib
import tempfile

import bcrypt
import openstack
from openstack import exceptions

from blockattach.tests.fixtures import certificates
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import consumers

SECONDS = 180
PASSWORDS = {name: f'canary-{name}' for name in ('ann', 'eve', 'compute')}
ROLES = 'ann:shop:member,reader\neve:elsewhere:member,reader\ncompute:service:admin,service\n'


class HttpBasicServersTest(base.StackTestCase):
    """Two services with the same users, and an account of the compute API."""

    def setUp(self):
        super().setUp()
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix='blockattach-')))
        authority = certificates.Authority()
        self.addCleanup(authority.close)
        issued = authority.issue(folder, 'server')
        self.cacert = str(authority.cert)
        (folder / 'roles').write_text(ROLES)
        (folder / 'users').write_text(''.join(
            f'{user}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n'
            for user, password in PASSWORDS.items()))
        authenticated = (
            f'[api]\nauth_strategy = http_basic\nhttp_basic_auth_user_file = {folder}/users\n'
            f'http_basic_auth_roles_file = {folder}/roles\n'
            f'tls_cert_file = {issued.cert}\ntls_key_file = {issued.key}\n')
        self.storage = self.a_stack(settings=authenticated)
        self.consumer = consumers.Consumer(servers.free_port(), authenticated + (
            f'[block_storage]\nendpoint_override = {self.storage.endpoint}\n'
            f'username = compute\npassword = {PASSWORDS["compute"]}\ncafile = {self.cacert}\n'),
            'https')
        self.addCleanup(lambda: self.assertEqual({}, self.consumer.close()))
        self.addCleanup(self.assert_no_password_is_said)
        self.consumer.start(consumers.API, consumers.AGENT)
        self.assertTrue(base.wait_for(lambda: [one.state for one in self.cloud(
            'compute').compute.services()] == ['up'], SECONDS))

    def assert_no_password_is_said(self):
        said = self.consumer.text() + self.storage.log_text()
        for password in PASSWORDS.values():
            self.assertNotIn(password, said)

    def cloud(self, user):
        """Return a connection of a user."""
        return openstack.connect(
            auth_type='http_basic', cacert=self.cacert, load_envvars=False,
            load_yaml_config=False, compute_endpoint_override=self.consumer.endpoint,
            block_storage_endpoint_override=self.storage.endpoint, auth={
                'username': user, 'password': PASSWORDS[user], 'endpoint': self.storage.endpoint})

    def volume(self, cloud):
        made = cloud.block_storage.create_volume(size=1)
        cloud.block_storage.wait_for_status(made, 'available', wait=SECONDS)
        return made.id

    def boot(self, cloud, volume_id):
        made = cloud.compute.create_server(
            name='web', flavor_id='1', image_id='', networks='none', block_device_mapping=[{
                'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0,
                'uuid': volume_id}])
        return cloud.compute.wait_for_server(made, wait=SECONDS)

    def test_a_project_uses_its_own_volumes(self):
        ann, eve = self.cloud('ann'), self.cloud('eve')
        root, data = self.volume(ann), self.volume(ann)
        made = self.boot(ann, root)
        self.assertEqual('shop', made.project_id)
        ann.compute.create_volume_attachment(made, data)
        self.assertEqual('shop', ann.block_storage.get_volume(data).project_id)
        self.assertEqual([], list(eve.compute.servers()))
        hers = self.boot(eve, self.volume(eve))
        free = self.volume(ann)
        with self.assertRaises(exceptions.BadRequestException):
            self.boot(eve, free)
        with self.assertRaises(exceptions.NotFoundException):
            eve.compute.create_volume_attachment(hers, free)
        self.assertEqual('available', ann.block_storage.get_volume(free).status)
        ann.compute.delete_server(made)
        ann.compute.wait_for_delete(made, wait=SECONDS)
        self.assertEqual({'available'}, {ann.block_storage.get_volume(one).status
                                         for one in (root, data)})
