"""Ports of the loopback address for what a test starts later, here or in another process.

A port that the system has chosen is free again as soon as it is closed: another process may get it
before our server listens, or while it is restarted. So ports are taken from below those that the
system hands out, and each is this process's own until it ends: others that ask here are given
another one.
"""
import contextlib
import fcntl
import functools
import os
import secrets
import socket
import tempfile
import threading

LOOPBACK = '127.0.0.1'
# Above the first free port from 13260 on, which services on files find by themselves.
_FIRST = 20_000
_GIVEN_BY_THE_SYSTEM = '/proc/sys/net/ipv4/ip_local_port_range'
_LOWEST_GIVEN = 32_768
_ENOUGH = 2_000


class NoPort(Exception):
    """So many in a row are not free."""


class Ports:
    """Each port is a byte of one file; its owner holds a lock on that byte."""

    def __init__(self, first: int, end: int, path: str | None = None) -> None:
        """
        :param path: of the file; None: the shared one of this machine
        """
        self._first, self._end = first, end
        self._guard = threading.Lock()
        self._ours: set[int] = set()
        if path is None:
            path = os.path.join(tempfile.gettempdir(), f'blockattach-ports-{os.geteuid()}')
        # Kept open: the locks of a process end when it closes the file for the first time.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, count: int) -> range:
        """So many in a row.

        :raises NoPort: there are none
        """
        begin = secrets.randbelow(self._end - self._first)
        with self._guard:
            for number in range(self._end - self._first):
                port = self._first + (begin + number) % (self._end - self._first)
                found = range(port, port + count)
                if found.stop <= self._end and all(map(self._take, found)):
                    self._ours.update(found)
                    return found
        raise NoPort(f'no {count} free ports from {self._first} to {self._end}')

    def _take(self, port: int) -> bool:
        """Take a port; False: it is not free."""
        if port in self._ours:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            with socket.socket() as probe:
                probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


@functools.cache
def _ports() -> Ports:
    lowest = _LOWEST_GIVEN
    with contextlib.suppress(OSError), open(_GIVEN_BY_THE_SYSTEM, encoding='ascii') as file:
        lowest = int(file.read().split()[0])
    # Where the system gives away nearly all of them, those that it gives are as good as any.
    return Ports(_FIRST, lowest if lowest > _FIRST + _ENOUGH else _LOWEST_GIVEN)


def free_port() -> int:
    """One that nobody listens on, and that nobody else is given before this process ends."""
    return neighbours(1)[0]


def neighbours(count: int) -> range:
    """So many free ports in a row.

    :raises NoPort: there are none
    """
    return _ports().take(count)
