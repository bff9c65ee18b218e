"""Requests that the compute API rejects without changing anything."""
from blockattach.tests.fixtures import http
from blockattach.tests.functional.servers import cloud

OTHER_PROJECT = '0' * 31 + '9'


class RefusedTestCase(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.plain, self.shared = self.volume(), self.volume(multiattach=True)

    def refused(self, status, words, method, path, body=None, version=cloud.MODES, **more):
        found, answer = self.ask(method, path, body, version=version, **more)
        self.assertEqual(status, found, answer)
        [fault] = answer.values()
        self.assertIn(words, fault['message'])

    def refused_server(self, words, version=cloud.MODES, status=400, **fields):
        before = self.asked(200, 'GET', '/servers')
        body = {'name': 'web', 'imageRef': 'image', 'flavorRef': '1', 'networks': 'none', **fields}
        self.refused(status, words, 'POST', '/servers', {'server': {
            key: value for key, value in body.items() if value is not cloud.ABSENT}},
            version=version)
        self.cloud.settle()
        self.assertEqual(before, self.asked(200, 'GET', '/servers'))
        self.assertEqual(('available', 'available'), (
            self.status_of_volume(self.plain), self.status_of_volume(self.shared)))

    def mapped(self, volume=None, **more):
        return {'uuid': volume or self.plain, 'source_type': 'volume',
                'destination_type': 'volume', 'boot_index': 0, **more}


class BadInputTest(RefusedTestCase):

    def test_create_server_with_invalid_fields_rejected(self):
        for words, fields in (
                ('flavor 99 could not be found', {'flavorRef': '99'}),
                ('networks must be none or auto', {'networks': [{'uuid': self.plain}]}),
                ("'networks' is a required property", {'networks': cloud.ABSENT}),
                ('min_count must be <= max_count', {'min_count': 3, 'max_count': 2}),
                ('at most 100 servers', {'max_count': 101}),
                ('max_count', {'max_count': 0}), ('name', {'name': ''}),
                ('Specify an image, or a volume with boot_index 0', {'imageRef': ''})):
            with self.subTest(words):
                self.refused_server(words, **fields)

    def test_create_server_with_invalid_block_devices_rejected(self):
        missing = cloud.new_id()
        for words, mapped in (
                (f'failed to get volume {missing}', [self.mapped(missing)]),
                ('a volume is specified more than once', [
                    self.mapped(), self.mapped(boot_index=1)]),
                ('only one volume can have boot_index 0', [self.mapped(),
                                                           self.mapped(self.shared)]),
                ('is in use', [
                    self.mapped(device_name='vdb'),
                    self.mapped(self.shared, boot_index=1, device_name='/dev/vdb')]),
                ('device path (../x) is invalid', [self.mapped(device_name='../x')]),
                ('only existing volumes', [self.mapped(source_type='image')]),
                ('uuid is required', [{'source_type': 'volume', 'destination_type': 'volume'}]),
                ("'x' is not one of ['ro', 'rw']", [self.mapped(attach_mode='x')]),
                ('attach_mode is only supported with', [self.mapped(
                    destination_type='local', attach_mode='ro')]),
                ('attach_modes is only supported with', [self.mapped(
                    destination_type='local', attach_modes=['ro'])]),
                ("'x' is not one of ['ro', 'rw']", [self.mapped(attach_modes=['x'])]),
                ('attach_modes', [self.mapped(attach_modes=[])]),
                ('attach_modes has 2 items for 1 servers', [self.mapped(
                    self.shared, attach_modes=['rw', 'ro'])]),
                ('mutually exclusive', [self.mapped(attach_mode='ro', attach_modes=['ro'])])):
            with self.subTest(words):
                self.refused_server(words, block_device_mapping_v2=mapped)

    def test_attach_mode_without_extension_rejected(self):
        for asked in ({'attach_mode': 'ro'}, {'attach_modes': ['ro']}):
            self.refused_server('requires the header', cloud.LATEST, block_device_mapping_v2=[
                self.mapped(**asked)])

    def test_multiattach_before_2_60_rejected(self):
        words = 'Multiattach volumes are only supported starting with'
        self.refused_server(words, 'compute 2.59',
                            block_device_mapping_v2=[self.mapped(self.shared)])
        self.refused(400, words, 'POST', f'/servers/{self.create()}/os-volume_attachments',
                     {'volumeAttachment': {'volumeId': self.shared}}, 'compute 2.59')

    def test_server_of_other_project_not_found(self):
        made = self.create()
        for method, path in (('GET', ''), ('DELETE', ''), ('GET', '/os-volume_attachments')):
            self.refused(404, made, method, f'/servers/{made}{path}', roles='member,reader',
                         project=OTHER_PROJECT)
        self.assertEqual([], self.asked(200, 'GET', '/servers', roles='member,reader',
                                        project=OTHER_PROJECT)['servers'])

    def test_noauth_request_from_other_host_rejected(self):
        for words, headers in (('web pages are served only from', {'Origin': 'http://example.org'}),
                               ('Host must be localhost', {'Host': 'example.org'})):
            with self.subTest(words):
                self.refused(403, words, 'DELETE', f'/servers/{self.create()}', headers=headers)

    def test_server_action_without_role_forbidden(self):
        made = self.create()
        for action, roles in (('os-stop', 'reader'), ('migrate', 'member,reader')):
            self.refused(403, '', 'POST', f'/servers/{made}/action', {action: None}, roles=roles)

    def test_attach_invalid_volume_rejected(self):
        made = self.create()
        path = f'/servers/{made}/os-volume_attachments'
        self.attach(made, self.plain)
        for status, words, fields in (
                (400, 'already attached', {'volumeId': self.plain}),
                (404, 'could not be found', {'volumeId': cloud.new_id()}),
                (400, "'x' is not one of", {'volumeId': self.shared, 'attach_mode': 'x'}),
                (400, 'uuid', {'volumeId': 'x'}), (400, 'required', {})):
            with self.subTest(words):
                self.refused(status, words, 'POST', path, {'volumeAttachment': fields})
        self.assertEqual({self.plain: 'rw'}, self.volumes(made))
        other = self.create()
        self.refused(400, "status must be 'available'", 'POST',
                     f'/servers/{other}/os-volume_attachments',
                     {'volumeAttachment': {'volumeId': self.plain}})

    def test_attach_multiattach_volume_to_offloaded_server_rejected(self):
        made = self.create()
        self.act(made, 'shelve')
        self.act(made, 'shelveOffload')
        self.refused(400, 'not supported for shelved-offloaded', 'POST',
                     f'/servers/{made}/os-volume_attachments',
                     {'volumeAttachment': {'volumeId': self.shared}})
        self.attach(made, self.plain)
        self.assertEqual([(made, None, 'rw', 'attached')], self.attachments(self.plain))

    def test_detach_of_root_or_unattached_volume_rejected(self):
        made = self.create(self.plain)
        path = f'/servers/{made}/os-volume_attachments'
        self.refused(400, 'root device', 'DELETE', f'{path}/{self.plain}')
        self.refused(404, 'volume_id not found', 'DELETE', f'{path}/{self.shared}')

    def test_swap_with_invalid_fields_rejected(self):
        made, small = self.create(), self.volume()
        large = self.volume(size=2)
        self.attach(made, large)
        path = f'/servers/{made}/os-volume_attachments/{large}'
        for words, fields in (('smaller', {'volumeId': small}),
                              ('Cannot change attach_mode', {'volumeId': self.volume(size=2),
                                                             'attach_mode': 'ro'}),
                              ('Cannot change attach_mode', {
                                  'volumeId': large, 'delete_on_termination': True,
                                  'attach_mode': 'ro'}),
                              ('delete_on_termination', {'volumeId': large})):
            with self.subTest(words):
                self.refused(400, words, 'PUT', path, {'volumeAttachment': fields})
        self.refused(400, 'attach_mode', 'PUT', path, {'volumeAttachment': {
            'volumeId': self.volume(size=2), 'attach_mode': 'rw'}}, cloud.LATEST)
        self.refused(400, 'delete_on_termination', 'PUT', path, {'volumeAttachment': {
            'volumeId': large, 'delete_on_termination': True}}, 'compute 2.84')
        self.assertEqual({large: 'rw'}, self.volumes(made))

    def test_swap_of_shared_volume_rejected(self):
        """A swap overwrites the new volume and needs the old one unchanged during the copy."""
        made, other = self.create(), self.create()
        used = self.volume(multiattach=True)
        self.attach(other, used)
        self.attach(made, self.plain)
        self.refused(400, 'A swap overwrites the new volume', 'PUT',
                     f'/servers/{made}/os-volume_attachments/{self.plain}',
                     {'volumeAttachment': {'volumeId': used}})
        self.attach(made, used)
        self.refused(400, 'more than one server', 'PUT',
                     f'/servers/{made}/os-volume_attachments/{used}',
                     {'volumeAttachment': {'volumeId': self.shared}})
        self.assertEqual({self.plain: 'rw', used: 'rw'}, self.volumes(made))

    def test_attach_with_device_in_use_rejected(self):
        made, root = self.create(self.plain), self.volume()
        self.attach(made, self.shared, device='/dev/sdb')
        for device in ('/dev/vdb', 'xvda'):
            self.refused(400, 'is in use', 'POST', f'/servers/{made}/os-volume_attachments',
                         {'volumeAttachment': {'volumeId': root, 'device': device}})
        shown = self.attach(made, root)['volumeAttachment']
        self.assertEqual('/dev/vdc', shown['device'])

    def test_server_action_in_wrong_state_rejected(self):
        made = self.create()
        for action, body in (('os-start', None), ('unshelve', None), ('confirmResize', None),
                             ('shelveOffload', None)):
            self.refused(409, "Cannot '", 'POST', f'/servers/{made}/action', {action: body})
        self.refused(400, 'must change flavor', 'POST', f'/servers/{made}/action',
                     {'resize': {'flavorRef': '1'}})
        self.refused(400, 'is still in use', 'POST', f'/servers/{made}/action',
                     {'evacuate': {'host': None}})
        self.refused(400, 'could not be found', 'POST', f'/servers/{made}/action',
                     {'os-migrateLive': {'host': 'nowhere', 'block_migration': 'auto'}})
        self.refused(400, 'no such action', 'POST', f'/servers/{made}/action', {'zz': None})

    def test_unsupported_microversion_rejected(self):
        for version, status in (('compute 2.105', 406), ('compute x', 400),
                                ('compute 2.1, blockattach 9.9', 406)):
            self.assertEqual(status, self.ask('GET', '/servers', version=version)[0])
        self.assertEqual(200, self.ask('GET', '/servers', version='compute latest')[0])

    def test_unknown_flavor_not_found(self):
        self.assertEqual('m1.tiny', self.asked(200, 'GET', '/flavors/1')['flavor']['name'])
        self.refused(404, 'Flavor 9', 'GET', '/flavors/9')


class OldAgentTest(cloud.ComputeTestCase):
    """Agent too old to enforce access modes, so a server could write to a read-only volume."""

    HOSTS = ('host-a',)
    OLD = ('host-a',)

    def test_attach_read_only_to_old_agent_rejected(self):
        shared = self.volume(multiattach=True)
        made = self.create()
        answer = self.attach(made, shared, 409, attach_mode='ro')
        self.assertIn('supports version 1.0, but version 1.1 is required',
                      answer['conflictingRequest']['message'])
        self.create({'uuid': shared, 'source_type': 'volume', 'destination_type': 'volume',
                     'boot_index': 0, 'attach_mode': 'ro'}, status=409)
        self.assertEqual([], self.attachments(shared))
        self.attach(made, shared, attach_mode='rw')
        self.assertEqual({shared: 'rw'}, self.volumes(made))


class SomeOldAgentsTest(cloud.ComputeTestCase):

    OLD = ('host-a',)

    def test_create_servers_places_readers_on_new_agents(self):
        shared = self.volume(multiattach=True)
        self.create({'uuid': shared, 'source_type': 'volume', 'destination_type': 'volume',
                     'boot_index': 0, 'attach_modes': ['ro', 'rw', 'ro', 'rw']}, max_count=4)
        self.assertEqual(
            [('host-a', 'rw')] * 2 + [('host-b', 'ro')] * 2,
            sorted((host, mode) for _, host, mode, _ in self.attachments(shared)))


class PersonaTest(cloud.ComputeTestCase):

    def test_show_server_hides_host_from_member(self):
        made = self.create()
        shown = self.asked(200, 'GET', f'/servers/{made}', roles='member,reader')['server']
        self.assertNotIn('OS-EXT-SRV-ATTR:host', shown)
        self.assertEqual(http.PROJECT, shown['tenant_id'])
