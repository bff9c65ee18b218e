"""oslo.messaging driver of ``http:///NAME``, entry point ``http``.

The design follows oslo.messaging's specification of an HTTP driver. Clients look up the addresses
of servers, and send messages to them directly. A fanout is a cast to each server. There is no
queue, so calls and casts to a server that does not listen fail at once. Buses are separated by
NAME instead of the exchange. NAME identifies a `sites.Site`, which contains the listen address,
the directory of servers, and the keys.

Data that leaves this host is encrypted. Nothing is sent to an address outside of the loopback
interface unless the directory contains the fingerprint of the server's certificate.
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
from blockattach.platform.rpc.http import incoming
from blockattach.platform.rpc.http import server as servers
from blockattach.platform.rpc.http import sites
from blockattach.platform.rpc.http import wire
from blockattach.platform.telemetry import threads

LOG = logging.getLogger(__name__)

_COPIES_AT_ONCE = 16


class HttpListener(oslo_drivers.Listener):
    """Listener of an RPC server. Each listener has an endpoint with a new instance ID."""

    def __init__(self, store: sites.EndpointStore, server: servers.Server, topic: str,
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
        """Start listening, and register the endpoint in the directory."""
        with self._lock:
            super().start(on_incoming_callback)
        self._server.add(self._topic, self._endpoint.instance, self._take)
        # Registered after `add`, so that a client that finds the endpoint reaches the server.
        self._store.register(self._topic, self._name, self._endpoint)

    def stop(self) -> None:
        """Stop listening. Messages that arrived before may still be processed."""
        with self._lock:
            listened = self.on_incoming_callback is not None
            super().stop()
        if listened:
            self._server.remove(self._topic, self._endpoint.instance)
            self._store.withdraw(self._topic, self._name, self._endpoint)

    def cleanup(self) -> None:
        """Stop listening. The listener has no other resources to release."""
        self.stop()

    def _take(self, message: incoming.HttpIncomingMessage) -> bool:
        # The callback is not called under the lock, because it processes a whole call.
        with self._lock:
            take = self.on_incoming_callback
        if take is None:
            return False
        try:
            take([message])
        except threads.Ended:
            # Nothing was started. The server answers with status 421, and the client tries the
            # next endpoint.
            return False
        return True


class HttpDriver(oslo_drivers.Driver):
    """oslo.messaging driver that sends messages to their servers over HTTP, without a broker.

    :cvar without_broker: True, because messages are sent without a reachable broker
    """

    without_broker = True

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL,
                 default_exchange: str | None = None,
                 allowed_remote_exmods: list[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._site = sites.REGISTRY.join(str(url))
        self._lookup = sites.Lookup(self._site.store, self._site.clock)
        self._client = clients.Client(self._site.keys, self._site.clock)
        self._closed = False
        self._server: servers.Server | None = None

    def send(self, target: oslo_messaging.Target, ctxt: dict[str, Any], message: dict[str, Any],
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: Any = None) -> Any:
        """Send a message, and wait for the reply to a call.

        :raises NotReached: no server has executed the message, and no server will execute it
        :raises MessagingTimeout: a server may have executed the message
        :raises TypeError, ValueError: the message is not plain data, or is too large
        :raises ConfigurationError: the message would leave this host without TLS
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
            # No other server gets the message, because this server may be working on it.
            except clients.NoAnswer as error:
                raise oslo_messaging.MessagingTimeout(
                    f'No reply from {_name(target)}: {error}') from error
        raise ends.NotReached(reason)

    def send_notification(self, target: oslo_messaging.Target, ctxt: dict[str, Any],
                          message: dict[str, Any], version: float,
                          retry: int | None = None) -> None:
        """Reject a notification, which this driver does not support.

        :raises TransportDriverError: always
        """
        raise _no_notifications()

    def listen(self, target: oslo_messaging.Target, batch_size: int,
               batch_timeout: float | None) -> oslo_drivers.Listener:
        """Return a listener for a server of a topic.

        :raises ConfigurationError: the listen address is in use, or does not belong to this host,
            or the URL of the transport contains an address
        :raises NotReached: the transport is closed
        """
        listener = HttpListener(self._site.store, self._listening(), target.topic, target.server)
        self._listeners.add(listener)
        return listener

    def listen_for_notifications(
            self, targets_and_priorities: list[tuple[oslo_messaging.Target, str]],
            pool: str | None, batch_size: int,
            batch_timeout: float | None) -> oslo_drivers.Listener:
        """Reject a listener for notifications, which this driver does not support.

        :raises TransportDriverError: always
        """
        raise _no_notifications()

    def cleanup(self) -> None:
        """Stop the listeners of this transport and close its connections. Sending then fails."""
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
        listening = self._lookup.all(target.topic)
        # Checked before any copy is sent, so that a server without TLS cannot cause a partial
        # delivery.
        for endpoint in listening:
            _check_address(endpoint)
        give = functools.partial(self._send_copy, target.topic, body)
        # Sent in parallel, so that a server that does not respond delays no other server.
        with futures.ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            list(pool.map(give, listening))

    def _send_copy(self, topic: str, body: bytes, endpoint: sites.Endpoint) -> None:
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


def _check_address(endpoint: sites.Endpoint) -> None:
    """Check that messages to an endpoint do not leave this host unencrypted.

    :raises ConfigurationError: the address is not a loopback address and has no certificate
    """
    if endpoint.fingerprint is None and not sites.is_loopback(endpoint.host):
        raise errors.ConfigurationError(
            reason=f'cannot send to {endpoint.authority} without TLS: not a loopback address')
