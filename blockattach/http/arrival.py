"""How a request came: how long it has waited before anybody read it, and whether its client still
is there.

Linux knows when data of a connection came last, also of one that nobody has accepted yet: so the
time in the listen backlog of any server counts, if the server lets us see the connection. Ours
does, and uWSGI does; of another one, and of a Unix socket, nothing is known but that the request
is here.
"""
import functools
import importlib
import select
import socket
import struct
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

SOCKET = 'blockattach.socket'
"""The connection of a request, in its environ: what has a number of a file."""
REFUSED = 'blockattach.refused'
"""In its environ: the error that a request is answered with, instead of being begun."""

# struct tcp_info of Linux: 8 bytes, then numbers of 4; the 12th is in milliseconds.
_LAST_DATA_RECEIVED = 8 + 11 * 4
_NUMBER = struct.Struct('=I')
_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Arrival(NamedTuple):
    """``waited`` in seconds; ``gone`` is asked later, or never."""

    waited: float
    gone: Callable[[], bool]


def _here() -> bool:
    return False


UNKNOWN = Arrival(0.0, _here)
"""Nothing can be known: it came just now, and its client is there."""


def of(environ: Mapping[str, Any]) -> Arrival:
    """How the request of this environ came."""
    number = _number(environ)
    if number is None or number < 0:
        return UNKNOWN
    return Arrival(_waited(number), functools.partial(_gone, number))


def _number(environ: Mapping[str, Any]) -> int | None:
    """The connection's file."""
    connection = environ.get(SOCKET)
    if connection is not None:
        return int(connection.fileno())
    if 'uwsgi.version' in environ:
        return int(_uwsgi().connection_fd())
    return None


@functools.cache
def _uwsgi() -> Any:
    """The module that exists inside of uWSGI only."""
    return importlib.import_module('uwsgi')


def _waited(number: int) -> float:
    try:
        # Only a way to ask: that it would be one over IPv4 matters to nobody, and it stays open.
        asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=number)
        try:
            info = asked.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO,
                                    _LAST_DATA_RECEIVED + _NUMBER.size)
        finally:
            asked.detach()
    except OSError:
        return 0.0
    if len(info) < _LAST_DATA_RECEIVED + _NUMBER.size:
        return 0.0
    milliseconds: int = _NUMBER.unpack_from(info, _LAST_DATA_RECEIVED)[0]
    return milliseconds / 1000


def _gone(number: int) -> bool:
    """Whether the other end has closed, or sends nothing more, as one that has given up."""
    asked = select.poll()
    asked.register(number, select.POLLRDHUP)
    return any(events & _HUNG_UP for _, events in asked.poll(0))
