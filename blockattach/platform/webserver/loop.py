"""The one thread of the built-in server that reads and writes, for all connections.

A request gets a thread of the pool when it is whole. A client that sends or reads slowly
costs a connection, and is cut at a deadline.

At any time a connection belongs to one thread: to that of the server while something is read or
written, to one of the pool while a request is answered.
"""
import contextlib
import enum
import logging
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from blockattach.platform import clock as clocks
from blockattach.platform.conf import api as api_conf
from blockattach.platform.log import fields
from blockattach.platform.webserver import gateway
from blockattach.platform.webserver import incoming
from blockattach.platform.webserver import tls

LOG = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_ENDING_TICK_SECONDS = 0.05
_ANSWER_SECONDS = 120
_LEAVE_SECONDS = 2
_NO_ROOM = ('503 Service Unavailable',
            'Too many requests are being received. Repeat the request later.')
_TIMED_OUT = '408 Request Timeout', 'The request was not received in time.'
_MOST_AT_ONCE = 65536
"""More than a record of TLS has: what was decrypted is never left behind in it."""
_CONTINUE = b'HTTP/1.1 100 Continue\r\n\r\n'
_PLAIN = (b'HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n'
          b'Content-Length: 32\r\n\r\nThis port requires HTTPS (TLS).\n')
_WAITS_FOR: dict[type[OSError], int] = {ssl.SSLWantReadError: select.EPOLLIN,
                                        ssl.SSLWantWriteError: select.EPOLLOUT}
"""TLS may have to read before it can write, and to write before it can read."""

Stage = incoming.Stage


class State(enum.Enum):
    """What it is about."""

    AGREEING = 'TLS handshake'
    READING = 'receiving a request'
    ANSWERING = 'processing a request, or waiting for a thread'
    WRITING = 'sending a response'
    LEAVING = 'closing after the response, discarding received data'


