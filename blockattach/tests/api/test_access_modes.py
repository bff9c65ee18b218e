"""Access modes: the read-only flag of a volume, and types whose volumes have one writer."""
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make


class ModesTestCase(actions.ActionsTestCase):

    def create(self, volume_id, instance_uuid=base.SERVER, mode=None, connector=None):
        wish = {'volume_uuid': volume_id, 'instance_uuid': instance_uuid, 'connector': connector}
        if mode is not None:
            wish['mode'] = mode
        return self.http.as_member.post('/attachments', {'attachment': wish})

    def mode_of(self, attachment_id):
        return self.http.as_member.get(
            f'/attachments/{attachment_id}').body['attachment']['attach_mode']

    def assert_mode(self, mode, volume_id, attachment_id, connector):
        """Check the mode that the attachment shows and that the target enforces."""
        shown = self.http.as_member.get(f'/attachments/{attachment_id}').body['attachment']
        self.assertEqual((mode, mode),
                         (shown['attach_mode'], shown['connection_info']['access_mode']))
        self.assertEqual(mode, self.grants(volume_id)[connector['initiator']])


class ReadonlyTest(ModesTestCase):

    def flag(self, volume_id, value, persona=None):
        return self.act(volume_id, 'os-update_readonly_flag', {'readonly': value}, persona)

    def test_readonly_flag_shown_in_metadata(self):
        volume_id = self.volume(metadata={'a': 'b'})
        self.assertEqual({'a': 'b'}, self.shown(volume_id)['metadata'])
        for value, shown in ((True, 'True'), (False, 'False'), ('on', 'True'), ('0', 'False'),
                             ('y', 'True'), ('NO', 'False'), ('1', 'True')):
            with self.subTest(value=value):
                self.assert_status(202, self.flag(volume_id, value))
                self.assertEqual({'a': 'b', 'readonly': shown},
                                 self.shown(volume_id)['metadata'])

    def test_malformed_readonly_flag_rejected(self):
        volume_id = self.volume()
        for value in (None, 'maybe', 5, [], {}):
            with self.subTest(value=value):
                self.assert_status(400, self.flag(volume_id, value))
        for value in (None, {}, True, {'readonly': True, 'a': 'b'}):
            with self.subTest(value=value):
                self.assert_status(400, self.act(volume_id, 'os-update_readonly_flag', value))

    def test_readonly_flag_of_reserved_volume_rejected(self):
        volume_id = self.volume()
        self.reserve(volume_id)
        self.assert_fault(400, 'status must be available to update readonly flag',
                          self.flag(volume_id, True))
        self.assertEqual({}, self.shown(volume_id)['metadata'])

    def test_attachment_of_readonly_volume_always_ro(self):
        volume_id = self.volume(multiattach=True)
        self.flag(volume_id, True)
        for more, words in (({}, {}), ({'mode': 'rw'}, {}), ({'mode': 'ro'}, {}),
                            ({}, {'mode': 'rw'})):
            with self.subTest(more=more, words=words):
                connector = make.connector(**words)
                attachment_id = self.attached(volume_id, base.new_id(), connector, **more)
                self.assert_mode('ro', volume_id, attachment_id, connector)

    def test_create_with_connector_of_readonly_volume_is_ro(self):
        volume_id = self.volume()
        self.flag(volume_id, True)
        connector = make.connector()
        made = self.create(volume_id, mode='rw', connector=connector).body['attachment']
        self.assert_mode('ro', volume_id, made['id'], connector)

    def test_legacy_actions_on_readonly_volume_are_ro(self):
        volume_id = self.volume()
        self.flag(volume_id, True)
        connector = make.connector()
        self.assertEqual('ro', self.initialize(volume_id, connector)['data']['access_mode'])
        self.assertEqual({connector['initiator']: 'ro'}, self.grants(volume_id))
        details = {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb'}
        for mode in ({}, {'mode': 'rw'}):
            self.assert_fault(400, 'Invalid attaching mode',
                              self.act(volume_id, 'os-attach', {**details, **mode}))
        self.assertEqual('attaching', self.status(volume_id))
        self.attach(volume_id, mode='ro')
        self.assertEqual({connector['initiator']: 'ro'}, self.grants(volume_id))

    def test_cleared_readonly_flag_allows_rw_attachment(self):
        """Cinder takes the string False for true."""
        volume_id = self.volume()
        self.flag(volume_id, True)
        self.flag(volume_id, False)
        connector = make.connector()
        attachment_id = self.attached(volume_id, connector=connector, mode='rw')
        self.assert_mode('rw', volume_id, attachment_id, connector)

    def test_os_attach_sets_readonly_metadata_to_false(self):
        volume_id = self.volume()
        self.attach(volume_id)
        self.done(volume_id, 'os-detach')
        self.assertEqual('False', self.shown(volume_id)['metadata']['readonly'])
        connector = make.connector()
        attachment_id = self.attached(volume_id, connector=connector)
        self.assert_mode('rw', volume_id, attachment_id, connector)


class AttachModeTest(ModesTestCase):
    """Attach mode of os-attach, which is the last request and sets the mode at the target."""

    def test_os_attach_ro_enforced_at_target(self):
        volume_id = self.volume()
        connector = make.connector()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id, connector)
        self.attach(volume_id, mode='ro')
        attachment, = self.listed()
        self.assert_mode('ro', volume_id, attachment['id'], connector)


