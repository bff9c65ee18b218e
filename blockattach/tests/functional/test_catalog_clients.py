"""Shell `openstack` with a token, a catalog, and a Compute service.

The shell asks Compute for the server before it attaches a volume.
"""
import json
import uuid

from blockattach.tests.fixtures import nova
from blockattach.tests.functional import test_clients

SERVER_NAME = 'server-1'


class CatalogClientsTest(test_clients.ClientsTestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.server_id = str(uuid.uuid4())
        self.nova.run(self.server_id, SERVER_NAME)

    def cloud(self, *arguments):
        return test_clients.shell(
            'openstack', '--os-auth-type', 'v3password', '--os-auth-url',
            f'{self.nova.keystone_url}/v3', '--os-user-id', 'somebody', '--os-password', 'x',
            '--os-project-id', test_clients.PROJECT, '--os-volume-api-version', '3.71', *arguments)

    def cloud_json(self, *arguments):
        return json.loads(self.cloud(*arguments, '-f', 'json'))

    def a_new_volume(self, name):
        made = self.cloud_json('volume', 'create', '--type', 'multiattach', '--size', '1', name)
        self.assertEqual('available', self.status(made['id']))
        return made['id']

    def attach_as_an_administrator(self, name):
        """Create a volume, attach it and delete the attachments."""
        volume_id = self.a_new_volume(name)
        made = self.cloud_json(
            'volume', 'attachment', 'create', name, SERVER_NAME, '--connect', '--mode', 'ro',
            '--initiator', 'iqn.2026-01.org.example:cloud', '--host', 'cloud',
            '--ip', '127.0.0.1', '--mountpoint', '/dev/vdb')
        self.assertEqual((volume_id, self.server_id, 'attaching', 'ro'), tuple(
            made[key] for key in ('Volume ID', 'Instance ID', 'Status', 'Attach Mode')))
        self.assertEqual(('iscsi', 'ro'), tuple(
            made['Properties'][key] for key in ('driver_volume_type', 'access_mode')))
        reserved = self.cloud_json('volume', 'attachment', 'create', volume_id,
                                   '--server', self.server_id)
        self.assertEqual(('reserved', {}), (reserved['Status'], reserved['Properties']))
        self.cloud('volume', 'attachment', 'complete', made['ID'])
        self.assertEqual(
            {made['ID']: 'attached', reserved['ID']: 'reserved'},
            {row['ID']: row['Status'] for row in self.cloud_json(
                'volume', 'attachment', 'list', '--volume-id', volume_id)})
        for attachment_id in (made['ID'], reserved['ID']):
            self.cloud('volume', 'attachment', 'delete', attachment_id)
        self.assertEqual('available', self.cloud_json('volume', 'show', name)['status'])

    def test_shell_attaches_by_volumev3_catalog(self):
        self.nova.publish('volumev3', f'{self.service.endpoint}/{test_clients.PROJECT}')
        self.attach_as_an_administrator('by-volumev3')

    def test_shell_attaches_by_block_storage_catalog(self):
        self.nova.publish('block-storage', self.service.endpoint)
        self.attach_as_an_administrator('by-block-storage')

    def test_shell_attach_to_unknown_server_fails(self):
        self.nova.publish('block-storage', self.service.endpoint)
        volume_id = self.a_new_volume('by-nobody')
        with self.assertRaisesRegex(AssertionError, 'No Server found for nobody'):
            self.cloud('volume', 'attachment', 'create', 'by-nobody', 'nobody')
        self.assertEqual('available', self.cloud_json('volume', 'show', volume_id)['status'])
