"""HTTP server of the driver, whose port all RPC servers of a transport share.

Each connection has a thread. A message is handed over only if it is complete, has a valid proof,
and is addressed to a server that listens here. The header is verified before the body is read, so
that clients without a key cannot fill the memory. The thread that did the work sends the reply,
without waking another thread.
"""
import contextlib
import dataclasses
import enum
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import NamedTuple

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform.log import fields
from blockattach.platform.rpc.http import incoming
from blockattach.platform.rpc.http import sites
from blockattach.platform.rpc.http import tls
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire

LOG = logging.getLogger(__name__)

MOST_CONNECTIONS = 1024
IDLE_SECONDS = 120.0
"""Maximum time in seconds between two requests of a connection.

It exceeds `blockattach.platform.rpc.http.client.KEPT_SECONDS`.
"""
REQUEST_SECONDS = 30.0
"""Maximum time in seconds from the first to the last byte of a request."""
_LOOK_SECONDS = 30.0
"""Interval in seconds of the checks whether the caller of a running call is still connected."""
_LEAVE_SECONDS = 1.0
_BACKLOG = 1024
_HEADER_PIECE_BYTES = wire.HEADER_BYTES
_PIECE_BYTES = 65536
_EVENTS = select.POLLRDHUP

Address = tuple[str, int]
Take = Callable[[incoming.HttpIncomingMessage], bool]
"""Function that processes a message, or returns False if its RPC server no longer listens."""


class _State(enum.Enum):
    UNPROVED = 'unauthenticated, replaceable by a new connection'
    IDLE = 'authenticated'
    WORKS = 'processing a message'


class _Received(NamedTuple):
    request: wire.Request
    key: trust.Key
    nonce: str


