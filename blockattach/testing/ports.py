"""Free ports of the loopback address for servers that a test starts later.

If the kernel chooses a port, another process may get the port once the socket is closed. The
server of the test may not listen yet, or may be restarting. Ports are therefore taken from below
the ephemeral range, and each port is reserved until this process ends.
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
# Above the ports from 13260 on, from which a service with a file backend chooses its target port.
_FIRST = 20_000
_GIVEN_BY_THE_SYSTEM = '/proc/sys/net/ipv4/ip_local_port_range'
_LOWEST_GIVEN = 32_768
_ENOUGH = 2_000


class NoPort(Exception):
    """Error of a request for more consecutive free ports than there are."""


class Ports:
    """Allocator of ports. A process reserves a port by locking one byte of a shared file."""

    def __init__(self, first: int, end: int, path: str | None = None) -> None:
        """Open the lock file.

        :param first: first port of the range
        :param end: end of the range, exclusive
        :param path: path of the lock file, or None for the file that all processes of the user
            share
        """
        self._first, self._end = first, end
        self._guard = threading.Lock()
        self._ours: set[int] = set()
        if path is None:
            path = os.path.join(tempfile.gettempdir(), f'blockattach-ports-{os.geteuid()}')
        # The file stays open, because closing it once would release all locks of the process. A
        # link of this name, which another user may have created, is not followed.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, count: int) -> range:
        """Reserve ``count`` consecutive free ports.

        :raises NoPort: if there are not enough consecutive free ports
        """
        begin = secrets.randbelow(self._end - self._first)
        with self._guard:
            for number in range(self._end - self._first):
                port = self._first + (begin + number) % (self._end - self._first)
                ports = range(port, port + count)
                if ports.stop <= self._end and all(map(self._take, ports)):
                    self._ours.update(ports)
                    return ports
        raise NoPort(f'no {count} free ports from {self._first} to {self._end}')

    def _take(self, port: int) -> bool:
        """Lock a port, and return False if the port is not free."""
        # A process can lock a byte again that it has locked itself.
        if port in self._ours:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            # Programs that do not use the lock file may listen on the port.
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
    # If the ephemeral range leaves too few ports below it, ports of that range must be used.
    return Ports(_FIRST, lowest if lowest > _FIRST + _ENOUGH else _LOWEST_GIVEN)


def free_port() -> int:
    """Return a free port, reserved until this process ends."""
    return neighbours(1)[0]


def neighbours(count: int) -> range:
    """Return ``count`` consecutive free ports, reserved until this process ends.

    :raises NoPort: if there are not enough consecutive free ports
    """
    return _ports().take(count)
