"""Between a request that was read and a WSGI application: what it is asked, what it answers."""
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
    """Takes connections over whose answers have no end."""

    def start(self) -> None:
        """Serve what is taken."""

    def stop(self) -> None:
        """End all of it."""

    def offer(self, environ: dict[str, Any]) -> None:
        """Let an application know that it may answer so."""

    def take(self, connection: Any, head: bytes, watch: streams.Watch) -> None:
        """Take a connection over; nothing of its answer is sent yet but what is given here."""


def taken(environ: dict[str, Any]) -> streams.Watch | None:
    """What the application wants a connection to be taken over for; None: it has answered."""
    found: streams.Watch | None = environ.get(streams.TAKEN)
    return found


# Without a version: it would say which weaknesses to try.
_SERVER = 'blockattach'
_NO_BODY = ('204', '304')
_FAILED = '500 Internal Server Error'


def environ(request: incoming.Request) -> dict[str, Any]:
    """What the application is asked, besides what is `always` so."""
    made = {
        **request.headers,
        'REQUEST_METHOD': request.method,
        'PATH_INFO': urllib.parse.unquote_to_bytes(request.path).decode('latin-1'),
        'QUERY_STRING': request.query.decode('latin-1'),
        'SERVER_PROTOCOL': f'HTTP/{request.version}',
        'wsgi.input': io.BytesIO(request.body),
        'wsgi.errors': sys.stderr,
    }
    if 'HTTP_CONTENT_TYPE' in made:
        made['CONTENT_TYPE'] = made.pop('HTTP_CONTENT_TYPE')
    if request.length:
        made['CONTENT_LENGTH'] = str(request.length)
    return made


def always(host: str, port: int, scheme: str) -> dict[str, Any]:
    """What is so for each request to an address."""
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
        # What was sent in chunks has a length by now.
        'wsgi.input_terminated': True,
    }


def answer(application: Application, asked: dict[str, Any], request: incoming.Request,
           now: datetime.datetime) -> bytes:
    """What the application answers; if it cannot, 500, and the connection ends."""
    started: list[Any] = []
    parts: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]],
                       _failure: Any = None) -> Callable[[bytes], None]:
        started[:] = status, headers
        return parts.append

    try:
        result = application(asked, start_response)
        try:
            parts.extend(result)
        finally:
            if hasattr(result, 'close'):
                result.close()
        status, headers = started
        if taken(asked) is not None:
            request.closes = True
            return _written(status, headers, None, request, now)
        return _written(status, headers, b''.join(parts), request, now)
    except Exception:
        LOG.exception('Failed to handle request')
        request.closes = True
        return plain(_FAILED, 'The server failed to handle the request.', now)


def plain(status: str, reason: str, now: datetime.datetime) -> bytes:
    """What the server says itself, in the end."""
    return _written(status, [('Content-Type', 'text/plain; charset=UTF-8')],
                    f'{reason}\n'.encode(), None, now)


def _written(status: str, headers: list[tuple[str, str]], body: bytes | None,
             request: incoming.Request | None, now: datetime.datetime) -> bytes:
    """:param body: None: it follows, and has no end"""
    is_head = body is None or (request is not None and request.method == 'HEAD')
    bodiless = status[:3] in _NO_BODY
    lines = [f'HTTP/1.1 {status}']
    for name, value in headers:
        # Where the body ends must be true. Of one that is not sent, it is what it would be.
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
