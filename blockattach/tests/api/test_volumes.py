"""Volumes: create, show and delete, by version and persona."""
from blockattach.storage.db.services import services
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import binaries
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

_State = attachment_lifecycle.State
_Own = volume_lifecycle.OwnStatus

BASE_KEYS = {
    'id', 'name', 'description', 'status', 'size', 'availability_zone', 'created_at',
    'updated_at', 'user_id', 'volume_type', 'snapshot_id', 'source_volid', 'consistencygroup_id',
    'metadata', 'links', 'bootable', 'encrypted', 'replication_status', 'multiattach',
    'attachments'}
SHOWN_KEYS = {'os-vol-tenant-attr:tenant_id'}
ADMIN_SHOWN_KEYS = {'os-vol-host-attr:host', 'os-vol-mig-status-attr:migstat',
                    'os-vol-mig-status-attr:name_id'}
# Microversion, keys that it adds for everybody, and keys that it adds for administrators.
ADDED = (
    ('3.0', set(), {'migration_status'}),
    ('3.12', set(), set()),
    ('3.13', {'group_id'}, set()),
    ('3.21', set(), {'provider_id'}),
    ('3.47', set(), set()),
    ('3.48', {'shared_targets', 'service_uuid'}, set()),
    ('3.61', set(), {'cluster_name'}),
    ('3.63', {'volume_type_id'}, set()),
    ('3.65', {'consumes_quota'}, set()),
    ('3.71', set(), set()),
)


class CreateTestCase(base.ApiTestCase):

    def create(self, persona=None, version='3.71', more=None, **fields):
        return (persona or self.http.as_member).post(
            '/volumes', {'volume': {'size': 1, **fields}, **(more or {})}, version=version)

    def made(self, **arguments):
        reply = self.create(**arguments)
        self.assert_status(202, reply)
        return reply.body['volume']


