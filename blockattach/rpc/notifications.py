"""Notifications about moves: ``volume.attach.end`` and others.

Off until ``[oslo_messaging_notifications] driver`` is set; then nothing is read for it either. A
notification never fails or delays its cause: a broker that is down is not waited for. Notify after
the commit.
"""
import logging
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg

from blockattach import clock
from blockattach import context
from blockattach import errors
from blockattach.conf import rpc as rpc_conf
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.log import fields
from blockattach.objects import attachment as payloads
from blockattach.rpc import serializing
from blockattach.rpc import transport

LOG = logging.getLogger(__name__)

_BY_MESSAGES = frozenset({'messaging', 'messagingv2'})
"""Drivers of oslo.messaging that need a transport."""


class Notifications:
    """Sends events in the name of a publisher (``volume.host@backend``)."""

    def __init__(self, channel: oslo_messaging.Transport | None, publisher: str) -> None:
        """Stand ready.

        :param channel: None: send nothing
        :param publisher: the publisher, where an event does not name one
        """
        self._channel = channel
        self._notifier = None
        if channel is not None:
            self._notifier = oslo_messaging.Notifier(
                channel, publisher_id=publisher, retry=0,
                serializer=serializing.Serializer({}, clock.Clock()))

    @property
    def enabled(self) -> bool:
        """Whether notifications are sent."""
        return self._notifier is not None

    def emit(self, ctxt: context.RequestContext, event_type: str, payload: dict[str, Any],
             publisher: str | None = None) -> None:
        """Send one event; failures too have the priority info, so that events of one resource come
        by one queue, in order. Never raises.
        """
        if self._notifier is None:
            return
        try:
            notifier = self._notifier
            if publisher is not None:
                notifier = notifier.prepare(publisher_id=publisher)
            notifier.info(ctxt, event_type, payload)
        except Exception as error:
            LOG.warning('Failed to send notification: %s%s', error, fields(event_type=event_type))

    def close(self) -> None:
        """Release the transport; nothing is sent from now on."""
        self._notifier = None
        if self._channel is not None:
            self._channel.cleanup()


def build(conf: cfg.ConfigOpts, publisher: str, url: str | None = None) -> Notifications:
    """As configured. ``url`` is the bus, which serves unless notifications have a URL.

    :raises ConfigurationError: the bus carries none
    """
    transport.register_options(conf)
    group = conf.oslo_messaging_notifications
    if not group.driver:
        return Notifications(None, publisher)
    place = group.transport_url or url
    if (oslo_messaging.TransportURL.parse(conf, place).transport == rpc_conf.HTTP
            and _BY_MESSAGES.intersection(group.driver)):
        raise errors.ConfigurationError(
            reason='cannot send notifications without a broker: set driver to log or noop, or '
                   'transport_url to the URL of a broker')
    channel = oslo_messaging.get_notification_transport(conf, url=place)
    return Notifications(channel, publisher)


class AttachmentNotifications:
    """Notifies that an attachment begins or ends, as Cinder does, for the volume's host.

    Called after the commit of each move, by the process that made it; so each event is sent once.
    Never raises. Nothing is sent for a legacy reservation.
    """

    def __init__(self, notifications: Notifications,
                 read_volume: Callable[[str], records.Volume],
                 read_rows: Callable[[str], Sequence[records.Attachment]]) -> None:
        """Put it together.

        :param read_volume: a volume by its id; only called when a notification is sent
        :param read_rows: the live attachments of a volume by its id; only called when one is sent
        """
        self._notifications = notifications
        self._read_volume = read_volume
        self._read_rows = read_rows

    def moved(self, caller: context.RequestContext, old: records.Attachment | None,
              new: records.Attachment) -> None:
        """What a move begins, and what it ends.

        :param old: the row before; None: the move made it
        """
        before = None if old is None or old.legacy_reservation else old.state
        for event_type in attachment_lifecycle.notifications_of(before, new.state):
            self._emit(caller, event_type, new)

    def forced(self, caller: context.RequestContext, attachment: records.Attachment) -> None:
        """It is ended by force, whatever Nova and the backend say: for the audit."""
        self._emit(caller, 'volume.detach.force', attachment)

    def abandoned(self, caller: context.RequestContext, attachment: records.Attachment) -> None:
        """The service ends it by itself, since its consumer never came back."""
        self._emit(caller, 'volume.detach.abandoned', attachment)

    def _emit(self, caller: context.RequestContext, event_type: str,
              attachment: records.Attachment) -> None:
        if attachment.legacy_reservation or not self._notifications.enabled:
            return
        try:
            volume = self._read_volume(attachment.volume_id)
            payload = payloads.VolumeAttachmentPayload.from_domain(
                attachment, volume, self._read_rows(volume.id))
            body = payload.to_body()
        except Exception as error:
            LOG.warning('Failed to send notification: %s%s', error, fields(
                event_type=event_type, attachment_id=attachment.id,
                volume_id=attachment.volume_id))
            return
        publisher = f'volume.{volume.host}' if volume.host else None
        self._notifications.emit(caller, event_type, body, publisher)
