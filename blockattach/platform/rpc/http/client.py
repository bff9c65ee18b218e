"""The sender's side: kept connections, each used by one thread at a time.

The thread that asks sends and reads by itself, so that the answer wakes it and no other. What
became of a message is one of three: an answer that is proved; the message was not sent whole, or
was refused unread, so nothing was done (`ends.NotReached`); or the outcome is unknown
(`NoAnswer`), and the message is never sent again here.
"""
import collections
import contextlib
import select
import socket
import threading
from typing import NamedTuple

from blockattach.platform import clock as clocks
from blockattach.platform.rpc import ends
from blockattach.platform.rpc.http import endpoints
from blockattach.platform.rpc.http import tls
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire

KEPT_SECONDS = 60.0
"""How long a connection may be idle and still be used: the server waits longer than that."""
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 30.0
_CAST_SECONDS = 10.0
"""Within which a server says that it has a cast."""
_LEAST_SECONDS = 0.001
_PIECE_BYTES = 65536
_EVENTS = select.POLLIN | select.POLLRDHUP

_Address = tuple[str, int, str | None]


class NoAnswer(Exception):
    """Sent whole, but what came of it is not known."""


class _Kept(NamedTuple):
    socket: socket.socket
    since: float


class Pool:
    """Connections that nobody uses, by their other end, the last used first."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[_Address, collections.deque[_Kept]] = {}
        self._closed = False

    def take(self, endpoint: endpoints.Endpoint) -> socket.socket | None:
        """One that the other side has not closed."""
        address = _address(endpoint)
        while True:
            with self._lock:
                kept = self._kept.get(address)
                if not kept:
                    return None
                found = kept.pop()
            if self._clock.monotonic() - found.since < KEPT_SECONDS and _is_quiet(found.socket):
                return found.socket
            found.socket.close()

    def give(self, endpoint: endpoints.Endpoint, connection: socket.socket) -> None:
        """Keep it."""
        with self._lock:
            if not self._closed:
                self._kept.setdefault(_address(endpoint), collections.deque()).append(
                    _Kept(connection, self._clock.monotonic()))
                return
        connection.close()

    def sweep(self) -> None:
        """Close those that became too old: nobody asks for those of a server that is gone."""
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
        """Close those that are kept, and each that comes back."""
        with self._lock:
            self._closed = True
            kept = [each for one in self._kept.values() for each in one]
            self._kept.clear()
        for each in kept:
            each.socket.close()


class Limits:
    """When a sender gives up: at its timeout, or if nothing comes for as long as ``monitor``."""

    def __init__(self, clock: clocks.Clock, timeout: float | None,
                 monitor: float | None = None) -> None:
        self.monitor = monitor
        self._clock = clock
        self._until = None if timeout is None else clock.monotonic() + timeout

    def seconds(self, most: float | None) -> float | None:
        """What is left, and no more than that; None: any time."""
        if self._until is None:
            return most
        left = max(self._until - self._clock.monotonic(), _LEAST_SECONDS)
        return left if most is None else min(left, most)

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self._until is not None and self._until <= self._clock.monotonic()


class Client:
    """Sends for one process, with its key."""

    def __init__(self, keys: trust.Keys, clock: clocks.Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._pool = Pool(clock)
        self._tls = tls.client_context()

    def ask(self, endpoint: endpoints.Endpoint, topic: str, body: bytes,
            limits: Limits) -> bytes:
        """Have a call made; the body of its answer.

        :raises NotReached: it is not, and will not be
        :raises NoAnswer: it may be
        """
        return self._send(wire.Request(topic, endpoint.authority, endpoint.instance,
                                       wire.Kind.CALL, limits.monitor, body), endpoint, limits)

    def give(self, endpoint: endpoints.Endpoint, topic: str, body: bytes) -> None:
        """Hand a cast over; raises as `ask` does."""
        self._send(wire.Request(topic, endpoint.authority, endpoint.instance, wire.Kind.CAST,
                                None, body), endpoint, Limits(self._clock, _CAST_SECONDS))

    def close(self) -> None:
        """Keep no connection any longer."""
        self._pool.close()

    def _send(self, request: wire.Request, endpoint: endpoints.Endpoint,
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

    def _sent(self, key: trust.Key, request: wire.Request, endpoint: endpoints.Endpoint,
              limits: Limits) -> tuple[socket.socket, str]:
        """Return a connection over which all of the request has gone, and its nonce.

        A kept one may break before it has; the request is not whole then, nobody acts upon it, and
        it may be sent once more, with a new proof.
        """
        def send(connection: socket.socket) -> tuple[socket.socket, str]:
            proof = trust.prove(key, self._clock, request.claims, request.body)
            return _send_all(connection, request.written(proof), limits), proof.nonce

        if limits.over:
            raise ends.NotReached('the deadline passed before the request was sent')
        if (kept := self._pool.take(endpoint)) is not None:
            with contextlib.suppress(OSError):
                return send(kept)
        try:
            return send(self._connected(endpoint, limits))
        except OSError as error:
            raise ends.NotReached(
                f'{endpoint.authority}: {error.strerror or error}') from error

    def _connected(self, endpoint: endpoints.Endpoint, limits: Limits) -> socket.socket:
        self._pool.sweep()
        fresh = socket.create_connection((endpoint.host, endpoint.port),
                                         limits.seconds(_CONNECT_SECONDS))
        with contextlib.ExitStack() as failing:
            failing.callback(fresh.close)
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
    """
    :raises NoAnswer: none came
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
    """What the answer, which is proved, brings."""
    if answer.status == (200 if request.kind is wire.Kind.CALL else 202):
        return answer.body
    if answer.status == 421:
        raise ends.NotReached('the server has stopped')
    if answer.status == 403:
        raise ends.NotReached(f'the key of this process is not valid for {request.topic}')
    raise NoAnswer(f'unexpected status {answer.status}')


def _address(endpoint: endpoints.Endpoint) -> _Address:
    """What servers of one process share."""
    return endpoint.host, endpoint.port, endpoint.fingerprint


def _is_quiet(connection: socket.socket) -> bool:
    """Whether an idle connection is still there: an end is to be read then, or what nobody asked
    for."""
    poll = select.poll()
    poll.register(connection, _EVENTS)
    return not poll.poll(0)
