"""The driver behind ``http:///NAME``: entry point ``http``.

After oslo.messaging's specification of an HTTP driver: clients look up where servers listen, and
send to them directly; a fanout is a cast to each. So there is no queue: what is sent to a server
that is not there fails at once, casts as well. Not the exchange parts two buses but NAME, which
stands for a `sites.Site`: that says where to listen, where to look, and whom to trust.

What leaves this host is encrypted: an address that is not of the loopback interface has a
certificate, or nothing is sent there.
"""
import functools
import logging
import threading
import uuid
from collections.abc import Callable
from concurrent import futures
from typing import Any

import oslo_messaging
from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.log import fields
from blockattach.platform.rpc import ends
from blockattach.platform.rpc import oslo_drivers
from blockattach.platform.rpc.http import client as clients
from blockattach.platform.rpc.http import endpoints
from blockattach.platform.rpc.http import incoming
from blockattach.platform.rpc.http import server as servers
from blockattach.platform.rpc.http import sites
from blockattach.platform.rpc.http import wire
from blockattach.platform.telemetry import threads

LOG = logging.getLogger(__name__)

_COPIES_AT_ONCE = 16


class HttpListener(oslo_drivers.Listener):
    """One server's ear; each start is a new instance."""

    def __init__(self, store: endpoints.EndpointStore, server: servers.Server, topic: str,
                 name: str) -> None:
        super().__init__(1, None)
        self._store = store
        self._server = server
        self._topic = topic
        self._name = name
        self._lock = threading.Lock()
        self._endpoint = server.address._replace(instance=uuid.uuid4().hex)

    def start(self, on_incoming_callback: Callable[[list[oslo_drivers.IncomingMessage]], None],
              ) -> None:
        """Listen, and say where."""
        with self._lock:
            super().start(on_incoming_callback)
        self._server.add(self._topic, self._endpoint.instance, self._take)
        self._store.register(self._topic, self._name, self._endpoint)

    def stop(self) -> None:
        """Listen no more; what came before this may still be worked on."""
        with self._lock:
            listened = self.on_incoming_callback is not None
            super().stop()
        if listened:
            self._server.remove(self._topic, self._endpoint.instance)
            self._store.withdraw(self._topic, self._name, self._endpoint)

    def cleanup(self) -> None:
        """Nothing is held beyond the registration, which ends here at the latest."""
        self.stop()

    def _take(self, message: incoming.HttpIncomingMessage) -> bool:
        """Not under the lock: a call is worked on meanwhile."""
        with self._lock:
            take = self.on_incoming_callback
        if take is None:
            return False
        try:
            take([message])
        except threads.Ended:
            return False
        return True


class HttpDriver(oslo_drivers.Driver):
    """See the module.

    :cvar without_broker: nothing has to be there before a message is sent, but its server
    """

    without_broker = True

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL,
                 default_exchange: str | None = None,
                 allowed_remote_exmods: list[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._site = sites.REGISTRY.join(str(url))
        self._lookup = endpoints.Lookup(self._site.store, self._site.clock)
        self._client = clients.Client(self._site.keys, self._site.clock)
        self._closed = False
        self._server: servers.Server | None = None

    def send(self, target: oslo_messaging.Target, ctxt: dict[str, Any], message: dict[str, Any],
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: Any = None) -> Any:
        """Send, and wait for the answer if one is wanted.

        :raises NotReached: nobody has the message, and nobody will
        :raises MessagingTimeout: it is not known what became of it
        :raises TypeError, ValueError: the message is not plain data, or too large
        :raises ConfigurationError: it would leave this host
        """
        if self._closed:
            raise ends.NotReached('the transport is closed')
        body = wire.encode(oslo_drivers.message_content(ctxt, message))
        if target.fanout:
            self._send_to_all(target, body)
            return None
        limits = clients.Limits(self._site.clock, timeout, call_monitor_timeout)
        reason = f'no server listens on {_name(target)}'
        for endpoint in self._lookup.candidates(target.topic, target.server):
            _check_address(endpoint)
            try:
                if wait_for_reply:
                    return self._result(self._client.ask(endpoint, target.topic, body, limits))
                self._client.give(endpoint, target.topic, body)
                return None
            except ends.NotReached as error:
                reason = f'{_name(target)}: {error}'
            except clients.NoAnswer as error:
                raise oslo_messaging.MessagingTimeout(
                    f'No reply from {_name(target)}: {error}') from error
        raise ends.NotReached(reason)

    def send_notification(self, target: oslo_messaging.Target, ctxt: dict[str, Any],
                          message: dict[str, Any], version: float,
                          retry: int | None = None) -> None:
        """
        :raises TransportDriverError: always
        """
        raise _no_notifications()

    def listen(self, target: oslo_messaging.Target, batch_size: int,
               batch_timeout: float | None) -> oslo_drivers.Listener:
        """A listener for one server of a topic.

        :raises ConfigurationError: the address is taken, or not one of this host
        """
        listener = HttpListener(self._site.store, self._listening(), target.topic, target.server)
        self._listeners.add(listener)
        return listener

    def listen_for_notifications(
            self, targets_and_priorities: list[tuple[oslo_messaging.Target, str]],
            pool: str | None, batch_size: int,
            batch_timeout: float | None) -> oslo_drivers.Listener:
        """
        :raises TransportDriverError: always
        """
        raise _no_notifications()

    def cleanup(self) -> None:
        """Stop the listeners made here and close the connections; sending is refused from now
        on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.stop_listeners()
        if self._server is not None:
            self._server.stop()
        self._client.close()
        sites.REGISTRY.leave(str(self._url))

    def _listening(self) -> servers.Server:
        with self._lock:
            if self._closed:
                raise ends.NotReached('the transport is closed')
            if self._url.hosts:
                raise errors.ConfigurationError(
                    reason='cannot listen on the address of an http:// URL: set [rpc] listen '
                           'instead')
            if self._server is None:
                self._server = servers.Server(self._site.listen, self._site.keys,
                                              self._site.clock, self._site.advertise)
            return self._server

    def _send_to_all(self, target: oslo_messaging.Target, body: bytes) -> None:
        found = self._lookup.all(target.topic)
        for endpoint in found:
            _check_address(endpoint)
        give = functools.partial(self._send_copy, target.topic, body)
        # One that does not answer holds up no other.
        with futures.ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            list(pool.map(give, found))

    def _send_copy(self, topic: str, body: bytes, endpoint: endpoints.Endpoint) -> None:
        try:
            self._client.give(endpoint, topic, body)
        except (ends.NotReached, clients.NoAnswer) as error:
            LOG.warning('Failed to confirm fanout delivery to a server%s',
                        fields(topic=topic, reason=error))

    def _result(self, body: bytes) -> Any:
        try:
            answer = wire.decode(body, ('result', 'failure'))
        except wire.Malformed as error:
            raise clients.NoAnswer(str(error)) from error
        return self.result(answer)


def _name(target: oslo_messaging.Target) -> str:
    return f'{target.topic}.{target.server}' if target.server else str(target.topic)


def _no_notifications() -> oslo_drivers.TransportDriverError:
    return oslo_drivers.TransportDriverError(
        'http:// does not support notifications: set [oslo_messaging_notifications] transport_url '
        'to the URL of a broker, or driver to log or noop')


def _check_address(endpoint: endpoints.Endpoint) -> None:
    """
    :raises ConfigurationError: what is sent there would leave this host unencrypted
    """
    if endpoint.fingerprint is None and not endpoints.is_loopback(endpoint.host):
        raise errors.ConfigurationError(
            reason=f'cannot send to {endpoint.authority} without TLS: not a loopback address')