class CreateTest(CreateTestCase):

    def test_create_response_and_result(self):
        made = self.made(name=' a name ', description='for work', metadata={'a': 'b'})
        self.assertEqual(
            {'status': 'creating', 'name': 'a name', 'description': 'for work', 'size': 1,
             'metadata': {'a': 'b'}, 'availability_zone': 'nova', 'updated_at': None,
             'volume_type': '__DEFAULT__', 'bootable': 'false', 'multiattach': False,
             'attachments': [], 'shared_targets': True, 'service_uuid': None,
             'user_id': http.USER},
            {key: made[key] for key in (
                'status', 'name', 'description', 'size', 'metadata', 'availability_zone',
                'updated_at', 'volume_type', 'bootable', 'multiattach', 'attachments',
                'shared_targets', 'service_uuid', 'user_id')})
        shown = self.shown(made['id'])
        self.assertEqual('available', shown['status'])
        self.assertEqual(http.POOL, shown['os-vol-host-attr:host'])
        self.assertIs(False, shown['shared_targets'])
        self.assertIsNotNone(shown['service_uuid'])

    def test_create_with_null_fields_accepted(self):
        nulls = dict.fromkeys((
            'consistencygroup_id', 'snapshot_id', 'name', 'description', 'volume_type',
            'availability_zone', 'imageRef', 'source_volid', 'backup_id', 'group_id',
            'metadata', 'multiattach'))
        for version in ('3.0', '3.13', '3.47', '3.53', '3.71'):
            with self.subTest(version=version):
                self.assertEqual({}, self.made(version=version, **nulls)['metadata'])
        hints = {'OS-SCH-HNT:scheduler_hints': {'same_host': [base.ABSENT]}}
        self.made(more=hints, imageRef='', display_name='x', display_description='y')

    def test_create_with_display_name_and_description(self):
        made = self.made(display_name='n', display_description='d')
        self.assertEqual(('n', 'd'), (made['name'], made['description']))

    def test_create_sizes_validated(self):
        for size in (1, '1', 7, '07', 1000):
            with self.subTest(size=size):
                self.assertEqual(int(size), self.made(size=size)['size'])
        for size in (0, '0', -1, 'a', '', 1.5, True, [], None, 2 ** 31, '9999999999', '1 '):
            with self.subTest(size=size):
                self.assertEqual(400, self.create(size=size).status)
        self.assert_fault(400, 'Invalid volume size', self.http.as_member.post(
            '/volumes', {'volume': {}}))

    def test_create_with_type_by_name_or_id(self):
        kind = make.volume_type(self.http.database, 'fast')
        hidden = make.volume_type(self.http.database, 'hidden', is_public=False)
        for asked in ('fast', kind.id):
            made = self.made(volume_type=asked)
            self.assertEqual(('fast', kind.id), (made['volume_type'], made['volume_type_id']))
        self.assertEqual('hidden', self.made(persona=self.http.as_admin,
                                             volume_type='hidden')['volume_type'])
        for asked, sentence in (
                ('zz', 'Volume type with name zz could not be found.'),
                (base.ABSENT, f'Volume type {base.ABSENT} could not be found.'),
                ('hidden', 'Volume type with name hidden could not be found.'),
                (hidden.id, f'Volume type {hidden.id} could not be found.')):
            with self.subTest(asked=asked):
                self.assert_fault(404, sentence, self.create(volume_type=asked))

    def test_create_in_availability_zone(self):
        services.register(self.http.database, binaries.VOLUME, 'storage-2@fake', 'east', 'x')
        for zone in ('nova', 'east'):
            self.assertEqual(zone, self.made(availability_zone=zone)['availability_zone'])
        self.sql('DELETE FROM services')
        self.made(availability_zone='nova')
        self.assert_fault(400, "Availability zone 'east' is invalid.",
                          self.create(availability_zone='east'))
        self.assert_fault(400, "Availability zone 'zz' is invalid.",
                          self.create(availability_zone='zz'))

    def test_create_metadata_validated(self):
        good = {'a' * 255: 'v' * 255, 'A-Z_0:9./ ': ''}
        self.assertEqual(good, self.made(metadata=good)['metadata'])
        for bad in ({'a' * 256: 'v'}, {'a': 'v' * 256}, {'': 'v'}, {'a': 1}, {'a': None},
                    {'a$': 'v'}, [], 'a'):
            with self.subTest(bad=bad):
                self.assertEqual(400, self.create(metadata=bad).status)

    def test_create_with_too_long_name_or_description_rejected(self):
        for key in ('name', 'description'):
            with self.subTest(key=key):
                self.assert_fault(400, f'{key} has 256 characters, more than 255.',
                                  self.create(**{key: 'x' * 256}))
                self.assertEqual('x' * 255, self.made(**{key: f' {"x" * 255} '})[key])

    def test_create_from_unoffered_source_rejected(self):
        rows = (
            ('consistencygroup_id', '3.0', 404,
             f'ConsistencyGroup {base.ABSENT} could not be found.'),
            ('group_id', '3.13', 404, f'Group {base.ABSENT} could not be found.'),
            ('backup_id', '3.47', 404, f'Backup {base.ABSENT} could not be found.'),
            ('imageRef', '3.0', 400, 'The image service is not configured'),
            ('image_id', '3.0', 400, 'The image service is not configured'),
        )
        for key, version, status, sentence in rows:
            with self.subTest(key=key):
                self.assert_fault(status, sentence,
                                  self.create(version=version, **{key: base.ABSENT}))
        self.assert_fault(400, 'snapshot_id', self.create(snapshot_id='x'))
        self.assert_fault(404, 'Group x could not be found.', self.create(group_id='x'))
        self.made(version='3.12', group_id=base.ABSENT)
        self.made(version='3.46', backup_id='x')

    def test_unknown_create_keys_rejected_from_3_53(self):
        self.made(version='3.52', zz=1)
        self.assert_fault(400, 'Additional properties are not allowed',
                          self.create(version='3.53', zz=1))

    def test_malformed_create_rejected(self):
        for body, sentence in (
                ({}, "'volume' is a required property"), ({'volume': []}, 'volume'),
                ({'volume': {'size': 1}, 'zz': 1}, 'Additional properties are not allowed'),
                (b'', 'Malformed request body'), (b'[', 'Malformed request body')):
            with self.subTest(body=body):
                self.assert_fault(400, sentence, self.http.as_member.post('/volumes', body))


class MultiattachTest(CreateTestCase):

    def test_multiattach_set_by_type_only(self):
        self.multiattach_type()
        made = self.made(volume_type=make.MULTIATTACH_TYPE)
        self.assertIs(True, made['multiattach'])
        for value in (False, None, 'false'):
            with self.subTest(value=value):
                self.assertIs(False, self.made(multiattach=value)['multiattach'])
        for value in (True, 'true'):
            for version in ('3.0', '3.50', '3.71'):
                with self.subTest(value=value, version=version):
                    self.assert_fault(400, 'multiattach parameter has been removed.',
                                      self.create(version=version, multiattach=value))