class Connection:
    """``until`` is when it is cut, if it does not get on; ``waits_for`` are events of epoll;
    ``watched``: the server's thread owns the connection, and waits for these events; ``kept``
    is the size of its requests that counts towards the limit."""

    def __init__(self, sock: socket.socket, address: Any, most_body: int) -> None:
        self.socket = sock
        self.number = sock.fileno()
        self.address = address
        self.incoming = incoming.Incoming(most_body)
        self.kept = 0
        self.state = (State.AGREEING if isinstance(sock, ssl.SSLSocket) else State.READING)
        self.stage = Stage.NOTHING
        self.until = 0.0
        self.waits_for = select.EPOLLIN
        self.watched = False
        self.closes = False
        self.leaves = False
        self._unsent = memoryview(b'')

    def agree(self) -> bool:
        """Whether the handshake is done.

        :raises OSError: it never will be
        """
        assert isinstance(self.socket, ssl.SSLSocket)
        try:
            self.socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
            self.waits_for = _WAITS_FOR[type(exc)]
            return False
        except OSError as exc:
            LOG.debug('TLS handshake failed%s', fields(reason=exc))
            if getattr(exc, 'reason', None) == 'HTTP_REQUEST':
                # Past the encryption that was never begun.
                socket.socket.send(self.socket, _PLAIN)
            raise
        self.state = State.READING
        return True

    def read(self) -> None:
        """Take what has come.

        :raises OSError: the client is lost
        """
        try:
            data = self.socket.recv(_MOST_AT_ONCE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
            self.waits_for = _WAITS_FOR.get(type(exc), select.EPOLLIN)
            return
        self.waits_for = select.EPOLLIN
        if data:
            self.incoming.feed(data)
        else:
            self.incoming.end()
            self.closes = True
        if self.incoming.expects() and not self.incoming.whole:
            # So little always has room.
            self.socket.send(_CONTINUE)

    def skip(self) -> bool:
        """Read and discard; False: that was all."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return bool(self.socket.recv(_MOST_AT_ONCE))
        return True

    def answer(self, data: bytes, closes: bool, leaves: bool) -> None:
        """Have this sent.

        :param leaves: the client may be sending still
        """
        self._unsent = memoryview(data)
        self.closes = closes
        self.leaves = leaves

    def write(self) -> bool:
        """Send as much as has room; whether that was all.

        :raises OSError: the client is lost
        """
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent):]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
            self.waits_for = _WAITS_FOR.get(type(exc), select.EPOLLOUT)
            return False
        self._unsent = memoryview(b'')
        self.waits_for = select.EPOLLIN
        return True

    def leave(self) -> None:
        """Nothing more is sent."""
        self.socket.shutdown(socket.SHUT_WR)
        self.state = State.LEAVING

    def cut_off(self) -> None:
        """Nothing more comes or goes."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The end."""
        with contextlib.suppress(OSError):
            self.socket.close()


class Loop:
    """Connections, from the first byte to the last."""

    def __init__(self, listening: socket.socket, take: Callable[[Connection], None],
                 look: Callable[[], None], *, most: int, most_body: int, most_kept: int,
                 settings: api_conf.QueueSettings, secured: tls.Certificate | None,
                 clock: clocks.Clock) -> None:
        """
        :param take: has the first whole request of a connection answered, by `answered`
        :param look: called about once a second
        :param most: how many connections there are at most; others wait to be accepted
        :param most_kept: maximum size of all unanswered requests, whose senders are not
            authenticated yet
        """
        self._listening = listening
        self._number = listening.fileno()
        self._take = take
        self._look = look
        self._most = most
        self._most_body = most_body
        self._most_kept = most_kept
        self._kept = 0
        self._seconds = {Stage.NOTHING: settings.header_timeout,
                         Stage.HEADER: settings.header_timeout, Stage.BODY: settings.body_timeout}
        self._secured = secured
        self._clock = clock
        self._connections: dict[int, Connection] = {}
        # A connection that is late is this thread's as a whole, or not yet.
        self._handing = threading.Lock()
        self._poll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._wake, select.EPOLLIN)
        self._accepts = False
        self._next_look = 0.0
        self.ending = False

    def run(self) -> None:
        """Return when `end` was called and all that was whole is answered."""
        self._watch_listening(True)
        while not self.ending:
            # Without deadlines there is nothing to check.
            self._run_once(_TICK_SECONDS if self._connections or not self._accepts else None)
        self._poll.unregister(self._wake)
        self._accept()
        self._watch_listening(False)
        self._listening.close()
        while self._connections:
            if not self._run_once(_ENDING_TICK_SECONDS):
                # What was sent has been read.
                for one in self._watched(lambda one: one.state in (State.AGREEING,
                                                                   State.READING)):
                    self.close(one)
        self.close_listening()

    def close_listening(self) -> None:
        """Close the listening socket and the poll; called where `run` never was."""
        self._listening.close()
        self._poll.close()
        os.close(self._wake)

    def end(self) -> None:
        """Take no more."""
        # In this order: `run` may be over, and the number another one's, as soon as it is ending.
        os.eventfd_write(self._wake, 1)
        self.ending = True

    def cut_off(self) -> None:
        """What does not come to its end has it now."""
        for one in list(self._connections.values()):
            one.cut_off()

    def answered(self, one: Connection, answer: bytes, request: incoming.Request) -> None:
        """Send it, and go on with what comes next; by any thread that has the connection."""
        self._count(one, one.incoming.kept)
        one.answer(answer, request.closes or self.ending, request.leaves)
        self._guard(one, self._write)

    def release(self, one: Connection) -> None:
        """Let another owner have a connection, by the thread that has it."""
        self._count(one, 0)
        self._connections.pop(one.number, None)
        self._poll.unregister(one.number)

    def close(self, one: Connection) -> None:
        """End a connection, by the thread that has it."""
        self._count(one, 0)
        # Its number is another one's from now on.
        self._connections.pop(one.number, None)
        one.close()

    def _run_once(self, seconds: float | None) -> int:
        """How many events there were."""
        events = self._poll.poll(seconds)
        for number, _ in events:
            if number == self._number:
                self._accept()
            elif number != self._wake and (one := self._connections.get(number)) is not None:
                # Otherwise the connection was closed to free memory.
                self._guard(one, self._go_on)
        now = self._clock.monotonic()
        if now >= self._next_look or not events:
            self._next_look = now + _TICK_SECONDS
            self._close_late(now)
            self._watch_listening(not self.ending and len(self._connections) < self._most)
            self._look()
        return len(events)

    def _guard(self, one: Connection, act: Callable[[Connection], None]) -> None:
        """What goes wrong on one connection ends that one only."""
        try:
            act(one)
        except OSError as exc:
            LOG.debug('Lost the connection to a client: %s', exc)
            self.close(one)
        except Exception:
            LOG.exception('Failed to serve connection')
            self.close(one)

    def _go_on(self, one: Connection) -> None:
        one.watched = False
        if one.state is State.AGREEING and not one.agree():
            self._watch(one)
        elif one.state is State.READING:
            one.read()
            self._count(one, one.incoming.kept)
            if self._has_room():
                self._go_to_next(one)
            else:
                self._refuse(one, *_NO_ROOM)
        elif one.state is State.WRITING:
            self._write(one)
        elif one.skip():
            self._watch(one)
        else:
            self.close(one)

    def _count(self, one: Connection, kept: int) -> None:
        if kept != one.kept:
            with self._handing:
                self._kept += kept - one.kept
                one.kept = kept

    def _has_room(self) -> bool:
        """Return True if the kept requests are within the limit.

        Above the limit, the oldest incomplete requests are rejected first, because legitimate
        clients send their requests quickly."""
        while self._kept > self._most_kept:
            coming = self._watched(lambda one: one.state is State.READING and one.kept > 0)
            if not coming:
                return False
            # Not by `until`, because the time limit of a body is longer than that of a header.
            self._guard(min(coming, key=lambda one: one.until - self._seconds[one.stage]),
                        lambda late: self._refuse(late, *_TIMED_OUT))
        return True

    def _go_to_next(self, one: Connection) -> None:
        """Answer what is whole, or read on."""
        whole, stage = one.incoming.whole, one.incoming.stage
        if whole and isinstance(whole[0], incoming.Refusal):
            self._refuse(one, whole[0].status, whole[0].reason)
        elif whole:
            one.state = State.ANSWERING
            self._take(one)
        elif one.closes:
            self.close(one)
        else:
            if stage is not one.stage:
                one.stage = stage
                one.until = self._clock.monotonic() + self._seconds[stage]
            self._watch(one)

    def _refuse(self, one: Connection, status: str, reason: str) -> None:
        one.incoming = incoming.Incoming(self._most_body)
        self._count(one, 0)
        one.answer(gateway.plain(status, reason, self._clock.utcnow()), closes=True, leaves=True)
        self._write(one)

    def _write(self, one: Connection) -> None:
        if one.state is not State.WRITING:
            one.state = State.WRITING
            one.until = self._clock.monotonic() + _ANSWER_SECONDS
        if not one.write():
            self._watch(one)
        elif not one.closes:
            one.state = State.READING
            one.stage = Stage.NOTHING
            one.until = self._clock.monotonic() + self._seconds[Stage.NOTHING]
            self._go_to_next(one)
        elif one.leaves:
            # To close with something unread would take the answer from the client.
            one.leave()
            one.until = self._clock.monotonic() + _LEAVE_SECONDS
            self._watch(one)
        else:
            self.close(one)

    def _watch(self, one: Connection) -> None:
        """From here on it is this thread's, at once: the last that another one does with it."""
        with self._handing:
            one.watched = True
            self._poll.modify(one.number, one.waits_for | select.EPOLLONESHOT)

    def _close_late(self, now: float) -> None:
        for one in self._watched(lambda one: one.until <= now):
            if one.state is State.READING and one.stage is not Stage.NOTHING:
                self._guard(one, lambda late: self._refuse(late, *_TIMED_OUT))
            else:
                self.close(one)

    def _watched(self, chosen: Callable[[Connection], bool]) -> list[Connection]:
        """Those that no other thread has, nor is about to hand over."""
        with self._handing:
            return [one for one in list(self._connections.values())
                    if one.watched and chosen(one)]

    def _watch_listening(self, wanted: bool) -> None:
        if wanted and not self._accepts:
            self._poll.register(self._listening, select.EPOLLIN)
        elif self._accepts and not wanted:
            self._poll.unregister(self._listening)
        self._accepts = wanted

    def _accept(self) -> None:
        """As many as have come, and as there may be."""
        while len(self._connections) < self._most:
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as exc:
                # Files or memory are exhausted; it continues when others have ended.
                LOG.warning('Failed to accept connection%s', fields(reason=exc))
                break
            try:
                self._begin(sock, address)
            except OSError as exc:
                LOG.debug('Lost the connection to a client: %s', exc)
                sock.close()
        self._watch_listening(False)

    def _begin(self, sock: socket.socket, address: Any) -> None:
        sock.setblocking(False)
        if self._secured is not None:
            sock = self._secured.wrap(sock)
        one = Connection(sock, address, self._most_body)
        one.until = self._clock.monotonic() + self._seconds[Stage.NOTHING]
        one.watched = True
        self._connections[one.number] = one
        self._poll.register(one.number, select.EPOLLIN | select.EPOLLONESHOT)
