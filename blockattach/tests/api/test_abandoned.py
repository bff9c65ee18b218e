"""Expiry of abandoned attachments, with the answers of Nova and the notifications."""
import itertools
from concurrent import futures

from blockattach.platform.db import clock
from blockattach.platform.telemetry import acts
from blockattach.storage import nova as nova_client
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import expiry_rule
from blockattach.storage.drivers import faults
from blockattach.storage.volume import expiry
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import notifications
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import polling

S = lifecycle.State
LIMITS = {S.RESERVED: 60.0, S.CONNECTED: 600.0}
RESERVED_EVENT, CONNECTED_EVENT = 'VOLUME_VOLUME_002_051', 'VOLUME_VOLUME_002_052'
ABANDONED = 'detach.abandoned'
LONG = 3600


class Counted(acts.Telemetry):
    """Telemetry that keeps the drift counts in memory."""

    def __init__(self):
        super().__init__()
        self.drifts = []

    def drift(self, drift, detected=0, repaired=0):
        self.drifts.append((drift, detected, repaired))


class Case(actions.ActionsTestCase):

    def setUp(self):
        super().setUp()
        self.heard = notifications.Heard()
        self.fixture(notifier=self.heard)
        self.ask = None
        self.telemetry = Counted()

    def look(self, limits=LIMITS, **more):
        """Run one expiry pass and return the number of ended attachments."""
        return expiry.Expirer(self.http.database, self.http.manager.kept, limits, self.ask,
                              self.telemetry, **more).look()

    def pass_by(self, seconds):
        self.look()
        with self.http.database.writer() as writer:
            writer.execute(models.waits.update().values(since=clock.now(-seconds)))

    def there(self, attachment_id):
        status = self.http.as_member.get(f'/attachments/{attachment_id}').status
        self.assertIn(status, (200, 404))
        return status == 200

    def connected(self, volume_id, **more):
        attachment_id = self.reserve(volume_id, **more)
        self.connect(attachment_id)
        return attachment_id

    def messages(self):
        return self.http.as_member.get('/messages').body['messages']