class Server:
    """HTTP server that listens from its creation until `stop`."""

    def __init__(self, listen: Address, keys: trust.Keys, clock: clocks.Clock,
                 advertise: Address | None = None, most: int = MOST_CONNECTIONS) -> None:
        """
        :param listen: host and port; port 0 for any free port
        :param advertise: host and port to which clients connect; port 0 for the port of
            ``listen``; None for the host and port of ``listen``
        :param most: maximum number of connections
        :raises ConfigurationError: the address is in use, or does not belong to this host
        """
        self._clock = clock
        self._verifier = trust.Verifier(keys, clock)
        self._most = most
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._servers: dict[tuple[str, str], Take] = {}
        # Insertion order is the age: the oldest connection is first.
        self._connections: dict[socket.socket, _State] = {}
        host, port = listen
        try:
            self._listening = socket.create_server(
                listen, family=socket.AF_INET6 if ':' in host else socket.AF_INET,
                backlog=_BACKLOG)
        except OSError as error:
            raise errors.ConfigurationError(
                reason=f'cannot listen on {host}:{port}: {error.strerror or error}') from error
        shown, shown_port = advertise or listen
        self._tls: ssl.SSLContext | None = None
        fingerprint = None
        if not sites.is_loopback(shown):
            self._tls, fingerprint = tls.make_identity(clock)
        self.address = sites.Endpoint(
            shown, shown_port or self._listening.getsockname()[1], '', fingerprint)
        threading.Thread(target=self._accept, name='rpc-http-accept', daemon=True).start()

    def add(self, topic: str, instance: str, take: Take) -> None:
        with self._lock:
            self._servers[topic, instance] = take

    def remove(self, topic: str, instance: str) -> None:
        """Remove the RPC server of a topic with an instance ID. A missing server is no error."""
        with self._lock:
            self._servers.pop((topic, instance), None)

    def stop(self) -> None:
        """Stop accepting messages. Running calls are completed, then their connections close."""
        with self._lock:
            if self._stopped.is_set():
                return
            self._stopped.set()
            idle = [connection for connection, state in self._connections.items()
                    if state is not _State.WORKS]
            for connection in (self._listening, *idle):
                # The shutdown wakes the threads that wait for data. Each thread then closes its
                # own connection.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with self._listening:
            while not self._stopped.is_set():
                try:
                    connection, _ = self._listening.accept()
                except OSError as error:
                    if not self._stopped.is_set():
                        LOG.warning('Failed to accept RPC connection%s', fields(reason=error))
                        # Probably too many files are open. Wait until some of them are closed.
                        self._clock.wait(self._stopped, _LEAVE_SECONDS)
                    continue
                # A connection that was reset meanwhile must not affect other connections.
                with contextlib.suppress(OSError):
                    self._begin(connection if self._tls is None else self._tls.wrap_socket(
                        connection, server_side=True, do_handshake_on_connect=False))

    def _begin(self, connection: socket.socket) -> None:
        oldest = None
        with self._lock:
            if self._stopped.is_set():
                connection.close()
                return
            if len(self._connections) >= self._most:
                # Clients without a key must not use up the connections, so the oldest connection
                # without a proof is replaced.
                oldest = next((each for each, state in self._connections.items()
                               if state is _State.UNPROVED), None)
            if oldest is not None:
                del self._connections[oldest]
            full = len(self._connections) >= self._most
            if not full:
                self._connections[connection] = _State.UNPROVED
        if oldest is not None or full:
            LOG.warning('Rejecting RPC connection%s', fields(
                reason=f'limit of {self._most} connections reached'))
        if oldest is not None:
            # The thread of the connection closes it.
            _refuse(oldest)
        if full:
            _refuse(connection)
            connection.close()
            return
        threading.Thread(target=self._serve, args=(connection,), name='rpc-http',
                         daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        peer: str | None = None
        try:
            host, port = connection.getpeername()[:2]
            peer = f'{host}:{port}'
            # A reply is sent in one piece, so Nagle's algorithm would only delay it.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if isinstance(connection, ssl.SSLSocket):
                connection.settimeout(REQUEST_SECONDS)
                connection.do_handshake()
            while self._serve_next(connection):
                pass
        except OSError as error:
            LOG.debug('RPC connection lost%s', fields(peer=peer, reason=error))
        except Exception:
            LOG.exception('Failed to serve RPC connection%s', fields(peer=peer))
        finally:
            with self._lock:
                self._connections.pop(connection, None)
            connection.close()

    def _serve_next(self, connection: socket.socket) -> bool:
        """Serve a request. Return True if another request may follow on the connection."""
        try:
            received = self._read(connection)
        except (wire.Malformed, trust.Untrusted) as error:
            proved = not isinstance(error, trust.Untrusted)
            if proved:
                LOG.warning('Rejecting malformed RPC request%s', fields(reason=error))
            else:
                LOG.warning('Rejecting unauthenticated RPC request%s', fields(reason=error))
            self._leave(connection, wire.answer(400 if proved else 401, closes=True))
            return False
        if received is None or not self._set(connection, _State.WORKS):
            return False
        reply = incoming.Reply(connection, received.key, received.nonce)
        self._hand_over(received.request, received.key, reply)
        self._wait(connection, reply)
        return not reply.lost and self._set(connection, _State.IDLE)

    def _read(self, connection: socket.socket) -> _Received | None:
        """Read the next request. Return None if the connection is to be closed.

        :raises Malformed: the data is not a valid request
        :raises Untrusted: the request has no valid proof
        """
        reader, until = wire.RequestReader(), 0.0
        head: tuple[wire.Request, trust.Proof, trust.Key] | None = None
        connection.settimeout(IDLE_SECONDS)
        while head is None or not reader.whole:
            try:
                # `recv` allocates the whole buffer before it waits, so a connection that is idle
                # or has no proof gets a small buffer.
                data = connection.recv(_HEADER_PIECE_BYTES if head is None else _PIECE_BYTES)
            except TimeoutError:
                return None
            if not data:
                return None
            if not reader.begun:
                # The limit counts from the first byte, so that sending a byte at a time does not
                # extend the limit.
                until = self._clock.monotonic() + REQUEST_SECONDS
            reader.feed(data)
            if head is None and reader.in_body:
                head = self._prove(*reader.request())
                if not self._set(connection, _State.IDLE):
                    return None
            remaining = until - self._clock.monotonic()
            if remaining <= 0:
                return None
            connection.settimeout(remaining)
        request, proof, key = head
        trust.check_body(proof, reader.body)
        return _Received(dataclasses.replace(request, body=reader.body), key, proof.nonce)

    def _prove(self, request: wire.Request,
               proof: trust.Proof) -> tuple[wire.Request, trust.Proof, trust.Key]:
        """Check the proof of a header, and return the header with the key of the client.

        :raises Untrusted: the proof is not valid, or the request is for another server
        """
        if request.authority != self.address.authority:
            raise trust.Untrusted('the request is for another address')
        return request, proof, self._verifier.check(proof, request.claims)

    def _set(self, connection: socket.socket, state: _State) -> bool:
        """Record the state of a connection. Return False if the connection must be closed."""
        with self._lock:
            if connection not in self._connections:
                return False
            self._connections[connection] = state
            return not self._stopped.is_set()

    def _leave(self, connection: socket.socket, data: bytes) -> None:
        """Send a response. Then discard received data, for a limited time."""
        until = self._clock.monotonic() + REQUEST_SECONDS
        connection.settimeout(_LEAVE_SECONDS)
        connection.sendall(data)
        # The kernel resets a connection that is closed with unread data, and the response would be
        # lost.
        connection.shutdown(socket.SHUT_WR)
        for _ in range(wire.BODY_BYTES // _PIECE_BYTES):
            if not connection.recv(_PIECE_BYTES) or self._clock.monotonic() > until:
                return

    def _hand_over(self, request: wire.Request, key: trust.Key, reply: incoming.Reply) -> None:
        try:
            trust.check_topic(key, request.topic)
            message = incoming.HttpIncomingMessage(request, reply)
        except trust.Forbidden as error:
            LOG.warning('Rejecting forbidden RPC request%s', fields(reason=error))
            reply.end(403)
            return
        except wire.Malformed as error:
            LOG.warning('Rejecting malformed RPC request%s', fields(reason=error))
            reply.end(400)
            return
        with self._lock:
            take = self._servers.get((request.topic, request.instance))
        if take is None or not take(message):
            reply.end(421)
        elif request.kind is wire.Kind.CAST:
            reply.end(202)

    def _wait(self, connection: socket.socket, reply: incoming.Reply) -> None:
        """Wait until the reply is sent, or the caller is gone."""
        while not self._clock.wait(reply.done, _LOOK_SECONDS):
            poll = select.poll()
            poll.register(connection, _EVENTS)
            if poll.poll(0):
                reply.abandon()


def _refuse(connection: socket.socket) -> None:
    """Reject a connection because of the connection limit, and shut the connection down."""
    with contextlib.suppress(OSError):
        # Another thread may be reading from the connection. OpenSSL does not allow concurrent
        # calls on a connection, so a TLS connection gets no response.
        if not isinstance(connection, ssl.SSLSocket):
            connection.send(wire.answer(503, closes=True), socket.MSG_DONTWAIT)
        # The method of SSLSocket would also drop the TLS object, which the thread may be using.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
