"""HTTP client of the driver, with a pool of connections.

A connection is used by one thread at a time. The calling thread sends the request and reads the
reply itself, so that the reply wakes no other thread. Sending a message has one of three outcomes:

* a reply with a valid proof
* `ends.NotReached`: the message was not sent completely, or the server rejected the message, so
  nothing was done
* `NoAnswer`: the outcome is unknown, and this module does not send the message again
"""
import collections
import contextlib
import select
import socket
import threading
from typing import NamedTuple

from blockattach.platform import clock as clocks
from blockattach.platform.rpc import ends
from blockattach.platform.rpc.http import sites
from blockattach.platform.rpc.http import tls
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire

KEPT_SECONDS = 60.0
"""Time in seconds for which an idle connection may be reused.

The server keeps an idle connection open for longer.
"""
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 30.0
_CAST_SECONDS = 10.0
"""Time in seconds within which a server must acknowledge a cast."""
_LEAST_SECONDS = 0.001
"""Minimum timeout of a socket in seconds. A timeout of 0 would make the socket non-blocking."""
_PIECE_BYTES = 65536
_EVENTS = select.POLLIN | select.POLLRDHUP

_Address = tuple[str, int, str | None]


class NoAnswer(Exception):
    """Unknown outcome of a message that was sent completely."""


class _Kept(NamedTuple):
    socket: socket.socket
    since: float


class Pool:
    """Pool of idle connections by server address.

    The most recently used connection to a server is reused first.
    """

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[_Address, collections.deque[_Kept]] = {}
        self._closed = False

    def take(self, endpoint: sites.Endpoint) -> socket.socket | None:
        """Return an idle connection that the server has not closed, or None."""
        address = _address(endpoint)
        while True:
            with self._lock:
                kept = self._kept.get(address)
                if not kept:
                    return None
                idle = kept.pop()
            if self._clock.monotonic() - idle.since < KEPT_SECONDS and _is_quiet(idle.socket):
                return idle.socket
            idle.socket.close()

    def give(self, endpoint: sites.Endpoint, connection: socket.socket) -> None:
        """Return a connection to the pool. A closed pool closes the connection."""
        with self._lock:
            if not self._closed:
                self._kept.setdefault(_address(endpoint), collections.deque()).append(
                    _Kept(connection, self._clock.monotonic()))
                return
        connection.close()

    def sweep(self) -> None:
        """Close connections that have been idle for longer than `KEPT_SECONDS`."""
        # `take` never sees the connections to a server that has stopped, so they would stay open.
        past, old = self._clock.monotonic() - KEPT_SECONDS, []
        with self._lock:
            for address, kept in list(self._kept.items()):
                while kept and kept[0].since <= past:
                    old.append(kept.popleft().socket)
                if not kept:
                    del self._kept[address]
        for each in old:
            each.close()

    def close(self) -> None:
        """Close the pool and its connections. Connections that are returned later are closed."""
        with self._lock:
            self._closed = True
            kept = [each for one in self._kept.values() for each in one]
            self._kept.clear()
        for each in kept:
            each.socket.close()


class Limits:
    """Time limits for sending a message and receiving the reply.

    :ivar monitor: seconds within which data must arrive, such as a heartbeat; None for no limit
    """

    def __init__(self, clock: clocks.Clock, timeout: float | None,
                 monitor: float | None = None) -> None:
        """
        :param timeout: seconds until the sender gives up; None for no limit
        """
        self.monitor = monitor
        self._clock = clock
        self._until = None if timeout is None else clock.monotonic() + timeout

    def seconds(self, most: float | None) -> float | None:
        """Return the seconds until the timeout of the sender, but at most ``most``.

        :param most: None for no maximum
        :returns: None if there is neither a timeout nor a maximum
        """
        if self._until is None:
            return most
        remaining = max(self._until - self._clock.monotonic(), _LEAST_SECONDS)
        return remaining if most is None else min(remaining, most)

    @property
    def over(self) -> bool:
        """True if the timeout has passed."""
        return self._until is not None and self._until <= self._clock.monotonic()