class OneWriterTest(ModesTestCase):

    def setUp(self):
        super().setUp()
        make.volume_type(self.http.database, 'one-writer', multiattach=True,
                         extra_specs={'mode': 'RO'})
        self.volume_id = self.volume(volume_type='one-writer')

    def join(self, instance_uuid, **more):
        """Attach the volume to a server and return the attachment id and the connector."""
        connector = make.connector()
        return self.attached(self.volume_id, instance_uuid, connector, **more), connector

    def test_single_writer_type_first_attachment_rw_others_ro(self):
        self.assertEqual('available', self.status(self.volume_id))
        modes = ['rw', 'ro', 'ro']
        joined = [self.join(base.new_id()) for _ in modes]
        for mode, (attachment_id, connector) in zip(modes, joined, strict=True):
            self.assert_mode(mode, self.volume_id, attachment_id, connector)

    def test_single_writer_mode_assigned_at_reserve(self):
        ids = [self.reserve(self.volume_id, base.new_id()) for _ in range(2)]
        self.assertEqual(['rw', 'ro'], [self.mode_of(one) for one in ids])
        connectors = [make.connector(mode='rw') for _ in ids]
        for attachment_id, connector in reversed(list(zip(ids, connectors, strict=True))):
            self.connect(attachment_id, connector)
        for mode, one, connector in zip(('rw', 'ro'), ids, connectors, strict=True):
            self.assert_mode(mode, self.volume_id, one, connector)

    def test_second_rw_attachment_rejected(self):
        self.join(base.new_id())
        before = self.rows(self.volume_id)
        for connector in (None, make.connector()):
            self.assert_fault(400, 'Attach the volume with mode ro', self.create(
                self.volume_id, base.new_id(), 'rw', connector))
        self.assertEqual(before, self.rows(self.volume_id))

    def test_ro_attachment_leaves_writer_slot_free(self):
        reader, _ = self.join(base.new_id(), mode='ro')
        writer, _ = self.join(base.new_id(), mode='rw')
        self.assertEqual(['ro', 'rw'], [self.mode_of(reader), self.mode_of(writer)])

    def test_second_rw_attachment_of_same_server_accepted(self):
        self.join(base.SERVER)
        for mode in (None, 'rw'):
            made = self.create(self.volume_id, base.SERVER, mode, make.connector())
            self.assert_status(200, made)
            self.assertEqual('rw', made.body['attachment']['attach_mode'])

    def test_reader_stays_ro_after_writer_detached(self):
        writer, _ = self.join(base.new_id())
        reader, connector = self.join(base.new_id())
        self.http.as_member.delete(f'/attachments/{writer}')
        self.assert_mode('ro', self.volume_id, reader, connector)
        self.connect(reader, connector)
        self.assert_mode('ro', self.volume_id, reader, connector)
        following, _ = self.join(base.new_id())
        self.assertEqual('rw', self.mode_of(following))

    def test_legacy_actions_obey_single_writer(self):
        _, writing = self.join(base.new_id())
        old = make.connector()
        self.done(self.volume_id, 'os-reserve')
        info = self.initialize(self.volume_id, old)
        self.assertEqual('ro', info['data']['access_mode'])
        wanted = {writing['initiator']: 'rw', old['initiator']: 'ro'}
        self.assertEqual(wanted, self.grants(self.volume_id))
        details = {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb', 'mode': 'rw'}
        self.assert_status(400, self.act(self.volume_id, 'os-attach', details))
        self.attach(self.volume_id, mode='ro')
        self.assertEqual(wanted, self.grants(self.volume_id))
        self.assert_status(400, self.act(
            self.volume_id, 'os-attach', {**details, 'instance_uuid': base.OTHER_SERVER}))

    def test_multi_writer_type_attachments_rw(self):
        make.volume_type(self.http.database, 'all-write', multiattach=True,
                         extra_specs={'mode': 'RW'})
        self.volume_id = self.volume(volume_type='all-write')
        for _ in range(2):
            attachment_id, connector = self.join(base.new_id())
            self.assert_mode('rw', self.volume_id, attachment_id, connector)


class TypeTest(ModesTestCase):
    """Extra spec `mode` of a type, which is RO or RW."""

    def setUp(self):
        super().setUp()
        self.kind = make.volume_type(self.http.database)

    def write(self, value):
        """Send each request that writes an extra spec, and yield its response."""
        admin = self.http.as_admin
        path = f'/types/{self.kind.id}/extra_specs'
        yield admin.post('/types', {'volume_type': {
            'name': base.new_id(), 'extra_specs': {'a': 'b', 'mode': value}}})
        yield admin.post(path, {'extra_specs': {'a': 'b', 'mode': value}})
        yield admin.put(f'{path}/mode', {'mode': value})

    def specs(self):
        return self.http.as_admin.get(f'/types/{self.kind.id}/extra_specs').body['extra_specs']

    def test_invalid_type_mode_rejected(self):
        for value in ('ro', 'rw', 'WO', '', '<is> True', 'RO '):
            with self.subTest(value=value):
                for reply in self.write(value):
                    self.assert_fault(400, 'mode', reply)
        self.assertEqual({}, self.specs())

    def test_valid_type_mode_stored(self):
        for value in ('RO', 'RW'):
            with self.subTest(value=value):
                for reply in self.write(value):
                    self.assert_status(200, reply)
                self.assertEqual({'a': 'b', 'mode': value}, self.specs())