class WithoutNovaTest(Case):

    def test_abandoned_reservation_deleted_after_timeout(self):
        volume_id = self.volume()
        attachment_id = self.reserve(volume_id)
        self.pass_by(59)
        self.assertEqual(0, self.look())
        self.assertTrue(self.there(attachment_id))
        self.pass_by(61)
        self.assertEqual(1, self.look())
        self.assertFalse(self.there(attachment_id))
        self.assertEqual('available', self.status(volume_id))
        self.assertEqual(['detach.start', 'detach.end', ABANDONED], self.heard.of(attachment_id))
        [message] = self.messages()
        self.assertEqual((RESERVED_EVENT, 'VOLUME', volume_id, 'ERROR'), (
            message['event_id'], message['resource_type'], message['resource_uuid'],
            message['message_level']))
        self.assertIn('attach volume:No connector was provided in time',
                      message['user_message'])
        self.assertIn(attachment_id, message['user_message'])
        self.assertIn(('abandoned', 1, 0), self.telemetry.drifts)
        self.assertIn(('abandoned', 0, 1), self.telemetry.drifts)
        self.assertEqual(0, self.look())

    def test_abandoned_connection_deleted_after_timeout(self):
        volume_id = self.volume()
        attachment_id = self.connected(volume_id)
        self.pass_by(599)
        self.assertEqual(0, self.look())
        self.assertNotEqual({}, self.grants(volume_id))
        self.pass_by(601)
        self.assertEqual(1, self.look())
        self.assertFalse(self.there(attachment_id))
        self.assertEqual(('available', {}), (self.status(volume_id), self.grants(volume_id)))
        self.assertEqual(['attach.start', 'attach.error', 'detach.start', ABANDONED,
                          'detach.end'], self.heard.of(attachment_id))
        [message] = self.messages()
        self.assertEqual(CONNECTED_EVENT, message['event_id'])

    def reservation(self, volume_id):
        """Create an attachment without a server and return its id."""
        return self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id}}).body['attachment']['id']

    def test_attachment_with_server_kept_while_nova_unknown(self):
        rows = [self.reserve(self.volume()), self.connected(self.volume())]
        ended = self.reservation(self.volume())
        self.pass_by(LONG)
        self.assertEqual(1, self.look(nova=expiry_rule.Nova.UNKNOWN))
        self.assertEqual([True, True, False], [self.there(one) for one in (*rows, ended)])

    def test_attachment_without_server_kept_while_host_logged_in(self):
        volume_id, connector = self.volume(), make.connector()
        attachment_id = self.reservation(volume_id)
        info = self.connect(attachment_id, connector)['connection_info']
        credential = connection.Credential(info['auth_username'], info['auth_password'])
        target = self.http.manager.backend.fake_target
        self.assertIsNotNone(target.log_in(volume_id, connector['initiator'], credential))
        self.pass_by(LONG)
        self.assertEqual(0, self.look())
        self.assertTrue(self.there(attachment_id))
        target.log_out(volume_id, connector['initiator'])
        self.pass_by(LONG)
        self.assertEqual(1, self.look())
        self.assertFalse(self.there(attachment_id))

    def test_begin_detaching_expires_after_timeout(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-begin_detaching')
        self.assertEqual(0, self.look({}, detach_seconds=LONG))
        self.assertEqual('detaching', self.status(volume_id))
        with self.http.database.writer() as writer:
            writer.execute(models.volumes.update().values(
                detach_announced_at=clock.now(-LONG - 1)))
        with self.assertLogs('blockattach.storage.volume.expiry', 'WARNING') as logged:
            self.assertEqual(0, self.look({}, detach_seconds=LONG))
        self.assertIn(volume_id, logged.output[0])
        self.assertEqual('in-use', self.status(volume_id))

    def test_attached_attachment_never_expires(self):
        attachment_id = self.attached(self.volume())
        self.pass_by(LONG)
        self.assertEqual(0, self.look())
        self.assertTrue(self.there(attachment_id))
        self.assertEqual([], self.messages())

    def test_update_and_complete_restart_expiry_timeout(self):
        attachment_id = self.reserve(self.volume())
        self.pass_by(LONG)
        self.connect(attachment_id)
        self.assertEqual(0, self.look())
        self.pass_by(LONG)
        self.complete(attachment_id)
        self.assertEqual(0, self.look())
        self.assertTrue(self.there(attachment_id))

    def test_expiry_timeout_applies_to_its_state_only(self):
        kept, ended = self.reserve(self.volume()), self.connected(self.volume())
        self.pass_by(LONG)
        self.assertEqual(1, self.look({S.CONNECTED: 600.0}))
        self.assertEqual((True, False), (self.there(kept), self.there(ended)))

    def test_os_reserve_reservation_expires_without_notification(self):
        """Legacy reservations send no notification."""
        reserved, connected = self.volume(), self.volume()
        self.done(reserved, 'os-reserve')
        self.done(connected, 'os-reserve')
        self.initialize(connected)
        self.pass_by(LONG)
        self.assertEqual(2, self.look())
        for volume_id in (reserved, connected):
            self.assertEqual(('available', [], {}), (
                self.status(volume_id), self.rows(volume_id), self.grants(volume_id)))
        self.assertEqual([], self.heard.events)
        self.assertEqual({RESERVED_EVENT, CONNECTED_EVENT},
                         {message['event_id'] for message in self.messages()})

    def test_expiry_keeps_other_attachments_of_volume(self):
        volume_id = self.volume(multiattach=True)
        used = self.attached(volume_id, base.new_id())
        grants = self.grants(volume_id)
        self.connected(volume_id, instance_uuid=base.new_id())
        self.reserve(volume_id, base.new_id())
        self.pass_by(LONG)
        self.assertEqual(2, self.look())
        self.assertEqual([used], [row.id for row in self.rows(volume_id)])
        self.assertEqual(('in-use', grants), (self.status(volume_id), self.grants(volume_id)))

    def test_uncertain_revoke_keeps_expired_attachment_deleting(self):
        """The attachment stays disconnecting with a deadline, as after a delete."""
        volume_id = self.volume()
        attachment_id = self.connected(volume_id)
        self.pass_by(LONG)
        self.http.manager.backend.fake_target.faults.plan(
            'revoke', faults.Fault.UNCERTAIN_BEFORE)
        self.assertEqual(0, self.look())
        [row] = self.rows(volume_id)
        self.assertEqual((attachment_id, S.DISCONNECTING), (row.id, row.state))
        self.assertIsNotNone(row.owner)


class WithNovaTest(Case):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.ask = nova_client.Servers(nova_conf.NovaSettings(
            endpoint_override=self.nova.url, timeout=polling.LIMIT)).look
        self.volume_id = self.volume()
        self.attachment_id = self.reserve(self.volume_id)

    def assert_stays(self):
        self.pass_by(LONG)
        self.assertEqual(0, self.look())
        self.assertTrue(self.there(self.attachment_id))
        self.assertEqual(([], []), (self.messages(), self.heard.events))
        self.assertNotIn(1, [found for _, found, _ in self.telemetry.drifts])

    def assert_ends(self):
        self.pass_by(LONG)
        self.assertEqual(1, self.look())
        self.assertFalse(self.there(self.attachment_id))

    def test_attachment_of_deleted_server_expires(self):
        self.assert_ends()

    def test_attachment_known_to_server_kept(self):
        """A shelved server keeps its volumes in this state for months."""
        self.nova.run(base.SERVER, 'web', status='SHELVED_OFFLOADED')
        self.nova.use(base.SERVER, self.volume_id, self.attachment_id)
        self.assert_stays()
        self.nova.end(base.SERVER)
        self.assert_ends()

    def test_attachment_kept_while_server_busy(self):
        for shown in ({'status': 'BUILD'}, {'OS-EXT-STS:task_state': 'resize_migrating'}):
            with self.subTest(shown):
                self.nova.run(base.SERVER, 'web', **shown)
                self.assert_stays()
        self.nova.run(base.SERVER, 'web')
        self.assert_ends()

    def test_attachment_expires_when_server_uses_another_attachment(self):
        self.nova.run(base.SERVER, 'web')
        self.nova.use(base.SERVER, self.volume_id, base.ABSENT)
        self.assert_ends()

    def test_nova_not_asked_for_reservation_without_server(self):
        self.nova.run(base.SERVER, 'web')
        self.nova.use(base.SERVER, self.volume_id, self.attachment_id)
        reservation = self.volume()
        self.done(reservation, 'os-reserve')
        self.pass_by(LONG)
        self.nova.requests.clear()
        self.assertEqual(1, self.look())
        self.assertEqual('available', self.status(reservation))
        self.assertEqual({base.SERVER}, {
            request.path.split('/')[3] for request in self.nova.requests})

    def test_unreachable_nova_keeps_attachment(self):
        for answer in (nova.Reply(503, b'down'), nova.Reply(401, {}), nova.Reply(404, b'proxy')):
            with self.subTest(answer):
                self.nova.answer = answer
                with self.assertLogs('blockattach.storage.volume.expiry', 'WARNING') as logged:
                    self.assert_stays()
                self.assertIn('keeping attachment', logged.output[0])
                self.assertIn(self.attachment_id, logged.output[0])
        self.nova.answer = None
        self.nova.sees_all = False
        self.assert_stays()
        self.nova.sees_all = True
        self.assert_ends()

    def test_unreachable_nova_not_asked_for_every_attachment(self):
        rows = [self.attachment_id, *(self.reserve(self.volume()) for _ in range(5))]
        self.pass_by(LONG)
        self.nova.answer = nova.Reply(503, b'down')
        self.nova.requests.clear()
        self.assertEqual(0, self.look())
        self.assertEqual(3, len(self.nova.requests))
        # The next pass begins with the attachments that this one has not asked Nova about.
        self.nova.answer = None
        self.assertEqual(3, self.look())
        self.pass_by(LONG)
        self.assertEqual(3, self.look())
        self.assertEqual([False] * 6, [self.there(one) for one in rows])

    def test_unclear_nova_answer_keeps_only_that_attachment(self):
        others = [base.new_id() for _ in range(4)]
        rows = [self.reserve(self.volume(), server_id) for server_id in others]
        for server_id in others[:2]:
            self.nova.run(server_id, 'web', **{'OS-EXT-STS:task_state': None})
        for attachment_id, server_id in itertools.islice(zip(rows, others, strict=True), 2):
            row = self.http.as_member.get(f'/attachments/{attachment_id}').body['attachment']
            self.nova.use(server_id, row['volume_id'], 5)
        self.pass_by(LONG)
        self.assertEqual(3, self.look())
        self.assertEqual([True, True, False, False], [self.there(one) for one in rows])

    def test_connect_during_nova_request_keeps_attachment(self):
        connector = make.connector()

        def ask(server_id, volume_id):
            self.connect(self.attachment_id, connector)
            return expiry_rule.Server(exists=False)

        self.ask = ask
        self.pass_by(LONG)
        self.assertEqual(0, self.look())
        self.assertTrue(self.there(self.attachment_id))
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(self.volume_id))
        self.assertEqual(['attach.start'], self.heard.of(self.attachment_id))
        self.assertEqual([], self.messages())

    def test_concurrent_expiry_checks_delete_attachment_once(self):
        """Each attachment is checked, deleted and notified once."""
        self.pass_by(LONG)
        with futures.ThreadPoolExecutor(2) as pool:
            self.assertEqual([0, 1], sorted(pool.map(lambda _: self.look(), range(2))))
        self.assertEqual(1, len(self.messages()))
        self.assertEqual(['detach.start', 'detach.end', ABANDONED],
                         self.heard.of(self.attachment_id))
