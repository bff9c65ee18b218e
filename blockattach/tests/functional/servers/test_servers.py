"""Servers and their volumes in the compute API."""
from blockattach.platform import context
from blockattach.storage.drivers import faults
from blockattach.tests.functional.servers import cloud


class CreateTest(cloud.ComputeTestCase):

    def test_create_server_from_volume_attaches_root(self):
        root = self.volume()
        made = self.create(root)
        shown = self.server(made)
        self.assertEqual(('ACTIVE', 'host-a'), (
            shown['status'], shown['OS-EXT-SRV-ATTR:host']))
        self.assertEqual({root: 'rw'}, self.volumes(made))
        self.assertEqual([(made, 'host-a', 'rw', 'attached')], self.attachments(root))
        self.assertEqual({root: 'rw'}, self.hosts['host-a'].disks(made))
        self.assertEqual('in-use', self.status_of_volume(root))

    def test_create_ten_servers_on_multiattach_volume(self):
        shared = self.volume(multiattach=True)
        self.create(shared, max_count=10)
        servers = self.asked(200, 'GET', '/servers/detail')['servers']
        self.assertEqual([f'web-{number}' for number in range(1, 11)],
                         sorted((one['name'] for one in servers),
                                key=lambda name: int(name.partition('-')[2])))
        self.assertEqual({'ACTIVE'}, {one['status'] for one in servers})
        self.assertEqual(10, len(self.attachments(shared)))
        self.assertEqual({'host-a': 5, 'host-b': 5}, {
            name: len(host.servers()) for name, host in self.hosts.items()})

    def test_create_of_several_with_attach_modes(self):
        shared, root = self.volume(multiattach=True), self.volume(multiattach=True)
        made = {'source_type': 'volume', 'destination_type': 'volume'}
        self.create({**made, 'uuid': root, 'boot_index': 0, 'attach_mode': 'ro'},
                    {**made, 'uuid': shared, 'boot_index': -1,
                     'attach_modes': ['rw', 'ro', 'ro']}, max_count=3)
        servers = sorted(self.asked(200, 'GET', '/servers')['servers'],
                         key=lambda one: one['name'])
        self.assertEqual(
            [{root: 'ro', shared: 'rw'}, *[{root: 'ro', shared: 'ro'}] * 2],
            [self.volumes(one['id']) for one in servers])
        self.assertEqual(['ro', 'ro', 'rw'], sorted(one[2] for one in self.attachments(shared)))

    def test_create_of_several_on_plain_volume_rejected(self):
        plain = self.volume()
        self.assertIn('not multiattach', self.create(plain, max_count=2, status=400)[
            'badRequest']['message'])
        self.assertEqual([], self.asked(200, 'GET', '/servers')['servers'])
        self.assertEqual('available', self.status_of_volume(plain))

    def test_create_of_several_without_extension_rejected(self):
        shared = self.volume(multiattach=True)
        server = {'name': 'web', 'imageRef': '', 'flavorRef': '1', 'networks': 'none',
                  'block_device_mapping_v2': [{
                      'uuid': shared, 'source_type': 'volume', 'destination_type': 'volume',
                      'boot_index': 0}]}
        for version in ('2.60', '2.100', '2.104'):
            for count in ({'max_count': 2}, {'min_count': 2}):
                with self.subTest(version, **count):
                    answer = self.asked(400, 'POST', '/servers', {'server': {**server, **count}},
                                        version=f'compute {version}')
                    self.assertIn('Cannot attach one or more volumes to multiple instances',
                                  answer['badRequest']['message'])
        self.assertEqual(([], 'available'), (self.asked(200, 'GET', '/servers')['servers'],
                                             self.status_of_volume(shared)))
        self.asked(202, 'POST', '/servers', {'server': {**server, 'max_count': 1}})

    def test_create_of_several_keeps_servers_beside_failed_spawn(self):
        shared = self.volume(multiattach=True)
        self.hosts['host-a'].failing.append('spawn')
        self.create(shared, max_count=4)
        servers = self.asked(200, 'GET', '/servers/detail')['servers']
        self.assertEqual(['ACTIVE', 'ACTIVE', 'ACTIVE', 'ERROR'],
                         sorted(one['status'] for one in servers))
        [failed] = [one for one in servers if one['status'] == 'ERROR']
        self.assertEqual('spawn fails as planned', failed['fault']['message'])
        self.assertNotIn(failed['id'], [one[0] for one in self.attachments(shared)])
        self.assertEqual(3, len(self.attachments(shared)))

    def test_create_of_several_keeps_servers_beside_refused_grant(self):
        shared = self.volume(multiattach=True)
        self.cloud.storage.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.create(shared, max_count=4)
        servers = self.asked(200, 'GET', '/servers/detail')['servers']
        self.assertEqual(['ACTIVE', 'ACTIVE', 'ACTIVE', 'ERROR'],
                         sorted(one['status'] for one in servers))
        self.assertEqual(sorted(one['id'] for one in servers if one['status'] == 'ACTIVE'),
                         [one[0] for one in self.attachments(shared)])

    def test_create_server_with_read_only_root(self):
        shared = self.volume(multiattach=True)
        made = self.create({'uuid': shared, 'boot_index': 0, 'attach_mode': 'ro',
                            'source_type': 'volume', 'destination_type': 'volume'})
        self.assertEqual({shared: 'ro'}, self.hosts['host-a'].disks(made))
        self.assertEqual([(made, 'host-a', 'ro', 'attached')], self.attachments(shared))


