"""Page at ``/map`` that draws volumes with the hosts and servers that use them.

A WSGI layer around the whole API serves the page, because the page needs neither a token nor the
database. The page, its style sheet and its scripts are in the directory of this module. The
scripts read their data from the API like any other client.
"""
import hashlib
from collections.abc import Callable
from collections.abc import Iterable
from importlib import resources
from typing import Any
from typing import NamedTuple

from blockattach.platform.http import conditional

PATH = '/map'
TYPES = {'html': 'text/html', 'css': 'text/css', 'js': 'text/javascript', 'svg': 'image/svg+xml'}
"""Content types of the served files, by file name suffix."""
POLICY = '; '.join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    # No form can send the token, even if the script could not be loaded.
    "form-action 'none'",
    "frame-ancestors 'none'",
    # Text is never interpreted as markup or script.
    "require-trusted-types-for 'script'", "trusted-types 'none'"))
_PAGE = 'index.html'
_HEADERS = (('Content-Security-Policy', POLICY),
            ('X-Content-Type-Options', 'nosniff'),
            ('Referrer-Policy', 'no-referrer'),
            ('Cross-Origin-Opener-Policy', 'same-origin'),
            ('Cross-Origin-Resource-Policy', 'same-origin'),
            # Browsers revalidate by ETag, so that an upgrade never mixes old and new files.
            ('Cache-Control', 'no-cache'))

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _File(NamedTuple):
    content: bytes
    headers: tuple[tuple[str, str], ...]
    tag: str


def with_map(application: Wsgi) -> Wsgi:
    """Return a WSGI application that serves ``/map``.

    :param application: WSGI application to which all other requests are passed
    """
    files = dict(_read())

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        file = files.get(environ.get('PATH_INFO', ''))
        if file is None:
            return application(environ, start_response)
        method = environ['REQUEST_METHOD']
        if method not in ('GET', 'HEAD'):
            start_response('405 Method Not Allowed',
                           [('Allow', 'GET, HEAD'), ('Content-Length', '0')])
            return []
        headers = [*_HEADERS, ('ETag', file.tag)]
        if conditional.has(environ.get('HTTP_IF_NONE_MATCH'), file.tag):
            # The response has no body, and therefore neither Content-Type nor Content-Length.
            start_response('304 Not Modified', headers)
            return []
        start_response('200 OK', [*headers, *file.headers])
        return [] if method == 'HEAD' else [file.content]
    return answer


def _read() -> Iterable[tuple[str, _File]]:
    """Yield the URL path and the content of each file to serve."""
    for found in resources.files(__name__).iterdir():
        kind = TYPES.get(found.name.rpartition('.')[2])
        if kind is not None:
            content = found.read_bytes()
            yield PATH if found.name == _PAGE else f'{PATH}/{found.name}', _File(
                content, (('Content-Type', f'{kind}; charset=UTF-8'),
                          ('Content-Length', str(len(content)))),
                f'"{hashlib.sha256(content).hexdigest()[:32]}"')
