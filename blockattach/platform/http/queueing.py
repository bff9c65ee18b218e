"""Layer in which requests wait for a work slot.

The layer determines how long a request has waited before it was read, and whether its client is
still connected. Linux records when data was last received on a connection, even before the
connection is accepted. The time in the listen backlog therefore counts, if the WSGI server exposes
the connection, as the built-in server and uWSGI do. With other servers, and on Unix sockets, the
wait before this layer counts as zero.
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

from blockattach.platform import admission
from blockattach.platform import errors
from blockattach.platform.http import middleware

SOCKET = 'blockattach.socket'
"""Environ key of the connection of the request, which is an object with a file descriptor."""
REFUSED = 'blockattach.refused'
"""Environ key of the error with which the request is rejected before it is started."""
DEADLINE = 'blockattach.deadline'
"""Environ key of the time on the monotonic clock at which RPC messages of the request expire."""

# struct tcp_info of Linux: 8 bytes, then fields of 4 bytes. The 12th is tcpi_last_data_recv in
# milliseconds.
_LAST_DATA_RECEIVED = struct.Struct(f'={8 + 11 * 4}xI')
_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR
_MOST_BYTES = 1048576


def admitting(admission: admission.AdmissionController, timeout: float) -> middleware.Layer:
    """Return a layer in which each request waits for a work slot before it is handled.

    The slot is released when the request has been handled. Health checks are served outside of
    this layer.

    :param timeout: timeout of RPC calls of a request, in seconds from its arrival
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
    length = request.environ.get('CONTENT_LENGTH') or ''
    # The kernel resets a connection that is closed with unread data, and the response would be
    # lost. Servers raise different errors for a failed read. The response is sent in any case.
    with contextlib.suppress(Exception):
        request.environ['wsgi.input'].read(min(int(length), _MOST_BYTES) if length else 0)


def connection_number(environ: Mapping[str, Any]) -> int:
    """Return the file descriptor of the connection, or -1 if the server does not expose it."""
    connection = environ.get(SOCKET)
    if connection is not None:
        return int(connection.fileno())
    if 'uwsgi.version' not in environ:
        return -1
    # The module exists inside of uWSGI only.
    return int(importlib.import_module('uwsgi').connection_fd())


def waited_seconds(number: int) -> float:
    """Return the seconds since data was last received on a connection, or 0 if unknown.

    :param number: file descriptor from `connection_number`
    """
    if number < 0:
        return 0.0
    try:
        # The object is only used for getsockopt, which does not depend on the address family. The
        # descriptor belongs to the server, and is detached so that it stays open.
        wrapper = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=number)
        try:
            info = wrapper.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO,
                                      _LAST_DATA_RECEIVED.size)
        finally:
            wrapper.detach()
        milliseconds: int = _LAST_DATA_RECEIVED.unpack(info)[0]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000


def is_gone(number: int) -> bool:
    """Return True if the client has closed the connection, or at least its sending direction.

    :param number: file descriptor from `connection_number`; negative if unknown
    """
    if number < 0:
        return False
    poller = select.poll()
    poller.register(number, select.POLLRDHUP)
    return any(events & _HUNG_UP for _, events in poller.poll(0))