class VolumesTest(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.made = self.create()

    def test_attach_and_detach_volume(self):
        one = self.volume()
        shown = self.attach(self.made, one)['volumeAttachment']
        self.assertEqual(('/dev/vda', one, 'rw'), (
            shown['device'], shown['volumeId'], shown['attach_mode']))
        self.assertEqual([(self.made, 'host-a', 'rw', 'attached')], self.attachments(one))
        self.detach(self.made, one)
        self.assertEqual({}, self.volumes(self.made))
        self.assertEqual([], self.attachments(one))
        self.assertEqual({}, self.hosts['host-a'].disks(self.made))

    def test_concurrent_attachments_get_different_devices(self):
        """The device names are assigned before any of the attachments has finished."""
        volumes = [self.volume() for _ in range(3)]
        for one in volumes:
            self.attach(self.made, one, settle=False)
        self.cloud.settle()
        self.assertEqual(dict.fromkeys(volumes, 'rw'), self.volumes(self.made))
        shown = self.asked(200, 'GET', f'/servers/{self.made}/os-volume_attachments/{volumes[2]}',
                           version=cloud.MODES)['volumeAttachment']
        self.assertEqual(('/dev/vdc', 'rw'), (shown['device'], shown['attach_mode']))

    def test_attach_that_fails_on_host_leaves_no_attachment(self):
        one = self.volume()
        self.hosts['host-a'].failing.append('plug')
        self.attach(self.made, one)
        self.assertEqual({}, self.volumes(self.made))
        self.assertEqual([], self.attachments(one))
        self.assertEqual('available', self.status_of_volume(one))

    def test_attach_volume_reserved_for_other_server_rejected(self):
        """Only Block Storage can reject it, because the status of the volume is available."""
        one = self.volume()
        reserved = self.cloud.storage.as_member.post('/attachments', {'attachment': {
            'volume_uuid': one, 'instance_uuid': cloud.new_id()}})
        self.assertEqual(200, reserved.status)
        answer = self.attach(self.made, one, 400)
        self.assertIn(one, answer['badRequest']['message'])
        self.assertEqual({}, self.volumes(self.made))
        self.assertEqual(1, len(self.attachments(one)))

    def test_attach_refused_by_backend_leaves_no_attachment(self):
        one = self.volume()
        self.cloud.storage.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.attach(self.made, one)
        self.assertEqual({}, self.volumes(self.made))
        self.assertEqual([], self.attachments(one))
        self.assertEqual('available', self.status_of_volume(one))

    def test_detach_refused_by_guest_keeps_volume_in_use(self):
        one = self.volume()
        self.attach(self.made, one)
        self.hosts['host-a'].busy.add(one)
        self.detach(self.made, one)
        self.assertEqual({one: 'rw'}, self.volumes(self.made))
        self.assertEqual('in-use', self.status_of_volume(one))
        self.hosts['host-a'].busy.clear()
        self.detach(self.made, one)
        self.assertEqual({}, self.volumes(self.made))

    def test_swap_volume_keeps_attach_mode(self):
        old, new = self.volume(multiattach=True), self.volume(multiattach=True)
        self.attach(self.made, old, attach_mode='ro')
        self.asked(202, 'PUT', f'/servers/{self.made}/os-volume_attachments/{old}', {
            'volumeAttachment': {'volumeId': new}})
        self.cloud.settle()
        self.assertEqual({new: 'ro'}, self.volumes(self.made))
        self.assertEqual([], self.attachments(old))
        self.assertEqual([(self.made, 'host-a', 'ro', 'attached')], self.attachments(new))
        self.assertEqual({new: 'ro'}, self.hosts['host-a'].disks(self.made))

    def test_delete_server_honors_delete_on_termination(self):
        one, gone = self.volume(), self.volume()
        self.attach(self.made, one)
        self.attach(self.made, gone, delete_on_termination=True)
        self.asked(204, 'DELETE', f'/servers/{self.made}')
        self.cloud.settle()
        self.cloud.storage.work.settle()
        self.asked(404, 'GET', f'/servers/{self.made}')
        self.assertEqual([], self.attachments(one))
        self.assertEqual(404, self.cloud.storage.as_admin.get(f'/volumes/{gone}').status)
        self.assertEqual({}, self.hosts['host-a'].servers())


class MovesTest(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.shared = self.volume(multiattach=True)
        self.made = self.create({'uuid': self.shared, 'boot_index': 0, 'attach_mode': 'ro',
                                 'source_type': 'volume', 'destination_type': 'volume'})

    def assert_on(self, host, status='ACTIVE', attached='attached'):
        shown = self.server(self.made)
        self.assertEqual((status, host, None), (
            shown['status'], shown['OS-EXT-SRV-ATTR:host'], shown['OS-EXT-STS:task_state']))
        self.assertEqual([(self.made, host, 'ro', attached)], self.attachments(self.shared))
        self.assertEqual([host] if host else [], [
            name for name, one in self.hosts.items() if self.made in one.servers()])
        self.assertEqual({self.shared: 'ro'}, self.volumes(self.made))

    def test_live_migration_moves_attachment(self):
        self.act(self.made, 'os-migrateLive', {'host': None, 'block_migration': 'auto'})
        self.assert_on('host-b')

    def test_resize_and_confirm_moves_attachment(self):
        self.act(self.made, 'resize', {'flavorRef': '2'})
        self.assert_on('host-b', 'VERIFY_RESIZE')
        self.act(self.made, 'confirmResize', status=204)
        self.assert_on('host-b')

    def test_resize_and_revert_keeps_host(self):
        self.act(self.made, 'resize', {'flavorRef': '2'})
        self.act(self.made, 'revertResize')
        self.assert_on('host-a')
        self.assertEqual('m1.tiny', self.server(self.made)['flavor']['original_name'])

    def stop_for_good(self):
        """Stop the server, and make each host fail to spawn one."""
        self.act(self.made, 'os-stop')
        for host in self.hosts.values():
            host.spawn = None

    def test_resize_of_stopped_server_keeps_it_stopped(self):
        """No host spawns a running guest in between."""
        self.stop_for_good()
        self.act(self.made, 'resize', {'flavorRef': '2'})
        self.assert_on('host-b', 'VERIFY_RESIZE')
        self.assertEqual('stopped', self.hosts['host-b'].servers()[self.made])
        self.act(self.made, 'revertResize')
        self.assert_on('host-a', 'SHUTOFF')
        self.assertEqual('stopped', self.hosts['host-a'].servers()[self.made])
        self.act(self.made, 'migrate')
        self.act(self.made, 'confirmResize', status=204)
        self.assert_on('host-b', 'SHUTOFF')

    def test_cold_migration_moves_attachment(self):
        self.act(self.made, 'migrate')
        self.assert_on('host-b', 'VERIFY_RESIZE')

    def test_shelve_and_unshelve_keeps_volume(self):
        self.act(self.made, 'shelve')
        self.assert_on('host-a', 'SHELVED')
        self.act(self.made, 'shelveOffload')
        self.assert_on(None, 'SHELVED_OFFLOADED')
        self.act(self.made, 'unshelve', {'host': 'host-b'})
        self.assert_on('host-b')

    def test_rebuild_keeps_volume(self):
        self.act(self.made, 'rebuild', {'imageRef': ''})
        self.assert_on('host-a')

    def test_rebuild_and_evacuate_stopped_server_keep_it_stopped(self):
        """Nova does not start such a server either."""
        self.stop_for_good()
        self.act(self.made, 'rebuild', {'imageRef': ''})
        self.assert_on('host-a', 'SHUTOFF')
        dead = self.cloud.agents.pop('host-a')
        dead.server.stop()
        self.cloud.later()
        self.act(self.made, 'evacuate', {'host': None}, 200)
        self.hosts['host-a'].destroy(self.made)
        self.assert_on('host-b', 'SHUTOFF')

    def test_stop_start_reboot_keep_volume(self):
        for action, status in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE'),
                               ('reboot', 'ACTIVE')):
            self.act(self.made, action, {'type': 'HARD'} if action == 'reboot' else None)
            self.assert_on('host-a', status)

    def test_migrate_and_rebuild_stop_running_guest_first(self):
        for action, body in (('migrate', None), ('rebuild', {'imageRef': ''})):
            with self.subTest(action):
                self.cloud.cutting.begin()
                self.act(self.made, action, body)
                asked = [one for one in self.cloud.cutting.asked if ' on host-' in one]
                host = asked[0].rpartition(' ')[2]
                self.assertEqual([f'stop on {host}', f'destroy on {host}'], asked[:2])
                if action == 'migrate':
                    self.act(self.made, 'confirmResize', status=204)

    def test_late_agent_report_ignored(self):
        """The report is older than the last action on the server."""
        self.cloud.conductor.report(context.admin_context(), 'host-a', 'fake', '1.2',
                                    {self.made: 'stopped'})
        self.cloud.settle()
        self.assert_on('host-a')

    def test_guest_stopped_on_host_shown_as_shutoff(self):
        self.hosts['host-a'].stop(self.made)
        self.cloud.later()
        self.assert_on('host-a', 'SHUTOFF')

    def test_failed_migration_and_resize_keep_server_on_source(self):
        for action, body, failing in (
                ('os-migrateLive', {'host': None, 'block_migration': 'auto'},
                 [('host-b', 'receive'), ('host-a', 'send')]),
                ('resize', {'flavorRef': '2'}, [('host-a', 'destroy'), ('host-b', 'spawn')])):
            for host, method in failing:
                with self.subTest(action, method=method):
                    self.hosts[host].failing.append(method)
                    self.act(self.made, action, body)
                    self.assertEqual([], self.hosts[host].failing)
                    self.assert_on('host-a')
                    self.assertEqual('m1.tiny', self.server(self.made)['flavor'][
                        'original_name'])


class NotificationsTest(cloud.ComputeTestCase):

    def test_attach_notification_has_attach_mode(self):
        made = self.create()
        shared = self.volume(multiattach=True)
        self.attach(made, shared, attach_mode='ro')
        self.assertEqual(
            ['instance.create.start', 'instance.create.end', 'instance.volume_attach.start',
             'instance.volume_attach.end'], [event for event, _ in self.cloud.notified.events])
        payload = self.cloud.notified.events[-1][1]
        self.assertEqual((made, 'host-a', 'active', None), tuple(
            payload[key] for key in ('uuid', 'host', 'state', 'fault')))
        self.assertEqual([(shared, '/dev/vda', 'ro')], [
            (one['volume_id'], one['device_name'], one['attach_mode'])
            for one in payload['block_devices']])
        self.assertEqual([('ServerActPayload', '1.0'), ('BlockDevicePayload', '1.0')], [
            tuple(one[f'blockattach_object.{part}'] for part in ('name', 'version'))
            for one in (payload, *payload['block_devices'])])
        self.assertNotIn('auth_password', repr(self.cloud.notified.events))

    def test_attach_error_notification_has_fault(self):
        made = self.create()
        self.hosts['host-a'].failing.append('plug')
        self.attach(made, self.volume())
        event, payload = self.cloud.notified.events[-1]
        self.assertEqual(('instance.volume_attach.error', 'plug fails as planned'),
                         (event, payload['fault']))


class DeleteTest(cloud.ComputeTestCase):

    def test_delete_server_waits_for_running_attach(self):
        """Otherwise the attachment that the attach creates would be left over."""
        root, other = self.volume(), self.volume()
        made = self.create(root)
        self.attach(made, other, settle=False)
        for _ in range(2):
            self.asked(204, 'DELETE', f'/servers/{made}')
        self.assertEqual('deleting', self.server(made)['OS-EXT-STS:task_state'])
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual(([], []), (self.attachments(root), self.attachments(other)))
        self.assertEqual({}, self.hosts['host-a'].servers())

    def test_delete_server_while_building(self):
        root = self.volume()
        made = self.create(root, settle=False)
        self.asked(204, 'DELETE', f'/servers/{made}')
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual([], self.attachments(root))