class MultiattachRuleTest(CreateTestCase):

    SETTINGS = {'rules': {'volume:multiattach': 'role:admin'}}

    def test_create_multiattach_volume_needs_permission(self):
        self.multiattach_type()
        self.assert_fault(403, "Policy doesn't allow volume:multiattach to be performed.",
                          self.create(volume_type=make.MULTIATTACH_TYPE))
        self.made(persona=self.http.as_admin, volume_type=make.MULTIATTACH_TYPE)
        self.made()


class WithoutDefaultTypeTest(CreateTestCase):

    SETTINGS = {'options': {'control': {'default_volume_type': 'lost'}}}

    def test_missing_configured_default_type_is_server_error(self):
        self.assertEqual(500, self.create().status)
        self.made(volume_type='__DEFAULT__')
        self.assert_fault(404, 'lost', self.http.as_member.get('/types/default'))


class PlacingTest(CreateTestCase):
    """Placement of a volume after the create response."""

    def messages(self):
        return self.http.as_member.get('/messages').body['messages']

    def test_create_without_pool_sets_error_with_message(self):
        made = self.made(size=2000)
        self.assertEqual('creating', made['status'])
        self.assertEqual('error', self.shown(made['id'])['status'])
        message, = self.messages()
        self.assertEqual('VOLUME_VOLUME_001_003', message['event_id'])
        self.assertEqual(made['id'], message['resource_uuid'])
        self.assertIn('schedule allocate volume:Could not find any available weighted backend.',
                      message['user_message'])

    def test_create_with_type_of_no_pool_sets_error(self):
        make.volume_type(self.http.database, 'elsewhere',
                         extra_specs={'volume_backend_name': 'elsewhere'})
        made = self.made(volume_type='elsewhere')
        self.assertEqual('error', self.shown(made['id'])['status'])
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{made["id"]}'))
        self.assert_status(404, self.http.as_member.get(f'/volumes/{made["id"]}'))

    def test_create_on_full_backend_sets_error(self):
        self.http.manager.backend.fake_store.faults.plan('create', faults.Fault.FULL, 3)
        made = self.made()
        self.assertEqual('error', self.shown(made['id'])['status'])


class ShowTest(base.ApiTestCase):

    def test_volume_keys_by_version_and_persona(self):
        volume_id = self.volume()
        everybody, administrators = set(BASE_KEYS), set()
        for version, added, admin_added in ADDED:
            everybody |= added
            administrators |= admin_added
            for persona, keys, shown in (
                    (self.http.as_reader, everybody, SHOWN_KEYS),
                    (self.http.as_member, everybody, SHOWN_KEYS),
                    (self.http.as_admin, everybody | administrators,
                     SHOWN_KEYS | ADMIN_SHOWN_KEYS)):
                with self.subTest(version=version):
                    one = persona.get(f'/volumes/{volume_id}', version=version)
                    self.assertEqual(keys | shown, one.body['volume'].keys())
                    of_list = persona.get('/volumes/detail', version=version)
                    self.assertEqual(one.body['volume'], of_list.body['volumes'][0])
            made = self.http.as_admin.post('/volumes', {'volume': {'size': 1}}, version=version)
            self.assertEqual(everybody | administrators, made.body['volume'].keys())
            self.http.as_admin.delete(f'/volumes/{made.body["volume"]["id"]}')

    def test_volume_links(self):
        volume_id = self.volume()
        of_project = f'/{http.PROJECT}/volumes/{volume_id}'
        self.assertEqual(
            [{'rel': 'self', 'href': f'http://localhost/v3{of_project}'},
             {'rel': 'bookmark', 'href': f'http://localhost{of_project}'}],
            self.shown(volume_id)['links'])

    def test_volume_attachments_by_persona(self):
        volume_id = self.volume(multiattach=True)
        server = base.new_id()
        connector = make.connector(mountpoint='/dev/vdb')
        attachment_id = self.attached(volume_id, server, connector)
        self.connect(self.reserve(volume_id, base.new_id()))
        self.reserve(volume_id, base.new_id())
        service = http.Persona(self.http, 'member,reader,service')
        for persona, host in ((self.http.as_member, None), (self.http.as_service, None),
                              (service, connector['host']),
                              (self.http.as_admin, connector['host'])):
            with self.subTest(host=host):
                found, = persona.get(f'/volumes/{volume_id}').body['volume']['attachments']
                self.assertRegex(found.pop('attached_at'), r'^2\d{3}-')
                self.assertEqual(
                    {'id': volume_id, 'attachment_id': attachment_id, 'volume_id': volume_id,
                     'server_id': server, 'host_name': host, 'device': '/dev/vdb'}, found)

    def test_absent_or_invisible_volume_not_found(self):
        volume_id = self.volume()
        for persona, asked in ((self.http.as_member, base.ABSENT), (self.http.as_member, 'zz'),
                               (self.http.as_stranger, volume_id),
                               (self.http.as_nobody, volume_id)):
            with self.subTest(asked=asked):
                self.assert_fault(404, f'Volume {asked} could not be found.',
                                  persona.get(f'/volumes/{asked}'))


