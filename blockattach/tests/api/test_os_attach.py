"""Effects of os-attach on the metadata of the volume and on its attachment."""
from blockattach.storage.drivers import faults
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

FORCED = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.0'}


class MetadataTest(actions.ActionsTestCase):
    """Metadata key attached_mode, which os-attach sets and the end of the attachment removes."""

    def metadata(self, volume_id):
        return self.shown(volume_id)['metadata']

    def each(self, end, **details):
        """Attach a volume with and without a connector, and detach it by calling ``end``."""
        for connected in (False, True):
            with self.subTest(connected=connected):
                volume_id = self.volume()
                connector = make.connector()
                if connected:
                    self.done(volume_id, 'os-reserve')
                    self.initialize(volume_id, connector)
                self.attach(volume_id, **details)
                self.assertEqual({'readonly': 'False', 'attached_mode': 'rw'},
                                 self.metadata(volume_id))
                attachment, = self.listed()
                end(volume_id, attachment['id'], connector)
                self.assertEqual([], self.listed())
                self.assertEqual({'readonly': 'False'}, self.metadata(volume_id))

    def test_delete_removes_attached_mode(self):
        self.each(lambda volume_id, attachment_id, connector: self.assert_status(
            200, self.http.as_member.delete(f'/attachments/{attachment_id}')))

    def test_force_delete_removes_attached_mode(self):
        self.each(lambda volume_id, attachment_id, connector: self.assert_status(
            200, self.http.as_admin.delete(f'/attachments/{attachment_id}?force=true', None,
                                           **FORCED)))

    def test_os_detach_removes_attached_mode(self):
        for value in (None, {}, 'named'):
            self.each(lambda volume_id, attachment_id, connector, value=value: self.done(
                volume_id, 'os-detach',
                {'attachment_id': attachment_id} if value == 'named' else value))

    def test_os_force_detach_removes_attached_mode(self):
        self.each(lambda volume_id, attachment_id, connector: self.done(
            volume_id, 'os-force_detach', {}, self.http.as_admin))

    def test_os_force_detach_without_backend_removes_attached_mode(self):
        def end(volume_id, attachment_id, connector):
            self.http.manager.backend.fake_target.faults.plan('revoke', faults.Fault.REFUSED)
            self.done(volume_id, 'os-force_detach', {}, self.http.as_admin)
            self.http.manager.backend.fake_target.faults.clear()
        self.each(end)

    def test_os_terminate_connection_removes_attached_mode(self):
        volume_id = self.volume()
        connector = make.connector()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id, connector)
        self.attach(volume_id)
        self.done(volume_id, 'os-terminate_connection', {'connector': connector})
        self.assertEqual(({'readonly': 'False'}, []), (self.metadata(volume_id), self.listed()))

    def test_os_reset_status_removes_attached_mode(self):
        self.each(lambda volume_id, attachment_id, connector: self.done(
            volume_id, 'os-reset_status', {'attach_status': 'detached'}, self.http.as_admin))

    def test_refused_detach_keeps_attached_mode(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id)
        self.attach(volume_id)
        self.http.manager.backend.fake_target.faults.plan('revoke', faults.Fault.REFUSED)
        self.assert_status(500, self.act(volume_id, 'os-detach'))
        self.assertEqual({'readonly': 'False', 'attached_mode': 'rw'}, self.metadata(volume_id))

    def test_os_unreserve_keeps_attached_mode(self):
        volume_id = self.volume(multiattach=True)
        self.attach(volume_id)
        self.done(volume_id, 'os-reserve')
        self.done(volume_id, 'os-unreserve')
        self.assertEqual('rw', self.metadata(volume_id)['attached_mode'])

    def test_os_attach_rw_of_readonly_volume_rejected(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-update_readonly_flag', {'readonly': True})
        for prepare in (lambda: None, lambda: self.done(volume_id, 'os-reserve')):
            prepare()
            self.assert_fault(400, "Invalid attaching mode 'rw'", self.act(
                volume_id, 'os-attach',
                {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb', 'mode': 'rw'}))
            self.assertEqual({'readonly': 'True'}, self.metadata(volume_id))
        self.attach(volume_id, mode='ro')
        self.assertEqual({'readonly': 'True', 'attached_mode': 'ro'}, self.metadata(volume_id))
        self.done(volume_id, 'os-detach')
        self.assertEqual({'readonly': 'True'}, self.metadata(volume_id))


class ConnectionInfoTest(actions.ActionsTestCase):
    """Connection info, which is null after os-attach by a consumer with an unknown host."""

    def infos(self, attachment_id, version='3.71'):
        """Return the connection info from a show and from a list."""
        shown = self.http.as_member.get(f'/attachments/{attachment_id}', version)
        listed = self.http.as_member.get('/attachments/detail', version)
        self.assert_status(200, shown)
        one, = (one for one in listed.body['attachments'] if one['id'] == attachment_id)
        return shown.body['attachment']['connection_info'], one['connection_info']

    def test_connection_info_null_after_os_attach(self):
        for reserved in (False, True):
            for details in ({'instance_uuid': base.SERVER}, {'host_name': 'h'}):
                with self.subTest(reserved=reserved, details=details):
                    volume_id = self.volume()
                    if reserved:
                        self.done(volume_id, 'os-reserve')
                    self.done(volume_id, 'os-attach', {**details, 'mountpoint': '/dev/vdb'})
                    row, = self.rows(volume_id)
                    for version in ('3.27', '3.44', '3.71'):
                        self.assertEqual((None, None), self.infos(row.id, version))

    def test_connection_info_empty_without_connector(self):
        attachment_id = self.reserve(self.volume())
        self.assertEqual(({}, {}), self.infos(attachment_id))
        self.complete(attachment_id)
        self.assertEqual(({}, {}), self.infos(attachment_id))

    def test_connection_info_set_by_later_connector(self):
        volume_id = self.volume()
        self.attach(volume_id)
        row, = self.rows(volume_id)
        shown = self.connect(row.id)
        self.assertEqual(volume_id, shown['connection_info']['volume_id'])

    def test_refused_connector_keeps_connection_info_null(self):
        volume_id = self.volume()
        self.attach(volume_id)
        row, = self.rows(volume_id)
        before = self.shown(volume_id)
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        reply = self.http.as_member.put(f'/attachments/{row.id}', {
            'attachment': {'connector': make.connector()}})
        self.assert_status(500, reply)
        self.assertEqual((None, None), self.infos(row.id))
        after = self.shown(volume_id)
        self.assertEqual((before['status'], before['attachments']),
                         (after['status'], after['attachments']))

    def test_os_attach_mountpoint_kept_by_initialize_connection(self):
        volume_id = self.volume()
        self.attach(volume_id)
        connector = make.connector()
        self.initialize(volume_id, connector)
        one, = self.shown(volume_id)['attachments']
        self.assertEqual(('/dev/vdb', connector['host']), (one['device'], one['host_name']))
