"""Notifications to other services.

Nothing is sent until ``[oslo_messaging_notifications] driver`` is set, and until then no data is
read for notifications either. A notification is sent after the commit of the operation. Failed
attempts are logged, are not repeated, and never fail the operation.
"""
import logging
from typing import Any

import oslo_messaging
from oslo_config import cfg

from blockattach.platform import clock
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.log import fields
from blockattach.platform.rpc import serializing
from blockattach.platform.rpc import transport

LOG = logging.getLogger(__name__)

_BY_MESSAGES = frozenset({'messaging', 'messagingv2'})
"""Drivers of oslo.messaging that need a transport."""


class Notifications:
    """Sender of notifications from a publisher (``volume.host@backend``)."""

    def __init__(self, channel: oslo_messaging.Transport | None, publisher: str) -> None:
        """
        :param channel: transport of the notifications; None to send nothing
        :param publisher: default publisher of events
        """
        self._channel = channel
        self._notifier = None
        if channel is not None:
            # There is a single attempt, so that no operation waits for an unreachable broker.
            self._notifier = oslo_messaging.Notifier(
                channel, publisher_id=publisher, retry=0,
                serializer=serializing.Serializer({}, clock.Clock()))

    @property
    def enabled(self) -> bool:
        """True if notifications are configured, until `close` is called."""
        return self._notifier is not None

    def emit(self, ctxt: context.RequestContext, event_type: str, payload: dict[str, Any],
             publisher: str | None = None) -> None:
        """Send an event. No error is raised, because a notification never fails an operation.

        Events of failures have the priority ``info`` like all other events. All events of a
        resource therefore use the same queue, and arrive in order.

        :param publisher: publisher of the event; None for the default publisher
        """
        if self._notifier is None:
            return
        try:
            notifier = self._notifier
            if publisher is not None:
                notifier = notifier.prepare(publisher_id=publisher)
            notifier.info(ctxt, event_type, payload)
        except Exception as error:
            LOG.warning('Failed to send notification%s', fields(
                event_type=event_type, reason=error))

    def close(self) -> None:
        """Close the transport. Nothing is sent afterwards."""
        self._notifier = None
        if self._channel is not None:
            self._channel.cleanup()


def build(conf: cfg.ConfigOpts, publisher: str, url: str | None = None) -> Notifications:
    """Build the sender that ``[oslo_messaging_notifications]`` configures.

    :param publisher: default publisher of events
    :param url: URL that is used if the group sets no ``transport_url``; None for the option
        ``transport_url`` of ``[DEFAULT]``
    :raises ConfigurationError: the transport does not support notifications
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