class DeleteTest(base.ApiTestCase):

    def test_delete_volume_is_asynchronous(self):
        volume_id = self.volume()
        self.http.hold = True
        reply = self.http.as_member.delete(f'/volumes/{volume_id}?cascade=true')
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)
        self.assertEqual('deleting', self.shown(volume_id)['status'])
        self.http.work.settle()
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.http.manager.backend.fake_store.sizes())

    def test_delete_rejected_by_attachment_or_status(self):
        for state in (_State.RESERVED, _State.CONNECTED, _State.ATTACHED, _State.ERROR_ATTACHING):
            with self.subTest(state=state):
                reserved = make.attachment(self.http.database, make.volume(
                    self.http.database, on_pool=http.POOL), state)
                self.assert_fault(400, 'Invalid volume: Volume status must be available or',
                                  self.http.as_member.delete(f'/volumes/{reserved.volume_id}'))
        for own_status in (_Own.CREATING, _Own.DELETING, _Own.DOWNLOADING):
            with self.subTest(own_status=own_status):
                volume = make.volume(self.http.database, on_pool=http.POOL)
                self.sql(f"UPDATE volumes SET own_status = '{own_status}', "
                         f"status = '{own_status}' WHERE id = '{volume.id}'")
                self.assert_fault(400, 'Invalid volume: Volume status must be available or',
                                  self.http.as_member.delete(f'/volumes/{volume.id}'))

    def test_delete_of_absent_or_foreign_volume_not_found(self):
        volume_id = self.volume()
        for persona, asked in ((self.http.as_member, base.ABSENT),
                               (self.http.as_stranger, volume_id)):
            with self.subTest(asked=asked):
                self.assert_fault(404, asked, persona.delete(f'/volumes/{asked}'))

    def test_force_delete_needs_admin_from_3_23(self):
        path = f'/volumes/{self.volume()}?force=true'
        for version in ('3.23', '3.71'):
            self.assert_fault(403, 'volume:force_delete',
                              self.http.as_member.delete(path, version=version))
        self.assert_fault(400, 'force', self.http.as_member.delete(f'{path}x'))
        self.assert_status(202, self.http.as_admin.delete(path))
        self.assert_status(202, self.http.as_member.delete(
            f'/volumes/{self.volume()}?force=true', version='3.22'))

    def test_force_delete_of_stuck_volume_but_not_attached(self):
        stuck = make.volume(self.http.database, on_pool=http.POOL,
                            own_status=_Own.CREATING)
        self.assert_status(202, self.http.as_admin.delete(f'/volumes/{stuck.id}?force=true'))
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{stuck.id}'))
        reserved = make.attachment(self.http.database, make.volume(
            self.http.database, on_pool=http.POOL), _State.ATTACHED)
        self.assert_fault(400, 'Invalid volume: Volume status must be available or',
                          self.http.as_admin.delete(f'/volumes/{reserved.volume_id}?force=true'))

    def test_refused_delete_sets_error_deleting(self):
        volume_id = self.volume()
        self.http.manager.backend.fake_store.faults.plan('delete', faults.Fault.REFUSED)
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assertEqual('error_deleting', self.shown(volume_id)['status'])
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assert_status(404, self.http.as_member.get(f'/volumes/{volume_id}'))
