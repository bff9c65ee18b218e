"""One connection of the built-in server: bytes that come and go, and no thread that waits.

At any time it belongs to one thread: to that of the server while something is read or written, to
one of the pool while a request is answered.
"""
import contextlib
import enum
import logging
import select
import socket
import ssl
from typing import Any

from blockattach.http import incoming
from blockattach.log import fields

LOG = logging.getLogger(__name__)

_MOST_AT_ONCE = 65536
"""More than a record of TLS has: what was decrypted is never left behind in it."""
_CONTINUE = b'HTTP/1.1 100 Continue\r\n\r\n'
_PLAIN = (b'HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n'
          b'Content-Length: 30\r\n\r\nThis port speaks HTTPS (TLS).\n')


class State(enum.Enum):
    """What it is about."""

    AGREEING = 'the handshake of TLS'
    READING = 'a request comes'
    ANSWERING = 'a request waits for a thread, or has one'
    WRITING = 'an answer goes'
    LEAVING = 'the answer is sent; whatever still arrives is discarded'


class Connection:
    """``until`` is when it is cut, if it does not get on; ``waits_for`` are events of epoll;
    ``watched``: it is the server's thread that has it, and waits for them."""

    def __init__(self, sock: socket.socket, address: Any, most_body: int) -> None:
        self.socket = sock
        self.number = sock.fileno()
        self.address = address
        self.incoming = incoming.Incoming(most_body)
        self.state = (State.AGREEING if isinstance(sock, ssl.SSLSocket) else State.READING)
        self.stage = incoming.Stage.NOTHING
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
            self._wait(exc)
            return False
        except OSError as exc:
            LOG.debug('Cannot agree with a client on TLS%s', fields(reason=exc))
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
            self._wait(exc)
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
        with contextlib.suppress(BlockingIOError):
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
            self._wait(exc, select.EPOLLOUT)
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

    def _wait(self, exc: OSError, otherwise: int = select.EPOLLIN) -> None:
        if isinstance(exc, ssl.SSLWantReadError):
            otherwise = select.EPOLLIN
        elif isinstance(exc, ssl.SSLWantWriteError):
            otherwise = select.EPOLLOUT
        self.waits_for = otherwise
