"""Unmodified openstacksdk and openstackclient against the compute API over HTTP."""
import openstack
from openstack import exceptions

from blockattach.compute.api import versions
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional.servers import clients

MAPPED = {'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0}


class SdkTest(clients.ClientsTestCase):

    def setUp(self):
        super().setUp()
        self.compute = self.connect().compute

    def connect(self, **more):
        return openstack.connect(load_yaml_config=False, load_envvars=False, auth_type='none',
                                 **self.overrides, **more)

    def boot(self, *volumes, **more):
        """Create a server with the volumes attached, the first one as its root disk."""
        made = self.compute.create_server(
            name='web', flavor_id='1', image_id='', networks='none', block_device_mapping=[
                {**MAPPED, 'uuid': one, 'boot_index': number and -1}
                for number, one in enumerate(volumes)], **more)
        return self.compute.wait_for_server(made)

    def assert_status(self, status, made, host=None):
        found = self.compute.get_server(made.id)
        self.assertEqual((status, None), (found.status, found.task_state))
        if host is not None:
            self.assertEqual(host, found.compute_host)

    def test_sdk_discovers_microversions(self):
        found = self.compute.get_endpoint_data()
        self.assertEqual(((2, 1), tuple(versions.MAXIMUM), (2, 1)), (
            found.api_version, found.max_microversion, found.min_microversion))

    def test_sdk_creates_and_deletes_server(self):
        root = self.volume()
        made = self.boot(root)
        self.assertEqual(('ACTIVE', 'host-a', '/dev/vda', 'active', 1), (
            made.status, made.compute_host, made.root_device_name, made.vm_state,
            made.power_state))
        self.assertEqual([root], [one.id for one in made.attached_volumes])
        self.assertEqual('m1.tiny', made.flavor.original_name)
        self.assertEqual([made.id], [one.id for one in self.compute.servers()])
        self.assertEqual([made.id], [one.id for one in self.compute.servers(
            details=False, name='web')])
        self.assertEqual(made.id, self.compute.find_server('web').id)
        self.assertIsNone(self.compute.find_server('we'))
        self.compute.delete_server(made)
        self.compute.wait_for_delete(made)
        self.assertRaises(exceptions.NotFoundException, self.compute.get_server, made.id)
        self.assertEqual('available', self.status_of_volume(root))

    def test_sdk_create_of_several_on_one_volume_rejected(self):
        """Stock clients do not request the extension, but list servers created with it."""
        shared = self.volume(multiattach=True)
        with self.assertRaisesRegex(exceptions.BadRequestException, 'multiple instances'):
            self.boot(shared, min_count=3, max_count=3)
        self.create(shared, max_count=3)
        found = list(self.compute.servers(limit=2))
        self.assertEqual([f'web-{number}' for number in range(1, 4)],
                         sorted(one.name for one in found))
        self.assertEqual({'ACTIVE'}, {one.status for one in found})
        self.assertEqual(3, len(self.attachments(shared)))
        self.assertEqual([], list(self.compute.servers(status='SHUTOFF')))

    def test_sdk_shows_fault_of_failed_server(self):
        self.hosts['host-a'].failing.append('spawn')
        self.assertRaisesRegex(exceptions.ResourceFailure, 'ERROR', self.boot, self.volume())
        [found] = self.compute.servers()
        self.assertEqual('spawn fails as planned', found.fault['message'])

    def test_sdk_attaches_swaps_and_detaches_volume(self):
        made, one, other = self.boot(self.volume()), self.volume(), self.volume()
        attached = self.compute.create_volume_attachment(made, one, tag='data')
        self.assertEqual((one, '/dev/vdb'), (attached.volume_id, attached.device))
        shown = self.compute.get_volume_attachment(made, one)
        self.assertEqual(('data', False, self.attachment_of(one)), (
            shown.tag, shown.delete_on_termination, shown.attachment_id))
        self.assertEqual(2, len(list(self.compute.volume_attachments(made))))
        self.compute.update_volume_attachment(made, one, delete_on_termination=True)
        self.assertTrue(self.compute.get_volume_attachment(made, one).delete_on_termination)
        self.compute.update_volume_attachment(made, one, volume_id=other)
        self.assertRaises(exceptions.NotFoundException, self.compute.get_volume_attachment, made,
                          one)
        self.assertEqual([('rw', 'attached')], [
            found[2:] for found in self.attachments(other)])
        self.compute.delete_volume_attachment(made, other, ignore_missing=False)
        self.assertEqual(1, len(list(self.compute.volume_attachments(made))))
        self.assertEqual('available', self.status_of_volume(other))

    def attachment_of(self, volume_id):
        [found] = self.cloud.storage.as_admin.get(
            f'/attachments?volume_id={volume_id}').body['attachments']
        return found['id']

    def test_volume_attachment_keys_by_microversion(self):
        made = self.boot(self.volume())
        for version, keys in (('2.1', {'id', 'serverId', 'volumeId', 'device'}),
                              ('2.70', {'id', 'serverId', 'volumeId', 'device', 'tag'}),
                              ('2.89', {'attachment_id', 'bdm_uuid', 'serverId', 'volumeId',
                                        'device', 'tag', 'delete_on_termination'})):
            [found] = self.compute.get(f'/servers/{made.id}/os-volume_attachments',
                                       microversion=version).json()['volumeAttachments']
            self.assertEqual(keys, set(found))

    def test_sdk_stops_starts_reboots_server(self):
        made = self.boot(self.volume())
        self.compute.stop_server(made)
        self.assert_status('SHUTOFF', made)
        self.compute.start_server(made)
        self.assert_status('ACTIVE', made)
        self.compute.reboot_server(made, 'HARD')
        self.assert_status('ACTIVE', made)

    def test_sdk_shelves_and_unshelves_server(self):
        made = self.boot(self.volume())
        self.compute.shelve_server(made)
        self.assert_status('SHELVED', made)
        self.compute.shelve_offload_server(made)
        self.assert_status('SHELVED_OFFLOADED', made)
        self.compute.unshelve_server(made, host='host-b')
        self.assert_status('ACTIVE', made, 'host-b')

    def test_sdk_resizes_server(self):
        made = self.boot(self.volume())
        self.compute.resize_server(made, '2')
        self.assert_status('VERIFY_RESIZE', made, 'host-b')
        self.compute.confirm_server_resize(made)
        self.assert_status('ACTIVE', made, 'host-b')
        self.compute.resize_server(made, '1')
        self.compute.revert_server_resize(made)
        self.assert_status('ACTIVE', made, 'host-b')
        self.assertEqual('m1.small', self.compute.get_server(made.id).flavor.original_name)

    def test_sdk_migrates_server(self):
        made = self.boot(self.volume())
        self.compute.live_migrate_server(made)
        self.assert_status('ACTIVE', made, 'host-b')
        self.compute.migrate_server(made, host='host-a')
        self.assert_status('VERIFY_RESIZE', made, 'host-a')

    def test_sdk_evacuates_server(self):
        made = self.boot(self.volume())
        self.cloud.agents.pop('host-a')
        self.cloud.later()
        self.assertEqual({'host-a': 'down', 'host-b': 'up'}, {
            one.host: one.state for one in self.compute.services()})
        self.compute.evacuate_server(made)
        self.assert_status('ACTIVE', made, 'host-b')

    def test_sdk_lists_server_actions(self):
        made = self.boot(self.volume())
        self.hosts['host-a'].failing.append('plug')
        self.compute.create_volume_attachment(made, self.volume())
        failed, done = self.compute.server_actions(made)
        self.assertEqual([('attach_volume', 'Error'), ('create', None)], [
            (one.action, one.message) for one in (failed, done)])
        self.assertEqual([failed.request_id, done.request_id], [
            one.request_id for one in self.compute.server_actions(made, limit=1)])
        found = self.compute.get_server_action(failed.request_id, made)
        self.assertEqual([('compute_attach_volume', 'Error', 'host-a', 'plug fails as planned')], [
            (one.event, one.result, one.host, one.details) for one in found.events])

    def test_sdk_updates_name_and_metadata(self):
        made = self.boot(self.volume(), metadata={'a': '1'})
        self.assertEqual('db', self.compute.update_server(made, name='db').name)
        self.compute.set_server_metadata(made, b='2', c='3')
        # By id, because the SDK expects a server object to have read all of its keys.
        self.compute.delete_server_metadata(made.id, ['a', 'c'])
        found = self.compute.get_server(made.id)
        self.assertEqual(('db', {'b': '2'}), (found.name, found.metadata))
        self.assertEqual({'b': '2'}, self.compute.get_server_metadata(made).metadata)

    def test_sdk_maps_conflict_and_bad_request(self):
        made = self.boot(self.volume())
        self.assertRaisesRegex(exceptions.ConflictException, "Cannot 'start'",
                               self.compute.start_server, made)
        self.assertRaisesRegex(exceptions.BadRequestException, 'could not be found',
                               self.compute.create_server, name='web', flavor_id='9',
                               image_id='image', networks='none')

    def test_sdk_lists_flavors(self):
        self.assertEqual([('1', 'm1.tiny', 1, 256), ('2', 'm1.small', 1, 512),
                          ('3', 'm1.medium', 2, 1024)], [
            (one.id, one.name, one.vcpus, one.ram) for one in self.compute.flavors()])
        self.assertEqual('2', self.compute.find_flavor('m1.small').id)
        self.assertEqual('m1.small', self.compute.get_flavor('2').name)

    def test_sdk_lists_compute_services(self):
        [found] = self.compute.services(host='host-b', binary='nova-compute')
        self.assertEqual(('host-b', 'nova-compute', 'enabled', 'up', 'nova'), (
            found.host, found.binary, found.status, found.state, found.availability_zone))
        self.assertEqual([], list(self.compute.services(binary='nova-conductor')))


@exhaustive.only
class ShellTest(clients.ClientsTestCase):

    def boot(self, *arguments, **more):
        return self.shown('server', 'create', 'web', '--flavor', 'm1.tiny', '--volume',
                          self.volume(), '--wait', *arguments, **more)

    def test_shell_creates_and_deletes_server(self):
        for version in ('2.1', '2.100'):
            with self.subTest(version):
                made = self.boot(version=version)
                self.assertEqual('ACTIVE', made['status'])
                [row] = self.shown('server', 'list', '--long', version=version)
                self.assertEqual((made['id'], 'web', 'ACTIVE', 'host-a', 'm1.tiny'), tuple(
                    row[title] for title in (
                        'ID', 'Name', 'Status', 'Host',
                        'Flavor' if version == '2.100' else 'Flavor Name')))
                shown = self.shown('server', 'show', 'web', version=version)
                self.assertEqual(('ACTIVE', 'host-a', 'N/A (booted from volume)'), (
                    shown['status'], shown['OS-EXT-SRV-ATTR:host'], shown['image']))
                self.assertEqual(1, len(shown['volumes_attached']))
                self.output('server', 'delete', 'web', '--wait', version=version)
                self.assertEqual([], self.shown('server', 'list', version=version))

    def test_shell_attaches_and_detaches_volume(self):
        made, one = self.boot(), self.volume()
        added = self.shown('server', 'add', 'volume', 'web', one, '--tag', 'data')
        self.assertEqual((made['id'], one, '/dev/vdb', 'data'), tuple(
            added[title] for title in ('Server ID', 'Volume ID', 'Device', 'Tag')))
        rows = {row['Volume ID']: row for row in self.shown('server', 'volume', 'list', 'web')}
        self.assertEqual(2, len(rows))
        self.assertEqual(('/dev/vdb', 'data', False), tuple(
            rows[one][title] for title in ('Device', 'Tag', 'Delete On Termination?')))
        self.output('server', 'volume', 'set', 'web', one, '--delete-on-termination')
        self.assertEqual({one: True}, {
            row['Volume ID']: row['Delete On Termination?'] for row in self.shown(
                'server', 'volume', 'list', 'web') if row['Volume ID'] == one})
        self.output('server', 'remove', 'volume', 'web', one)
        self.assertEqual(1, len(self.shown('server', 'volume', 'list', 'web')))
        self.assertEqual('available', self.status_of_volume(one))

    def test_shell_runs_server_actions(self):
        self.boot()
        for status, words in (
                ('SHUTOFF', 'stop web'), ('ACTIVE', 'start web'),
                ('ACTIVE', 'reboot --hard --wait web'), ('SHELVED', 'shelve web'),
                ('ACTIVE', 'unshelve --wait web'),
                ('SHELVED_OFFLOADED', 'shelve --offload --wait web'),
                ('ACTIVE', 'unshelve --host host-a --wait web'),
                ('VERIFY_RESIZE', 'resize --flavor m1.small --wait web'),
                ('ACTIVE', 'resize confirm web'), ('VERIFY_RESIZE', 'migrate --wait web'),
                ('ACTIVE', 'migrate revert web'),
                ('ACTIVE', 'migrate --live-migration --wait web')):
            with self.subTest(words):
                self.output('server', *words.split())
                self.assertEqual(status, self.shown('server', 'show', 'web')['status'])

    def test_shell_lists_server_events(self):
        made, one = self.boot(), self.volume()
        self.hosts['host-a'].busy.add(one)
        self.output('server', 'add', 'volume', 'web', one)
        self.output('server', 'remove', 'volume', 'web', one)
        rows = self.shown('server', 'event', 'list', 'web', '--long')
        self.assertEqual(
            [('detach_volume', 'Error'), ('attach_volume', None), ('create', None)],
            [(row['Action'], row['Message']) for row in rows])
        self.assertEqual({made['id']}, {row['Server ID'] for row in rows})
        for version in ('2.1', self.VERSION):
            shown = self.shown('server', 'event', 'show', 'web', rows[0]['Request ID'],
                               version=version)
            [event] = shown['events']
            self.assertEqual(('detach_volume', 'Error'), (shown['action'], event['result']))
        self.assertIn(one, event['details'])

    def test_shell_sets_name_and_properties(self):
        self.boot('--property', 'a=1', '--description', 'for all')
        self.output('server', 'set', 'web', '--name', 'db', '--property', 'b=2')
        shown = self.shown('server', 'show', 'db')
        self.assertEqual(({'a': '1', 'b': '2'}, 'for all'), (
            shown['properties'], shown['description']))
        self.output('server', 'unset', 'db', '--property', 'a', '--description')
        shown = self.shown('server', 'show', 'db')
        self.assertEqual(({'b': '2'}, ''), (shown['properties'], shown['description']))

    def test_shell_lists_flavors_and_services(self):
        self.assertEqual(['m1.tiny', 'm1.small', 'm1.medium'], [
            row['Name'] for row in self.shown('flavor', 'list')])
        self.assertEqual('512', str(self.shown('flavor', 'show', 'm1.small')['ram']))
        self.assertEqual(['host-a', 'host-b'], sorted(
            row['Host'] for row in self.shown('compute', 'service', 'list')))
