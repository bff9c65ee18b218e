"""The layer in which a request waits for a work slot, and how the request came: how long it has
waited before anybody read it, and whether its client still is there.

Linux knows when data of a connection came last, also of one that nobody has accepted yet: so the
time in the listen backlog of any server counts, if the server lets us see the connection. Ours
does, and uWSGI does; of another one, and of a Unix socket, nothing is known but that the request
is here.
"""
import contextlib
import functools
import importlib
import select
import socket
import struct
from collections.abc import Mapping
from typing import Any

import webob

from blockattach.platform import errors
from blockattach.platform.admission import controller
from blockattach.platform.http import middleware

SOCKET = 'blockattach.socket'
"""The connection of a request, in its environ: what has a number of a file."""
REFUSED = 'blockattach.refused'
"""In its environ: the error that a request is answered with, instead of being begun."""
DEADLINE = 'blockattach.deadline'
"""In its environ: when the RPC messages sent for it expire, on the monotonic clock."""

# struct tcp_info of Linux: 8 bytes, then numbers of 4; the 12th is in milliseconds.
_LAST_DATA_RECEIVED = struct.Struct(f'={8 + 11 * 4}xI')
_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR
_MOST_BYTES = 1048576


def admitting(admission: controller.AdmissionController, timeout: float) -> middleware.Layer:
    """Pass a request on when it has a work slot; health checks do not come here.

    :param timeout: seconds of an RPC call; what the request has waited already is taken off
    """
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            refused = environ.get(REFUSED)
            try:
                if refused is not None:
                    raise refused
                number = connection_number(environ)
                waited = waited_seconds(number)
                environ[DEADLINE] = admission.clock.monotonic() - waited + timeout
                with admission.slot(waited, functools.partial(is_gone, number)):
                    return inner(request)
            except errors.Overloaded:
                _read_to_end(request)
                raise
        return handle
    return layer


def _read_to_end(request: webob.Request) -> None:
    """Read the body: a connection closed with unread bytes is reset, and the answer is lost."""
    length = request.environ.get('CONTENT_LENGTH') or ''
    # Servers differ in what they raise; the answer is sent all the same.
    with contextlib.suppress(Exception):
        request.environ['wsgi.input'].read(min(int(length), _MOST_BYTES) if length else 0)


def connection_number(environ: Mapping[str, Any]) -> int:
    """The file of the connection; negative: it cannot be known."""
    connection = environ.get(SOCKET)
    if connection is not None:
        return int(connection.fileno())
    if 'uwsgi.version' not in environ:
        return -1
    # The module exists inside of uWSGI only.
    return int(importlib.import_module('uwsgi').connection_fd())


def waited_seconds(number: int) -> float:
    """Seconds since the request came; 0 if that cannot be known."""
    if number < 0:
        return 0.0
    try:
        # Only a way to ask: that it would be one over IPv4 matters to nobody, and it stays open.
        asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=number)
        try:
            info = asked.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED.size)
        finally:
            asked.detach()
        milliseconds: int = _LAST_DATA_RECEIVED.unpack(info)[0]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000


def is_gone(number: int) -> bool:
    """Whether the other end has closed, or sends nothing more, as one that has given up."""
    if number < 0:
        return False
    asked = select.poll()
    asked.register(number, select.POLLRDHUP)
    return any(events & _HUNG_UP for _, events in asked.poll(0))
