"""Notifications of requests, in which each start has one end or error."""
from blockattach.storage.drivers import faults
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import notifications

ATTACHED = ['attach.start', 'attach.end']
DETACHED = ['detach.start', 'detach.end']
REFUSED = faults.Fault.REFUSED
UNCERTAIN = faults.Fault.UNCERTAIN_AFTER


class Case(actions.ActionsTestCase):

    def setUp(self):
        super().setUp()
        self.heard = notifications.Heard()
        self.fixture(notifier=self.heard)
        self.target = self.http.manager.backend.fake_target

    def create(self, volume_id, **more):
        return self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER, **more}})

    def delete(self, attachment_id):
        return self.http.as_member.delete(f'/attachments/{attachment_id}')

    def assert_notified(self, expected, attachment_id=None):
        """Check the notifications of an attachment, by default of the only one that has any."""
        if attachment_id is None:
            attachment_id, = {payload['attachment']['id'] for _, payload in self.heard.events}
        self.assertEqual(expected, self.heard.of(attachment_id))


class AttachmentsTest(Case):

    def test_attach_and_detach_notify_start_and_end(self):
        attachment_id = self.attached(self.volume())
        self.assert_notified(ATTACHED, attachment_id)
        self.assert_status(200, self.delete(attachment_id))
        self.assert_notified(ATTACHED + DETACHED, attachment_id)
        self.assertEqual(
            ['attaching', 'attached', 'detaching', 'detached'],
            [payload['attachment']['attach_status'] for _, payload in self.heard.events])
        self.assertEqual(['attaching', 'in-use', 'detaching', 'available'],
                         [payload['status'] for _, payload in self.heard.events])

    def test_create_with_connector_notifies_attach(self):
        reply = self.create(self.volume(), connector=make.connector())
        self.complete(reply.body['attachment']['id'])
        self.assert_notified(ATTACHED)

    def test_reservation_sends_no_notification(self):
        self.reserve(self.volume())
        self.assertEqual([], self.heard.events)

    def test_complete_without_connector_notifies_attach_once(self):
        attachment_id = self.reserve(self.volume())
        for _ in range(2):
            self.complete(attachment_id)
        self.assert_notified(ATTACHED, attachment_id)
        self.delete(attachment_id)
        self.assert_notified(ATTACHED + DETACHED, attachment_id)

    def test_repeated_requests_notify_once(self):
        attachment_id = self.reserve(self.volume())
        for _ in range(2):
            self.connect(attachment_id)
        for _ in range(2):
            self.complete(attachment_id)
        for _ in range(2):
            self.delete(attachment_id)
        self.assert_notified(ATTACHED + DETACHED, attachment_id)

    def test_reconnect_notifies_attach_again(self):
        attachment_id = self.attached(self.volume())
        self.connect(attachment_id)
        self.assert_notified([*ATTACHED, 'attach.start'], attachment_id)
        self.complete(attachment_id)
        self.assert_notified(ATTACHED * 2, attachment_id)

    def test_refused_connector_notifies_attach_error(self):
        self.target.faults.plan('grant', REFUSED, 3)
        self.assert_status(500, self.create(self.volume(), connector=make.connector()))
        self.assert_notified(['attach.start', 'attach.error'])
        attachment_id = self.reserve(self.volume())
        for _ in range(2):
            self.assert_status(500, self.http.as_member.put(f'/attachments/{attachment_id}', {
                'attachment': {'connector': make.connector()}}))
        self.assert_notified(['attach.start', 'attach.error'] * 2, attachment_id)

    def test_delete_before_complete_notifies_attach_error(self):
        attachment_id = self.reserve(self.volume())
        self.connect(attachment_id)
        self.delete(attachment_id)
        self.assert_notified(['attach.start', 'attach.error', *DETACHED], attachment_id)

    def test_refused_delete_notifies_detach_error(self):
        attachment_id = self.attached(self.volume())
        self.target.faults.plan('revoke', REFUSED)
        self.assert_status(500, self.delete(attachment_id))
        self.assert_notified([*ATTACHED, 'detach.start', 'detach.error'], attachment_id)
        self.assert_status(200, self.delete(attachment_id))
        self.assert_notified([*ATTACHED, 'detach.start', 'detach.error', *DETACHED], attachment_id)

    def test_uncertain_delete_notifies_end_on_retry(self):
        attachment_id = self.attached(self.volume())
        self.target.faults.plan('revoke', UNCERTAIN)
        self.assert_status(504, self.delete(attachment_id))
        self.assert_notified([*ATTACHED, 'detach.start'], attachment_id)
        self.assert_status(200, self.delete(attachment_id))
        self.assert_notified(ATTACHED + DETACHED, attachment_id)

    def test_update_without_manager_notifies_start_only(self):
        attachment_id = self.reserve(self.volume())
        self.http.managers.remove('storage-1@fake')
        self.assert_status(504, self.http.as_member.put(f'/attachments/{attachment_id}', {
            'attachment': {'connector': make.connector()}}))
        self.assert_notified(['attach.start'], attachment_id)

    def test_force_detach_notifies_detach_force(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.target.faults.plan('revoke', REFUSED)
        self.done(volume_id, 'os-force_detach', {}, self.http.as_admin)
        sent = self.heard.of(attachment_id)
        self.assertEqual('detach.force', sent[-1])
        self.assertEqual(['detach.start', 'detach.error', *DETACHED], sent[2:-1])


class ActionsTest(Case):

    def test_os_attach_notifies_attach(self):
        for reserved in (False, True):
            with self.subTest(reserved=reserved):
                self.heard.events.clear()
                volume_id = self.volume()
                if reserved:
                    self.done(volume_id, 'os-reserve')
                for _ in range(2):
                    self.attach(volume_id)
                self.assert_notified(ATTACHED)
                self.done(volume_id, 'os-detach')
                self.assert_notified(ATTACHED + DETACHED)

    def test_legacy_actions_notify_attach_and_detach(self):
        volume_id = self.volume()
        connector = make.connector()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id, connector)
        self.assertEqual([], self.heard.events)
        self.attach(volume_id)
        self.assert_notified(ATTACHED)
        self.done(volume_id, 'os-begin_detaching')
        self.done(volume_id, 'os-terminate_connection', {'connector': connector})
        self.done(volume_id, 'os-detach')
        self.assert_notified(ATTACHED + DETACHED)

    def test_os_unreserve_sends_no_notification(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id)
        self.done(volume_id, 'os-unreserve')
        self.assertEqual([], self.heard.events)

    def test_refused_os_attach_sends_no_notification(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-update_readonly_flag', {'readonly': True})
        self.assert_status(400, self.act(volume_id, 'os-attach', {
            'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb'}))
        self.assertEqual([], self.heard.events)

    def test_os_reset_status_notifies_detach_force(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.done(volume_id, 'os-reset_status', {'attach_status': 'detached'}, self.http.as_admin)
        self.assert_notified([*ATTACHED, *DETACHED, 'detach.force'], attachment_id)
