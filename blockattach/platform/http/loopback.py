"""Requests from this machine: all that an API without authentication may serve.

Web pages in a browser on this machine are not included: their requests are refused (cross-site
request forgery), and so are host names that resolve to this machine (DNS rebinding).
"""
import functools
import ipaddress
import socket
from collections.abc import Collection
from typing import Any
from urllib import parse

import webob

from blockattach.platform import errors
from blockattach.platform.http import middleware
from blockattach.platform.http import responses

_ANY_ORIGIN = '*'
_HOST_NAME = 'localhost'
_OWN_SITE = ('same-origin', 'none')

_Environ = dict[str, Any]

_WITHOUT = 'Without authentication ([api] auth_strategy = noauth) '
NOT_HERE = _WITHOUT + 'only clients on the same machine are served.'
OTHER_NAME = _WITHOUT + 'the header Host must be localhost or a loopback address.'
FROM_OTHER = _WITHOUT + 'requests of web pages are served only from [cors] allowed_origin.'


@functools.lru_cache
def is_loopback(address: str) -> bool:
    """Whether an address belongs to the machine itself, and is reached from there only."""
    try:
        found = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return False
    # As a socket for both families tells a client of IPv4.
    return (getattr(found, 'ipv4_mapped', None) or found).is_loopback


def stands_for_loopback(host: str) -> bool:
    """Whether an address or name stands for nothing but loopback addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return False
    return bool(found) and all(is_loopback(str(place[4][0])) for place in found)


@functools.lru_cache
def is_local_name(host: str) -> bool:
    """Whether a header Host names this machine without a DNS query, whose answer may be forged
    (RFC 6761 reserves ``localhost``)."""
    try:
        name = parse.urlsplit(f'//{host}').hostname or ''
    except ValueError:
        return False
    return name == _HOST_NAME or name.endswith(f'.{_HOST_NAME}') or is_loopback(name)


def serve_locally(allowed_origins: Collection[str] = ()) -> middleware.Layer:
    """Refuse requests from other machines, and of web pages of other sites.

    For servers whose address we cannot check. It comes before headers of proxies are evaluated, as
    a client may forge ``X-Forwarded-For``. Without an address the request came over a Unix socket,
    which is on this machine.

    :param allowed_origins: of pages that may ask, as browsers write them, or ``*``
    """
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            refusal = _refusal(environ, allowed_origins)
            if refusal is not None:
                return responses.failure(403, refusal)
            has_body = (environ.get('CONTENT_LENGTH') or '0') != '0' or (
                'HTTP_TRANSFER_ENCODING' in environ)
            # A body of no type is what a page may send without being asked whether it may.
            if has_body and not environ.get('CONTENT_TYPE'):
                return responses.error(errors.MediaTypeNotSupported())
            if _is_from_page(environ, allowed_origins):
                environ[middleware.MUST_NOT_WRITE] = FROM_OTHER
            return inner(request)
        return handle
    return layer


def _refusal(environ: _Environ, allowed: Collection[str]) -> str | None:
    """Why a request is not served; None: it is."""
    address, host, origin = (environ.get(name)
                             for name in ('REMOTE_ADDR', 'HTTP_HOST', 'HTTP_ORIGIN'))
    if address and not is_loopback(address):
        return NOT_HERE
    if host is not None and not is_local_name(host):
        return OTHER_NAME
    if origin is not None and not _may_ask(origin, environ, allowed):
        return FROM_OTHER
    return None


def _is_from_page(environ: _Environ, allowed: Collection[str]) -> bool:
    """What browsers say with a request for which they need not ask: where it comes from."""
    referrer = environ.get('HTTP_REFERER')
    if referrer is not None and not _may_ask(referrer, environ, allowed):
        return True
    return environ.get('HTTP_SEC_FETCH_SITE', 'none') not in _OWN_SITE and (
        not _may_ask(environ.get('HTTP_ORIGIN') or '', environ, allowed))


def _may_ask(page: str, environ: _Environ, allowed: Collection[str]) -> bool:
    """Whether a page, by its address or origin, is one of this API or of those allowed."""
    try:
        found = parse.urlsplit(page)
    except ValueError:
        return False
    origin = f'{found.scheme}://{found.netloc}'
    return (_ANY_ORIGIN in allowed or origin in allowed
            or origin == f'{environ.get("wsgi.url_scheme")}://{environ.get("HTTP_HOST")}')
