"""Notifications, whose failure must not affect the operation."""
import queue
import unittest
import uuid
from typing import Any

import jsonschema
import oslo_messaging

from blockattach.platform import context
from blockattach.platform.rpc import notifications
from blockattach.platform.rpc import transport
from blockattach.storage import errors
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import records
from blockattach.storage.rpc import attachment_notices
from blockattach.tests.unit import samples
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe

S = lifecycle.State
TEXT = {'type': 'string'}
TEXT_OR_NULL = {'type': ['string', 'null']}
TIME = {'type': 'string', 'pattern': r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$'}
TIME_OR_NULL = {**TIME, 'type': ['string', 'null']}
TEXTS = {'type': 'object', 'additionalProperties': TEXT}


def whole(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a versioned object with exactly these fields."""
    properties = {'blockattach_object.name': {'const': name},
                  'blockattach_object.version': {'const': '1.0'}, **properties}
    return {'type': 'object', 'properties': properties, 'required': list(properties),
            'additionalProperties': False}


ATTACHMENT = whole('AttachmentPayload', {
    'id': TEXT, 'volume_id': TEXT, 'instance_uuid': TEXT_OR_NULL, 'attached_host': TEXT_OR_NULL,
    'mountpoint': TEXT_OR_NULL, 'attach_mode': {'enum': ['rw', 'ro', None]},
    'attach_status': TEXT, 'attach_time': TIME_OR_NULL, 'detach_time': TIME_OR_NULL,
    'created_at': TIME, 'updated_at': TIME_OR_NULL})
PAYLOAD = whole('VolumeAttachmentPayload', {
    'attachment': ATTACHMENT, 'volume_attachment': {'type': 'array', 'items': ATTACHMENT},
    'tenant_id': TEXT, 'host': TEXT_OR_NULL, 'user_id': TEXT, 'availability_zone': TEXT,
    'volume_id': TEXT, 'volume_type': TEXT, 'display_name': TEXT_OR_NULL,
    'launched_at': TIME_OR_NULL, 'created_at': TIME, 'status': TEXT, 'snapshot_id': TEXT_OR_NULL,
    'size': {'type': 'integer'}, 'replication_status': TEXT_OR_NULL,
    'replication_extended_status': TEXT_OR_NULL, 'replication_driver_data': TEXT_OR_NULL,
    'metadata': TEXTS, 'glance_metadata': TEXTS})


class Listener:
    """Listener that records messages and requeues the first ``again`` of them."""

    def __init__(self, again: int = 0) -> None:
        self.heard: queue.Queue[tuple[Any, ...]] = queue.Queue()
        self.again = again

    def info(self, ctxt: dict[str, Any], publisher_id: str, event_type: str,
             payload: dict[str, Any], metadata: dict[str, Any]) -> Any:
        self.heard.put((ctxt, publisher_id, event_type, payload))
        self.again -= 1
        return (oslo_messaging.NotificationResult.REQUEUE if self.again >= 0
                else oslo_messaging.NotificationResult.HANDLED)


class NotificationsTest(unittest.TestCase):
    """Notifications over the in-process driver."""

    def setUp(self) -> None:
        super().setUp()
        self.url = f'inproc://{uuid.uuid4().hex}/'
        self.conf = bus_contract.private_conf()
        transport.register_options(self.conf)
        self.ctxt = context.RequestContext(auth_token='hunter2', project_id='p', overwrite=False)

    def notifier(self) -> notifications.Notifications:
        self.conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
        return notifications.build(self.conf, 'volume.h@b', self.url)

    def listen(self, endpoint: Listener, pool: str | None = None) -> None:
        channel = oslo_messaging.get_notification_transport(self.conf, url=self.url)
        self.addCleanup(channel.cleanup)
        server = oslo_messaging.get_notification_listener(
            channel, [oslo_messaging.Target(topic='notifications')], [endpoint],
            executor='threading', allow_requeue=True, pool=pool)
        server.start()
        self.addCleanup(server.stop)

    def test_notification_received_without_token(self) -> None:
        listener = Listener()
        notifier = self.notifier()
        notifier.emit(self.ctxt, 'volume.attach.end', {'volume_id': 'v'})
        self.listen(listener)
        ctxt, publisher, event_type, payload = listener.heard.get(timeout=probe.LIMIT)
        self.assertEqual(('volume.h@b', 'volume.attach.end', {'volume_id': 'v'}),
                         (publisher, event_type, payload))
        self.assertEqual('p', ctxt['project_id'])
        self.assertNotIn('hunter2', str(ctxt))

    def test_notification_received_by_each_pool(self) -> None:
        listeners = {'audit': Listener(), 'billing': Listener()}
        for pool, listener in listeners.items():
            self.listen(listener, pool)
        self.notifier().emit(self.ctxt, 'volume.attach.end', {})
        for listener in listeners.values():
            self.assertEqual('volume.attach.end', listener.heard.get(timeout=probe.LIMIT)[2])
            self.assertTrue(listener.heard.empty())

    def test_requeued_notification_received_again(self) -> None:
        listener = Listener(again=1)
        self.listen(listener)
        self.notifier().emit(self.ctxt, 'volume.attach.end', {'n': 1})
        first, second = (listener.heard.get(timeout=probe.LIMIT) for _ in range(2))
        self.assertEqual(first[3], second[3])

    def test_notifications_disabled_by_default(self) -> None:
        listener = Listener()
        silent = notifications.build(self.conf, 'volume.h@b', self.url)
        silent.emit(self.ctxt, 'volume.attach.end', {'volume_id': object()})
        self.notifier().emit(self.ctxt, 'volume.detach.end', {})
        self.listen(listener)
        self.assertEqual('volume.detach.end', listener.heard.get(timeout=probe.LIMIT)[2])
        self.assertTrue(listener.heard.empty())

    def test_notifications_without_broker_need_log_or_own_broker(self) -> None:
        self.url, by = 'http://', self.url
        with self.assertRaisesRegex(errors.ConfigurationError, 'without a broker'):
            self.notifier()
        self.conf.set_override('transport_url', by, group='oslo_messaging_notifications')
        self.assertTrue(self.notifier().enabled)
        self.conf.clear_override('transport_url', group='oslo_messaging_notifications')
        self.conf.set_override('driver', ['log'], group='oslo_messaging_notifications')
        with self.assertLogs('oslo.messaging.notification.volume.attach.end', 'INFO') as logs:
            notifications.build(self.conf, 'volume.h@b', self.url).emit(
                self.ctxt, 'volume.attach.end', {})
        self.assertIn('volume.attach.end', logs.output[0])

    def test_failed_notification_logged(self) -> None:
        with self.assertLogs(level='WARNING'):
            self.notifier().emit(self.ctxt, 'volume.attach.end', {'volume_id': object()})

    def test_notification_with_own_publisher(self) -> None:
        listener = Listener()
        self.notifier().emit(self.ctxt, 'volume.attach.end', {}, 'volume.other@b')
        self.listen(listener)
        self.assertEqual('volume.other@b', listener.heard.get(timeout=probe.LIMIT)[1])

    def test_closed_notifier_sends_nothing(self) -> None:
        notifier = self.notifier()
        notifier.close()
        notifier.emit(self.ctxt, 'volume.attach.end', {'volume_id': object()})
        self.assertFalse(notifier.enabled)


class AttachmentNotificationsTest(unittest.TestCase):
    """Notifications of an attachment over the bus."""

    def setUp(self) -> None:
        super().setUp()
        self.url = f'inproc://{uuid.uuid4().hex}/'
        self.conf = bus_contract.private_conf()
        transport.register_options(self.conf)
        self.ctxt = context.RequestContext(auth_token=samples.SECRET, user_id='u',
                                           project_id='p', overwrite=False)
        self.volume = samples.volume()
        self.rows = [samples.attachment(id='first'), samples.attachment()]
        self.reads = 0

    def read_volume(self, volume_id: str) -> records.Volume:
        self.assertEqual(samples.VOLUME, volume_id)
        self.reads += 1
        return self.volume

    def attachments(self, driver: tuple[str, ...] = ('messagingv2',)
                    ) -> attachment_notices.AttachmentNotifications:
        self.conf.set_override('driver', list(driver), group='oslo_messaging_notifications')
        notifier = notifications.build(self.conf, 'volume.h', self.url)
        self.addCleanup(notifier.close)
        return attachment_notices.AttachmentNotifications(notifier, self.read_volume,
                                                     lambda volume_id: self.rows)

    def ended(self, notifier: attachment_notices.AttachmentNotifications) -> None:
        """Notify the last transition of an attachment."""
        notifier.moved(self.ctxt, samples.attachment(state=S.DISCONNECTING),
                       samples.attachment(state=S.GONE, detached_at=samples.NOW))

    def heard(self, count: int) -> list[tuple[Any, ...]]:
        """Return the first messages as a plain listener of oslo.messaging receives them."""
        listener = Listener()
        channel = oslo_messaging.get_notification_transport(self.conf, url=self.url)
        self.addCleanup(channel.cleanup)
        server = oslo_messaging.get_notification_listener(
            channel, [oslo_messaging.Target(topic='notifications')], [listener],
            executor='threading')
        server.start()
        self.addCleanup(server.stop)
        found = [listener.heard.get(timeout=probe.LIMIT) for _ in range(count)]
        self.assertTrue(listener.heard.empty())
        return found

    def test_each_transition_has_event_type_and_publisher(self) -> None:
        notifier = self.attachments()
        for before, after in ((None, S.CONNECTING), (S.CONNECTED, S.ATTACHED),
                              (S.CONNECTING, S.RESERVED), (S.ATTACHED, S.DISCONNECTING),
                              (S.DISCONNECTING, S.GONE), (S.DISCONNECTING, S.ERROR_DETACHING)):
            notifier.moved(self.ctxt, before and samples.attachment(state=before),
                           samples.attachment(state=after))
        notifier.forced(self.ctxt, self.rows[1])
        self.assertEqual(
            [('volume.h@b', f'volume.{event}') for event in (
                'attach.start', 'attach.end', 'attach.error', 'detach.start', 'detach.end',
                'detach.error', 'detach.force')],
            [(publisher, event_type) for _, publisher, event_type, _ in self.heard(7)])

    def test_payload_follows_cinder_without_secret(self) -> None:
        self.ended(self.attachments())
        ctxt, _, _, payload = self.heard(1)[0]
        jsonschema.validate(payload, PAYLOAD)
        self.assertNotIn(samples.SECRET, str(payload))
        self.assertNotIn(samples.SECRET, str(ctxt))
        self.assertEqual(
            {'id': samples.ATTACHMENT, 'instance_uuid': samples.SERVER, 'attach_mode': 'ro',
             'attach_status': 'detached', 'attached_host': 'compute-1',
             'mountpoint': '/dev/vdb', 'detach_time': '2030-01-02T03:04:05Z'},
            {name: payload['attachment'][name] for name in (
                'id', 'instance_uuid', 'attach_mode', 'attach_status', 'attached_host',
                'mountpoint', 'detach_time')})
        self.assertEqual(['first', samples.ATTACHMENT],
                         [row['id'] for row in payload['volume_attachment']])
        self.assertEqual(
            {'tenant_id': samples.PROJECT, 'user_id': 'user', 'volume_id': samples.VOLUME,
             'host': 'h@b#p', 'status': 'in-use', 'size': 2, 'volume_type': 'type',
             'display_name': 'data', 'metadata': {'key': 'value'}},
            {name: payload[name] for name in (
                'tenant_id', 'user_id', 'volume_id', 'host', 'status', 'size', 'volume_type',
                'display_name', 'metadata')})

    def test_payload_has_null_for_missing_values(self) -> None:
        self.volume = samples.volume(name=None, pool=None, metadata={})
        self.rows = []
        self.attachments().moved(self.ctxt, None, samples.attachment(
            state=S.CONNECTING, instance_uuid=None, mode=None, host=None,
            mountpoint=None, attached_at=None))
        _, publisher, _, payload = self.heard(1)[0]
        jsonschema.validate(payload, PAYLOAD)
        self.assertEqual('volume.h', publisher)

    def test_disabled_notifications_read_no_volume(self) -> None:
        self.ended(self.attachments(driver=()))
        self.assertEqual(0, self.reads)
        self.ended(self.attachments())
        self.assertEqual(1, self.reads)

    def test_legacy_reservation_notified_when_attached(self) -> None:
        notifier = self.attachments()
        reservation = samples.attachment(state=S.CONNECTED, legacy_reservation=True)
        notifier.moved(self.ctxt, None, reservation)
        notifier.moved(self.ctxt, reservation,
                       samples.attachment(state=S.GONE, legacy_reservation=True))
        notifier.forced(self.ctxt, reservation)
        self.assertEqual(0, self.reads)
        notifier.moved(self.ctxt, reservation, samples.attachment())
        self.assertEqual(['volume.attach.start', 'volume.attach.end'],
                         [event_type for _, _, event_type, _ in self.heard(2)])

    def test_notification_of_deleted_volume_logged(self) -> None:
        def gone(volume_id: str) -> records.Volume:
            raise errors.VolumeNotFound(volume_id=volume_id)
        self.read_volume = gone  # type: ignore[method-assign]
        with self.assertLogs('blockattach.storage.rpc.attachment_notices', 'WARNING') as logged:
            self.ended(self.attachments())
        self.assertIn('volume.detach.end', logged.output[0])
