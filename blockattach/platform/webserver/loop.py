"""Event loop of the built-in server: a single thread reads and writes on all connections.

A request gets a thread of the pool when it is complete. A client that sends or reads slowly
occupies only a connection, and is disconnected at a deadline.

A connection belongs to a single thread at any time. This is the thread of the loop while data is
read or written, and a thread of the pool while a request is processed.
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
"""Bytes to read at once.

The number exceeds the size of a TLS record, so no decrypted data remains in the TLS object. epoll
would not report such data.
"""
_CONTINUE = b'HTTP/1.1 100 Continue\r\n\r\n'
_PLAIN = (b'HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n'
          b'Content-Length: 32\r\n\r\nThis port requires HTTPS (TLS).\n')
_WAITS_FOR: dict[type[OSError], int] = {ssl.SSLWantReadError: select.EPOLLIN,
                                        ssl.SSLWantWriteError: select.EPOLLOUT}
"""Events of epoll for which TLS waits, by exception.

A write may have to wait for a read, and vice versa.
"""

Stage = incoming.Stage


class State(enum.Enum):
    """State of a connection."""

    AGREEING = 'TLS handshake'
    READING = 'receiving a request'
    ANSWERING = 'processing a request, or waiting for a thread'
    WRITING = 'sending a response'
    LEAVING = 'closing after the response, discarding received data'


class Connection:
    """Client connection.

    :ivar until: deadline on the monotonic clock, at which the connection is closed unless its
        state has changed
    :ivar waits_for: events of epoll for which the connection waits
    :ivar watched: True while the thread of the loop owns the connection and waits for these events
    :ivar kept: size in bytes of the requests that counts towards the limit
    """

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
        """Continue the TLS handshake. Return True if the handshake is complete.

        :raises OSError: the handshake failed
        """
        assert isinstance(self.socket, ssl.SSLSocket)
        try:
            self.socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
            self.waits_for = _WAITS_FOR[type(exc)]
            return False
        except OSError as exc:
            LOG.debug('Failed to complete TLS handshake%s', fields(reason=exc))
            if getattr(exc, 'reason', None) == 'HTTP_REQUEST':
                # Sent in plain text, because the client does not use TLS.
                socket.socket.send(self.socket, _PLAIN)
            raise
        self.state = State.READING
        return True

    def read(self) -> None:
        """Read and parse available data.

        :raises OSError: the connection is lost
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
            # The send buffer always has room for so few bytes.
            self.socket.send(_CONTINUE)

    def skip(self) -> bool:
        """Read and discard available data. Return False at the end of the data."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return bool(self.socket.recv(_MOST_AT_ONCE))
        return True

    def answer(self, data: bytes, closes: bool, leaves: bool) -> None:
        """Set the response that `write` sends.

        :param closes: True to close the connection after the response
        :param leaves: True if the client may still be sending
        """
        self._unsent = memoryview(data)
        self.closes = closes
        self.leaves = leaves

    def write(self) -> bool:
        """Send as much of the response as the send buffer takes.

        :returns: True if the response has been sent completely

        :raises OSError: the connection is lost
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
        """Close the sending direction. Received data is discarded from now on."""
        self.socket.shutdown(socket.SHUT_WR)
        self.state = State.LEAVING

    def cut_off(self) -> None:
        """Shut down both directions. The owner of the connection closes the socket."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()


class Loop:
    """Event loop of all connections."""

    def __init__(self, listening: socket.socket, take: Callable[[Connection], None],
                 look: Callable[[], None], *, most: int, most_body: int, most_kept: int,
                 settings: api_conf.QueueSettings, secured: tls.Certificate | None,
                 clock: clocks.Clock) -> None:
        """
        :param take: function that is called for each complete request, with the connection. The
            function removes the request from `Incoming.whole` and starts to process the request.
            The response is passed to `answered`
        :param look: function that is called about once per second while there are connections
        :param most: maximum number of connections; further connections wait to be accepted
        :param most_kept: maximum size in bytes of all incomplete or unanswered requests. The limit
            is needed because the loop keeps requests before their senders are authenticated
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
        # Guards the transfer of connections between threads, so that a connection past its
        # deadline is closed only by its owner.
        self._handing = threading.Lock()
        self._poll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._wake, select.EPOLLIN)
        self._accepts = False
        self._next_look = 0.0
        self.ending = False

    def run(self) -> None:
        """Serve connections until `end` is called and all complete requests are answered."""
        self._watch_listening(True)
        while not self.ending:
            # Without connections there are no deadlines to check, so the thread sleeps.
            self._run_once(_TICK_SECONDS if self._connections or not self._accepts else None)
        # The eventfd is never read, so `poll` would return at once from now on.
        self._poll.unregister(self._wake)
        # Clients in the backlog are connected already. Closing the socket would reset them.
        self._accept()
        self._watch_listening(False)
        self._listening.close()
        while self._connections:
            if not self._run_once(_ENDING_TICK_SECONDS):
                # No events are pending, so all received data has been read.
                for connection in self._watched(
                        lambda each: each.state in (State.AGREEING, State.READING)):
                    self.close(connection)
        self.close_listening()

    def close_listening(self) -> None:
        """Close the listening socket and the poll object, at the end of `run` or instead of it."""
        self._listening.close()
        self._poll.close()
        os.close(self._wake)

    def end(self) -> None:
        """Stop accepting connections and requests."""
        # The order matters. As soon as `ending` is set, `run` may return and close the eventfd,
        # and its number may be reused.
        os.eventfd_write(self._wake, 1)
        self.ending = True

    def cut_off(self) -> None:
        """Shut down all remaining connections."""
        for connection in list(self._connections.values()):
            connection.cut_off()

    def answered(self, connection: Connection, answer: bytes, request: incoming.Request) -> None:
        """Send the response, and continue with the next request.

        The thread that owns the connection calls this method.
        """
        self._count(connection, connection.incoming.kept)
        connection.answer(answer, request.closes or self.ending, request.leaves)
        self._guard(connection, self._write)

    def release(self, connection: Connection) -> None:
        """Remove a connection from the loop, because the hub takes over the connection.

        The thread that owns the connection calls this method.
        """
        self._count(connection, 0)
        self._connections.pop(connection.number, None)
        self._poll.unregister(connection.number)

    def close(self, connection: Connection) -> None:
        """Close a connection. The thread that owns the connection calls this method."""
        self._count(connection, 0)
        # Removed first, because the number of the socket may be reused after the close.
        self._connections.pop(connection.number, None)
        connection.close()

    def _run_once(self, seconds: float | None) -> int:
        """Wait for events and handle them. Return the number of events.

        :param seconds: timeout; None for no timeout
        """
        events = self._poll.poll(seconds)
        for number, _ in events:
            if number == self._number:
                self._accept()
            elif number != self._wake:
                connection = self._connections.get(number)
                # None if the connection was closed since `poll` returned, such as to free memory.
                if connection is not None:
                    self._guard(connection, self._go_on)
        now = self._clock.monotonic()
        if now >= self._next_look or not events:
            self._next_look = now + _TICK_SECONDS
            self._close_late(now)
            self._watch_listening(not self.ending and len(self._connections) < self._most)
            self._look()
        return len(events)

    def _guard(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Call a function with a connection. An exception closes this connection only."""
        try:
            act(connection)
        except OSError as exc:
            LOG.debug('Lost the connection to a client%s', fields(reason=exc))
            self.close(connection)
        except Exception:
            LOG.exception('Failed to serve connection')
            self.close(connection)

    def _go_on(self, connection: Connection) -> None:
        connection.watched = False
        if connection.state is State.AGREEING and not connection.agree():
            self._watch(connection)
        elif connection.state is State.READING:
            connection.read()
            self._count(connection, connection.incoming.kept)
            if self._has_room():
                self._go_to_next(connection)
            else:
                self._refuse(connection, *_NO_ROOM)
        elif connection.state is State.WRITING:
            self._write(connection)
        elif connection.skip():
            self._watch(connection)
        else:
            self.close(connection)

    def _count(self, connection: Connection, kept: int) -> None:
        if kept != connection.kept:
            with self._handing:
                self._kept += kept - connection.kept
                connection.kept = kept

    def _has_room(self) -> bool:
        """Return True if the kept requests are within the limit.

        If necessary, incomplete requests are rejected to free memory.
        """
        while self._kept > self._most_kept:
            # The oldest incomplete requests are rejected first, because legitimate clients send
            # their requests quickly.
            coming = self._watched(lambda each: each.state is State.READING and each.kept > 0)
            if not coming:
                return False
            # Compared by the start of the stage and not by `until`, because the time limit of a
            # body is longer than that of a header.
            self._guard(min(coming, key=lambda each: each.until - self._seconds[each.stage]),
                        lambda late: self._refuse(late, *_TIMED_OUT))
        return True

    def _go_to_next(self, connection: Connection) -> None:
        whole, stage = connection.incoming.whole, connection.incoming.stage
        if whole and isinstance(whole[0], incoming.Refusal):
            self._refuse(connection, whole[0].status, whole[0].reason)
        elif whole:
            connection.state = State.ANSWERING
            self._take(connection)
        elif connection.closes:
            self.close(connection)
        else:
            if stage is not connection.stage:
                connection.stage = stage
                connection.until = self._clock.monotonic() + self._seconds[stage]
            self._watch(connection)

    def _refuse(self, connection: Connection, status: str, reason: str) -> None:
        # A new parser frees the memory of the rejected request at once.
        connection.incoming = incoming.Incoming(self._most_body)
        self._count(connection, 0)
        connection.answer(gateway.plain(status, reason, self._clock.utcnow()),
                          closes=True, leaves=True)
        self._write(connection)

    def _write(self, connection: Connection) -> None:
        if connection.state is not State.WRITING:
            connection.state = State.WRITING
            connection.until = self._clock.monotonic() + _ANSWER_SECONDS
        if not connection.write():
            self._watch(connection)
        elif not connection.closes:
            connection.state = State.READING
            connection.stage = Stage.NOTHING
            connection.until = self._clock.monotonic() + self._seconds[Stage.NOTHING]
            self._go_to_next(connection)
        elif connection.leaves:
            # The kernel resets a connection that is closed with unread data, and the client would
            # lose the response.
            connection.leave()
            connection.until = self._clock.monotonic() + _LEAVE_SECONDS
            self._watch(connection)
        else:
            self.close(connection)

    def _watch(self, connection: Connection) -> None:
        """Hand a connection over to the thread of the loop, which then waits for its events.

        The calling thread must not use the connection afterwards.
        """
        with self._handing:
            connection.watched = True
            # EPOLLONESHOT, because a thread of the pool may own the connection when more data
            # arrives.
            self._poll.modify(connection.number, connection.waits_for | select.EPOLLONESHOT)

    def _close_late(self, now: float) -> None:
        for connection in self._watched(lambda each: each.until <= now):
            if connection.state is State.READING and connection.stage is not Stage.NOTHING:
                self._guard(connection, lambda late: self._refuse(late, *_TIMED_OUT))
            else:
                self.close(connection)

    def _watched(self, chosen: Callable[[Connection], bool]) -> list[Connection]:
        """Return the connections that the thread of the loop owns and that a filter accepts."""
        with self._handing:
            return [each for each in list(self._connections.values())
                    if each.watched and chosen(each)]

    def _watch_listening(self, accepts: bool) -> None:
        if accepts and not self._accepts:
            self._poll.register(self._listening, select.EPOLLIN)
        elif self._accepts and not accepts:
            self._poll.unregister(self._listening)
        self._accepts = accepts

    def _accept(self) -> None:
        while len(self._connections) < self._most:
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as exc:
                # File descriptors or memory are exhausted. Accepting continues when other
                # connections are closed.
                LOG.warning('Failed to accept connection%s', fields(reason=exc))
                break
            try:
                self._begin(sock, address)
            except OSError as exc:
                LOG.debug('Lost the connection to a client%s', fields(reason=exc))
                sock.close()
        self._watch_listening(False)

    def _begin(self, sock: socket.socket, address: Any) -> None:
        sock.setblocking(False)
        if self._secured is not None:
            sock = self._secured.wrap(sock)
        connection = Connection(sock, address, self._most_body)
        connection.until = self._clock.monotonic() + self._seconds[Stage.NOTHING]
        connection.watched = True
        self._connections[connection.number] = connection
        self._poll.register(connection.number, select.EPOLLIN | select.EPOLLONESHOT)
