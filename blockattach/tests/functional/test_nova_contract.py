"""Requests of Nova in their order and the keys that it reads, for both forms of the catalog.

Nova itself has an address where nothing answers, because a request of a service is never checked
with Nova.
"""
import unittest
import uuid

from blockattach.storage.domain import connection
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.functional import nova_calls

SERVER = '11111111-1111-4111-8111-111111111111'
SECOND = '22222222-2222-4222-8222-222222222222'
NOWHERE = 'http://127.0.0.1:9/v2.1'
HOST = 'cloudhost'
OTHER_HOST = 'cloudhost2'


class Contract:
    """Volume operations of Nova."""

    WITH_PROJECT = True

    def setUp(self):
        super().setUp()
        self.http = http.ApiFixture(options={'nova': {'endpoint_override': NOWHERE}})
        self.addCleanup(self.http.close)
        self.nova = nova_calls.Nova(self.http, self.WITH_PROJECT)

    def a_volume(self, multiattach=False):
        fields = {}
        if multiattach:
            fields['volume_type'] = make.volume_type(self.http.database, multiattach=True).name
        made = self.nova.ask('POST', '/volumes', {'volume': {
            'size': 1, 'consistencygroup_id': None, 'snapshot_id': None, 'name': 'v',
            'description': None, 'volume_type': None, 'availability_zone': None, 'metadata': {},
            'imageRef': None, 'source_volid': None, 'backup_id': None, **fields}})['volume']
        self.assertEqual('creating', made['status'])
        self.assertEqual('available', self.nova.volume(made['id'])['status'])
        self.nova.requests.clear()
        return made['id']

    def sql(self, statement):
        with self.http.database.writer() as connected:
            connected.exec_driver_sql(statement)

    def asked(self):
        """Return method, path without ids, and status of each request since the last call."""
        nouns = [(method, '/'.join('<id>' if len(part) == 36 else part
                                   for part in path.split('/')), status)
                 for method, path, status in self.nova.requests]
        self.nova.requests.clear()
        return nouns

    def status(self, volume_id):
        return self.nova.volume(volume_id)['status']

    def servers(self, volume_id):
        """Return the attachment id of each server that Nova finds on a volume."""
        return {server: one['attachment_id']
                for server, one in self.nova.volume(volume_id)['attachments'].items()}

    def assert_granted(self, volume_id, *hosts):
        """Check that the target grants exactly these hosts."""
        self.assertEqual(
            sorted(f'iqn.2016-04.com.example:{host}' for host in hosts),
            [grant.initiator for export in self.http.manager.backend.fake_target.exports()
             if export.volume_id == volume_id for grant in export.grants])

    def assert_usable(self, volume_id, host, info):
        """Check that the host logs in with its connection information."""
        self.assertEqual('rw', self.http.manager.backend.fake_target.log_in(
            volume_id, f'iqn.2016-04.com.example:{host}',
            connection.Credential(info['auth_username'], info['auth_password'])))

    def assert_refused(self, status, sentence, act, *arguments):
        with self.assertRaises(nova_calls.Refused) as caught:
            act(*arguments)
        self.assertEqual(status, caught.exception.args[0])
        self.assertIn(sentence, caught.exception.args[1])

    def test_version_discovery_at_host_root(self):
        self.assertEqual((3, 71), self.nova.highest_version())

    def test_attach_and_detach_requests(self):
        volume_id = self.a_volume()
        attachment_id, info = self.nova.attach(volume_id, SERVER)
        self.assertEqual([
            ('GET', '/volumes/<id>', 200), ('POST', '/attachments', 200),
            ('GET', '/volumes/<id>', 200), ('PUT', '/attachments/<id>', 200),
            ('GET', '/volumes/<id>/encryption', 200),
            ('POST', '/attachments/<id>/action', 204)], self.asked())
        self.assert_usable(volume_id, HOST, info)
        shown = self.nova.volume(volume_id, nova_calls.CONNECTING)
        self.assertEqual(('in-use', False), (shown['status'], shown['shared_targets']))
        self.assertTrue(uuid.UUID(shown['service_uuid']))
        self.assertEqual({SERVER: {'server_id': SERVER, 'attachment_id': attachment_id,
                                   'device': '/dev/sdb'}}, shown['attachments'])
        self.assertEqual(attachment_id, info['attachment_id'])
        self.assertEqual(('rw', True), (info['access_mode'], info['enforce_multipath']))
        self.asked()
        self.nova.detach(volume_id, attachment_id)
        self.assertEqual([
            ('GET', '/volumes/<id>', 200), ('POST', '/volumes/<id>/action', 202),
            ('GET', '/volumes/<id>', 200), ('DELETE', '/attachments/<id>', 200)], self.asked())
        self.assertEqual(('available', {}), (self.status(volume_id), self.servers(volume_id)))
        self.assert_granted(volume_id)

    def test_begin_detaching_rolled_back(self):
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.attach(volume_id, SERVER)
        self.nova.act(volume_id, 'os-begin_detaching')
        self.assertEqual('detaching', self.status(volume_id))
        self.assertEqual({SERVER: attachment_id}, self.servers(volume_id))
        self.nova.act(volume_id, 'os-roll_detaching')
        self.assertEqual('in-use', self.status(volume_id))

    def test_failed_attach_deleted_twice(self):
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.create_attachment(volume_id, SERVER)
        self.nova.connect(attachment_id, HOST, '/dev/sdb')
        self.nova.delete_attachment(attachment_id)
        self.nova.delete_attachment(attachment_id)
        self.assertEqual('available', self.status(volume_id))
        self.assert_granted(volume_id)

    def test_repeated_connect_and_complete_succeed(self):
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.create_attachment(volume_id, SERVER)
        self.assertEqual(self.nova.connect(attachment_id, HOST, '/dev/sdb'),
                         self.nova.connect(attachment_id, HOST, '/dev/sdb'))
        for _ in range(2):
            self.nova.complete(attachment_id)
        self.assertEqual('in-use', self.status(volume_id))

    def test_second_server_of_plain_volume_rejected(self):
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.attach(volume_id, SERVER)
        shown = self.nova.volume(volume_id)
        self.assertEqual(('in-use', False, [SERVER]), (
            shown['status'], shown['multiattach'], list(shown['attachments'])))
        self.assert_refused(400, f'Volume {volume_id} status must be available',
                            self.nova.create_attachment, volume_id, SECOND)
        self.assertEqual({SERVER: attachment_id}, self.servers(volume_id))
        self.assert_granted(volume_id, HOST)

    def test_two_servers_share_multiattach_volume(self):
        volume_id = self.a_volume(multiattach=True)
        self.assertIs(True, self.nova.volume(volume_id)['multiattach'])
        first, _ = self.nova.attach(volume_id, SERVER, HOST)
        second, info = self.nova.attach(volume_id, SECOND, OTHER_HOST)
        self.assertEqual({SERVER: first, SECOND: second}, self.servers(volume_id))
        self.assert_granted(volume_id, HOST, OTHER_HOST)
        self.nova.detach(volume_id, first)
        self.assertEqual({SECOND: second}, self.servers(volume_id))
        self.assertEqual('in-use', self.status(volume_id))
        self.assert_granted(volume_id, OTHER_HOST)
        self.assert_usable(volume_id, OTHER_HOST, info)
        self.nova.detach(volume_id, second)
        self.assertEqual('available', self.status(volume_id))

    def test_boot_from_volume_and_delete_server(self):
        volume_id = self.a_volume()
        self.sql(f"UPDATE volumes SET bootable = 1 WHERE id = '{volume_id}'")
        for _ in range(2):
            self.assertEqual('true', self.nova.volume(volume_id)['bootable'])
        attachment_id, _ = self.nova.create_attachment(volume_id, SERVER)
        self.nova.use(volume_id, attachment_id, HOST, '/dev/sda')
        self.assertEqual('/dev/sda', self.nova.volume(volume_id)['attachments'][SERVER]['device'])
        self.nova.delete_attachment(attachment_id)
        self.assertEqual('available', self.status(volume_id))
        self.assert_granted(volume_id)

    def test_delete_volume_with_server(self):
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.attach(volume_id, SERVER)
        self.nova.delete_attachment(attachment_id)
        self.assertIsNone(self.nova.ask('DELETE', f'/volumes/{volume_id}'))
        self.assertEqual(('DELETE', f'/volumes/{volume_id}', 202), self.nova.requests[-1])
        self.assert_refused(404, f'Volume {volume_id} could not be found.',
                            self.nova.volume, volume_id)

    def test_hard_reboot_reads_connection_info(self):
        volume_id = self.a_volume()
        attachment_id, info = self.nova.attach(volume_id, SERVER)
        self.assertEqual([(attachment_id, volume_id)], self.nova.attachments_of(SERVER))
        self.assertEqual([], self.nova.attachments_of(SECOND))
        self.assertEqual(
            {'status': 'attached', 'attach_mode': 'rw', 'connection_info': info},
            self.nova.attachment(attachment_id))

    def test_resize_moves_attachment(self):
        volume_id = self.a_volume()
        old, _ = self.nova.attach(volume_id, SERVER, HOST)
        new, info = self.nova.create_attachment(volume_id, SERVER)
        self.assertEqual({}, info)
        self.nova.delete_attachment(old)
        self.assertEqual(('reserved', {}), (self.status(volume_id), self.servers(volume_id)))
        info = self.nova.connect(new, OTHER_HOST, '/dev/sdb')
        self.assertEqual({'status': 'attaching', 'attach_mode': 'rw', 'connection_info': info},
                         self.nova.attachment(new))
        self.nova.complete(new)
        self.assertEqual({SERVER: new}, self.servers(volume_id))
        self.assert_granted(volume_id, OTHER_HOST)
        self.assert_usable(volume_id, OTHER_HOST, info)

    def test_live_migration_by_admin_project(self):
        volume_id = self.a_volume()
        old, _ = self.nova.attach(volume_id, SERVER, HOST)
        project = nova_calls.ADMIN_PROJECT
        new, info = self.nova.create_attachment(
            volume_id, SERVER, nova_calls.connector(OTHER_HOST, '/dev/sdb'), project)
        self.assert_granted(volume_id, HOST, OTHER_HOST)
        self.assert_usable(volume_id, OTHER_HOST, info)
        self.assertEqual({'status': 'attaching', 'attach_mode': 'rw', 'connection_info': info},
                         self.nova.attachment(new, project))
        self.nova.complete(new, project)
        self.nova.delete_attachment(old, project)
        self.assertEqual(('in-use', {SERVER: new}),
                         (self.status(volume_id), self.servers(volume_id)))
        self.assert_granted(volume_id, OTHER_HOST)
        self.assertEqual([(new, volume_id)], self.nova.attachments_of(SERVER))

    def test_failed_live_migration_keeps_source(self):
        volume_id = self.a_volume()
        old, info = self.nova.attach(volume_id, SERVER, HOST)
        project = nova_calls.ADMIN_PROJECT
        new, _ = self.nova.create_attachment(
            volume_id, SERVER, nova_calls.connector(OTHER_HOST, '/dev/sdb'), project)
        self.nova.delete_attachment(new, project)
        self.assertEqual(('in-use', {SERVER: old}),
                         (self.status(volume_id), self.servers(volume_id)))
        self.assert_granted(volume_id, HOST)
        self.assert_usable(volume_id, HOST, info)

    def test_shelve_and_unshelve_reserve_volume(self):
        volume_id = self.a_volume()
        old, _ = self.nova.attach(volume_id, SERVER, HOST)
        new, _ = self.nova.create_attachment(volume_id, SERVER)
        self.nova.delete_attachment(old)
        self.assertEqual('reserved', self.nova.volume(
            volume_id, nova_calls.CONNECTING)['status'])
        self.assert_granted(volume_id)
        self.nova.use(volume_id, new, OTHER_HOST, '/dev/sdb')
        self.assertEqual(('in-use', {SERVER: new}),
                         (self.status(volume_id), self.servers(volume_id)))
        self.nova.delete_attachment(new)
        self.assertEqual('available', self.status(volume_id))

    def test_attach_to_shelved_server_without_connector(self):
        """A shelved server has no host, so there is no connector."""
        volume_id = self.a_volume()
        self.nova.volume(volume_id)
        attachment_id, _ = self.nova.create_attachment(volume_id, SERVER)
        self.nova.complete(attachment_id)
        self.assertEqual(('in-use', {SERVER: attachment_id}),
                         (self.status(volume_id), self.servers(volume_id)))
        self.nova.delete_attachment(attachment_id)
        self.assertEqual('available', self.status(volume_id))

    def test_unshelve_connects_volume_attached_while_shelved(self):
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.create_attachment(volume_id, SERVER)
        self.nova.complete(attachment_id)
        info = self.nova.use(volume_id, attachment_id, HOST, '/dev/sdb')
        self.assertEqual({SERVER: attachment_id}, self.servers(volume_id))
        self.assert_usable(volume_id, HOST, info)

    def test_unknown_volume_not_found(self):
        missing = '00000000-0000-0000-0000-00000000abcd'
        for act in (self.nova.volume, self.nova.encryption_key,
                    lambda volume_id: self.nova.create_attachment(volume_id, SERVER)):
            self.assert_refused(404, f'Volume {missing} could not be found.', act, missing)

    def test_attach_volume_in_error_rejected(self):
        volume_id = self.a_volume()
        self.nova.ask('POST', f'/volumes/{volume_id}/action',
                      {'os-reset_status': {'status': 'error'}}, None, nova_calls.ADMIN_PROJECT)
        self.assertEqual('error', self.status(volume_id))
        self.assert_refused(
            400, f'Invalid volume: Volume attachments can not be created if the volume is in an '
                 f'error state. The Volume {volume_id} currently has a status of: error',
            self.nova.create_attachment, volume_id, SERVER)

    def test_unknown_attachment_not_found(self):
        missing = '00000000-0000-0000-0000-00000000abcd'
        for act, more in ((self.nova.attachment, ()), (self.nova.complete, ()),
                          (self.nova.connect, (HOST, '/dev/sdb'))):
            self.assert_refused(404, f'attachment_id = {missing}.', act, missing, *more)

    def test_second_begin_detaching_rejected(self):
        volume_id = self.a_volume()
        self.assert_refused(400, 'Unable to detach volume', self.nova.act, volume_id,
                            'os-begin_detaching')
        self.nova.attach(volume_id, SERVER)
        self.nova.act(volume_id, 'os-begin_detaching')
        self.assert_refused(400, 'Unable to detach volume', self.nova.act, volume_id,
                            'os-begin_detaching')

    def test_service_project_sees_volumes_of_all_projects(self):
        """nova-compute reads volumes of each project, with keys that users do not see."""
        volume_id = self.a_volume()
        attachment_id, _ = self.nova.attach(volume_id, SERVER)
        for project in (nova_calls.SERVICE_PROJECT, nova_calls.ADMIN_PROJECT):
            shown = self.nova.volume(volume_id, project=project)
            self.assertEqual((None, http.POOL, [SERVER]), (
                shown['migration_status'], shown['host'], list(shown['attachments'])))
        self.nova.delete_attachment(attachment_id, nova_calls.SERVICE_PROJECT)
        self.assertEqual('available', self.status(volume_id))

    def test_snapshot_limits_shown(self):
        self.assertEqual({'maxTotalSnapshots': -1, 'totalSnapshotsUsed': 0}, self.nova.limits())

    def test_volume_proxy_lists_volumes_and_types(self):
        volume_id = self.a_volume()
        self.nova.attach(volume_id, SERVER)
        listed, = self.nova.ask('GET', '/volumes/detail')['volumes']
        self.assertEqual(self.nova.ask('GET', f'/volumes/{volume_id}')['volume'], listed)
        for kind in self.nova.ask('GET', '/types')['volume_types']:
            self.assertTrue(kind['id'] and kind['name'])


class VolumeV3Test(Contract, unittest.TestCase):
    """Contract with the catalog entry ``volumev3``, whose URL has the project."""


class BlockStorageTest(Contract, unittest.TestCase):
    """Contract with the catalog entry ``block-storage``, where the token has the project."""

    WITH_PROJECT = False