class Client:
    """HTTP client of a process, which signs requests with the key of the process."""

    def __init__(self, keys: trust.Keys, clock: clocks.Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._pool = Pool(clock)
        self._tls = tls.client_context()

    def ask(self, endpoint: sites.Endpoint, topic: str, body: bytes,
            limits: Limits) -> bytes:
        """Send a call and return the body of the reply.

        :raises NotReached: the server has not executed the call, and will not execute it
        :raises NoAnswer: the server may have executed the call
        """
        return self._send(wire.Request(topic, endpoint.authority, endpoint.instance,
                                       wire.Kind.CALL, limits.monitor, body), endpoint, limits)

    def give(self, endpoint: sites.Endpoint, topic: str, body: bytes) -> None:
        """Send a cast, and wait for its acknowledgement. The errors are those of `ask`."""
        self._send(wire.Request(topic, endpoint.authority, endpoint.instance, wire.Kind.CAST,
                                None, body), endpoint, Limits(self._clock, _CAST_SECONDS))

    def close(self) -> None:
        self._pool.close()

    def _send(self, request: wire.Request, endpoint: sites.Endpoint,
              limits: Limits) -> bytes:
        key = self._keys.own
        connection, nonce = self._sent(key, request, endpoint, limits)
        with contextlib.ExitStack() as failing:
            failing.callback(connection.close)
            answer = _read(connection, limits)
            if answer.status == 503 and not answer.proof:
                # A server cannot prove an answer before it has read a request. A process that only
                # pretends to be the server cannot have caused any work either.
                raise ends.NotReached('the server has too many connections')
            if not trust.is_proved(key, nonce, answer.status, answer.body, answer.proof):
                raise NoAnswer(f'a reply with status {answer.status} has no valid proof')
            if not answer.closes:
                failing.pop_all()
                self._pool.give(endpoint, connection)
        return _content(request, answer)

    def _sent(self, key: trust.Key, request: wire.Request, endpoint: sites.Endpoint,
              limits: Limits) -> tuple[socket.socket, str]:
        """Send the complete request, and return its connection and its nonce.

        :raises NotReached: the complete request could not be sent
        """
        def send(connection: socket.socket) -> tuple[socket.socket, str]:
            proof = trust.prove(key, self._clock, request.claims, request.body)
            return _send_all(connection, request.written(proof), limits), proof.nonce

        if limits.over:
            raise ends.NotReached('the deadline passed before the request was sent')
        if (kept := self._pool.take(endpoint)) is not None:
            # An idle connection may break before the request is complete. The server does not act
            # on an incomplete request, so the request is sent once more on a new connection, with
            # a new proof.
            with contextlib.suppress(OSError):
                return send(kept)
        try:
            return send(self._connected(endpoint, limits))
        except OSError as error:
            raise ends.NotReached(
                f'{endpoint.authority}: {error.strerror or error}') from error

    def _connected(self, endpoint: sites.Endpoint, limits: Limits) -> socket.socket:
        # Old connections are closed here, because the client has no thread of its own for that.
        self._pool.sweep()
        fresh = socket.create_connection((endpoint.host, endpoint.port),
                                         limits.seconds(_CONNECT_SECONDS))
        with contextlib.ExitStack() as failing:
            failing.callback(fresh.close)
            # A request is sent in one piece, so Nagle's algorithm would only delay it.
            fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if endpoint.fingerprint is not None:
                fresh = tls.connect(self._tls, fresh, endpoint.fingerprint)
            failing.pop_all()
        return fresh


def _send_all(connection: socket.socket, data: bytes, limits: Limits) -> socket.socket:
    with contextlib.ExitStack() as failing:
        failing.callback(connection.close)
        connection.settimeout(limits.seconds(_SEND_SECONDS))
        connection.sendall(data)
        failing.pop_all()
    return connection


def _read(connection: socket.socket, limits: Limits) -> wire.Answer:
    """Read the reply.

    :raises NoAnswer: no valid reply came in time
    """
    reader = wire.AnswerReader()
    try:
        while not reader.whole:
            if limits.over:
                raise NoAnswer('the deadline passed')
            connection.settimeout(limits.seconds(limits.monitor))
            data = connection.recv(_PIECE_BYTES)
            if not data:
                raise NoAnswer('the connection was closed before the reply')
            reader.feed(data)
    except TimeoutError:
        raise NoAnswer('no data was received in time') from None
    except OSError as error:
        raise NoAnswer(f'the connection was lost: {error.strerror or error}') from error
    except wire.Malformed as error:
        raise NoAnswer(f'the reply is malformed: {error}') from error
    return reader.answer()


def _content(request: wire.Request, answer: wire.Answer) -> bytes:
    """Return the body of a reply with a valid proof, or raise the error for its status.

    :raises NotReached: the server has rejected the request
    :raises NoAnswer: the status is unexpected
    """
    if answer.status == (200 if request.kind is wire.Kind.CALL else 202):
        return answer.body
    if answer.status == 421:
        raise ends.NotReached('the server has stopped')
    if answer.status == 403:
        raise ends.NotReached(f'the key of this process is not valid for {request.topic}')
    raise NoAnswer(f'unexpected status {answer.status}')


def _address(endpoint: sites.Endpoint) -> _Address:
    # The instance is left out, so that servers of the same process share their connections.
    return endpoint.host, endpoint.port, endpoint.fingerprint


def _is_quiet(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, _EVENTS)
    # No data is expected on an idle connection. Readable data is either the end of the connection
    # or was not requested, so the connection is not used again in both cases.
    return not poll.poll(0)
