"""Base classes of the oslo.messaging drivers in this package, ``inproc://`` and ``http://``.

oslo.messaging loads drivers by entry points, but their base classes are private. Only this module
imports private names of oslo.messaging. A test compares these names with the installed version.
"""
import abc
import logging
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging._drivers import base
from oslo_messaging._drivers import common
from oslo_messaging._metrics import client as metrics
from oslo_messaging._tracing import client as tracing

from blockattach.platform import errors
from blockattach.platform.log import fields

LOG = logging.getLogger(__name__)

PRIVATE_OPTIONS = {'oslo_messaging_metrics': metrics.oslo_messaging_metrics,
                   'oslo_messaging_tracing': tracing.oslo_messaging_tracing}
"""Options that oslo.messaging registers in the global configuration only, by group."""
Listener = base.Listener
IncomingMessage = base.IncomingMessage
TransportDriverError = base.TransportDriverError


class Message(base.RpcIncomingMessage, abc.ABC):
    """Base class of messages as their servers receive them."""

    @abc.abstractmethod
    def waits(self) -> bool:
        """Return True if the caller waits for a reply."""

    @abc.abstractmethod
    def answer(self, content: Mapping[str, Any]) -> None:
        """Send the reply.

        :raises TypeError, ValueError: the reply cannot be serialized; nothing is sent
        """

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the reply if the caller waits for a reply.

        A reply that cannot be serialized is replaced with an error.
        """
        if not self.waits():
            return
        try:
            self.answer(_content(reply, failure))
        except (TypeError, ValueError) as cause:
            LOG.error('Failed to serialize the reply of a call%s',
                      fields(method=self.message.get('method'), reason=cause))
            error = errors.BackendUncertain(reason=f'cannot serialize the reply: {cause}')
            self.answer(_content(None, (type(error), error, None)))


class Driver(base.BaseDriver):
    """Base class of drivers whose transports need no broker process."""

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL,
                 default_exchange: str | None = None,
                 allowed_remote_exmods: list[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._lock = threading.Lock()
        self._listeners: weakref.WeakSet[base.Listener] = weakref.WeakSet()

    def stop_listeners(self) -> None:
        """Stop all listeners that this transport has created."""
        for listener in tuple(self._listeners):
            listener.stop()

    def result(self, content: Mapping[str, Any]) -> Any:
        """Return the result of a call, or raise the error of the server.

        :param content: reply as the server passed it to `Message.answer`
        """
        if content['failure'] is not None:
            raise common.deserialize_remote_exception(content['failure'],
                                                      self._allowed_remote_exmods)
        return content['result']


def message_content(ctxt: Any, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message and its context as plain data."""
    return {'context': ctxt if isinstance(ctxt, dict) else ctxt.to_dict(), 'message': message}


def _content(result: Any, failure: Any) -> dict[str, Any]:
    return {'result': result,
            'failure': common.serialize_remote_exception(failure) if failure else None}
