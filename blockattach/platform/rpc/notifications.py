"""Notifications to other services.

Nothing is sent until ``[oslo_messaging_notifications] driver`` is set, and nothing is read for a
notification that is not sent. A notification never fails or delays the operation: nothing waits
for an unreachable broker. Notifications are sent after the commit.
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
        """Return True if notifications are sent."""
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
