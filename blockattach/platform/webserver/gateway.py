"""Gateway between parsed requests and a WSGI application."""
import datetime
import email.utils
import functools
import io
import logging
import sys
import urllib.parse
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import Protocol

from blockattach.platform.http import streams
from blockattach.platform.webserver import incoming

LOG = logging.getLogger(__name__)

Application = Callable[..., Iterable[bytes]]


class Hub(Protocol):
    """Object that takes over connections with endless responses, such as event streams."""

    def start(self) -> None:
        """Start serving connections."""

    def stop(self) -> None:
        """Close all connections."""

    def offer(self, environ: dict[str, Any]) -> None:
        """Add this hub to an environ, so that the application may use it."""

    def take(self, connection: Any, head: bytes, watch: streams.Watch) -> None:
        """Take over a connection.

        :param head: status line and headers of the response, which are not sent yet
        """


def taken(environ: dict[str, Any]) -> streams.Watch | None:
    """Return the watch for which the hub must take over the connection, or None.
    """
    watch: streams.Watch | None = environ.get(streams.TAKEN)
    return watch


# The version is left out, because it would reveal known vulnerabilities.
_SERVER = 'blockattach'
_NO_BODY = ('204', '304')
_FAILED = '500 Internal Server Error'


def environ(request: incoming.Request) -> dict[str, Any]:
    """Return the WSGI environ of a request without the part that `always` returns."""
    values = {
        **request.headers,
        'REQUEST_METHOD': request.method,
        'PATH_INFO': urllib.parse.unquote_to_bytes(request.path).decode('latin-1'),
        'QUERY_STRING': request.query.decode('latin-1'),
        'SERVER_PROTOCOL': f'HTTP/{request.version}',
        'wsgi.input': io.BytesIO(request.body),
        'wsgi.errors': sys.stderr,
    }
    if 'HTTP_CONTENT_TYPE' in values:
        values['CONTENT_TYPE'] = values.pop('HTTP_CONTENT_TYPE')
    if request.length:
        values['CONTENT_LENGTH'] = str(request.length)
    return values


def always(host: str, port: int, scheme: str) -> dict[str, Any]:
    """Return the part of the WSGI environ that all requests to an address share."""
    return {
        'SCRIPT_NAME': '',
        'SERVER_NAME': host,
        'SERVER_PORT': str(port),
        'SERVER_SOFTWARE': _SERVER,
        'wsgi.version': (1, 0),
        'wsgi.url_scheme': scheme,
        'wsgi.multithread': True,
        'wsgi.multiprocess': False,
        'wsgi.run_once': False,
        # The body was read completely, so a body in chunks has a known length.
        'wsgi.input_terminated': True,
    }


def answer(application: Application, environ: dict[str, Any], request: incoming.Request,
           now: datetime.datetime) -> bytes:
    """Return the response of the application.

    If the application fails, the response has status 500, and closes the connection.
    """
    started: list[Any] = []
    parts: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]],
                       _failure: Any = None) -> Callable[[bytes], None]:
        started[:] = status, headers
        return parts.append

    try:
        result = application(environ, start_response)
        try:
            parts.extend(result)
        finally:
            if hasattr(result, 'close'):
                result.close()
        status, headers = started
        if taken(environ) is not None:
            # The stream has no end, so no other response can follow on the connection.
            request.closes = True
            return _written(status, headers, None, request, now)
        return _written(status, headers, b''.join(parts), request, now)
    except Exception:
        LOG.exception('Failed to handle request')
        request.closes = True
        return plain(_FAILED, 'The server failed to handle the request.', now)


def plain(status: str, reason: str, now: datetime.datetime) -> bytes:
    """Return an error response of the server itself, which closes the connection."""
    return _written(status, [('Content-Type', 'text/plain; charset=UTF-8')],
                    f'{reason}\n'.encode(), None, now)


def _written(status: str, headers: list[tuple[str, str]], body: bytes | None,
             request: incoming.Request | None, now: datetime.datetime) -> bytes:
    """Return the bytes of a response.

    :param body: None for an endless body, which follows later
    :param request: None for a response of the server itself, after which the connection is closed
    """
    is_head = body is None or (request is not None and request.method == 'HEAD')
    bodiless = status[:3] in _NO_BODY
    lines = [f'HTTP/1.1 {status}']
    for name, value in headers:
        # The length of a body that is sent is computed below, because a wrong value would corrupt
        # the connection. Without a body the value of the application is kept.
        if is_head or bodiless or name.lower() != 'content-length':
            lines.append(f'{name}: {value}')
    if body is not None and not (is_head or bodiless):
        lines.append(f'Content-Length: {len(body)}')
    lines.append(f'Date: {_date(now.replace(microsecond=0))}')
    lines.append(f'Server: {_SERVER}')
    if request is None or request.closes:
        lines.append('Connection: close')
    elif request.version == '1.0':
        lines.append('Connection: keep-alive')
    lines.append('\r\n')
    head = '\r\n'.join(lines).encode('latin-1')
    return head if body is None or is_head or bodiless else head + body


@functools.lru_cache(maxsize=1)
def _date(now: datetime.datetime) -> str:
    return email.utils.format_datetime(now.replace(tzinfo=datetime.UTC), usegmt=True)
