"""Restriction of an API without authentication to requests from the same machine.

Requests that pages of other web sites cause in a browser on this machine are rejected, or must not
change anything (cross-site request forgery). Requests with another host name that resolves to this
machine are also rejected (DNS rebinding).
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
    """Return True if an address is a loopback address, which is reachable from this machine only.

    :param address: IP address, with or without a zone (``fe80::1%eth0``); any other text is not
        a loopback address
    """
    try:
        found = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return False
    # A dual-stack socket reports the address of an IPv4 client as an IPv4-mapped IPv6 address.
    return (getattr(found, 'ipv4_mapped', None) or found).is_loopback


def stands_for_loopback(host: str) -> bool:
    """Return True if an address or name resolves to loopback addresses only.

    An empty or unknown name resolves to no address, so the result is False.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return False
    return bool(found) and all(is_loopback(str(place[4][0])) for place in found)


@functools.lru_cache
def is_local_name(host: str) -> bool:
    """Return True if a ``Host`` header is ``localhost``, a subdomain of it, or a loopback address.
    """
    try:
        name = parse.urlsplit(f'//{host}').hostname or ''
    except ValueError:
        return False
    # DNS is not queried, because its answer may be forged. RFC 6761 reserves these names.
    return name == _HOST_NAME or name.endswith(f'.{_HOST_NAME}') or is_loopback(name)


def serve_locally(allowed_origins: Collection[str] = ()) -> middleware.Layer:
    """Return a layer that rejects requests from other machines and of web pages of other sites.

    If a page of another site caused a request without the header ``Origin``, the layer only marks
    the request (`middleware.MUST_NOT_WRITE`).

    The layer must be outside of the layer that evaluates the headers of proxies, because a client
    may forge ``X-Forwarded-For``.

    :param allowed_origins: origins whose pages may send requests, in the form of the header
        ``Origin``; ``*`` stands for all origins
    """
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            refusal = _refusal(environ, allowed_origins)
            if refusal is not None:
                return responses.failure(403, refusal)
            has_body = (environ.get('CONTENT_LENGTH') or '0') != '0' or (
                'HTTP_TRANSFER_ENCODING' in environ)
            # A page may send a body without a type to another site, without a CORS preflight.
            if has_body and not environ.get('CONTENT_TYPE'):
                return responses.error(errors.MediaTypeNotSupported())
            if _is_from_page(environ, allowed_origins):
                environ[middleware.MUST_NOT_WRITE] = FROM_OTHER
            return inner(request)
        return handle
    return layer


def _refusal(environ: _Environ, allowed: Collection[str]) -> str | None:
    address, host, origin = (environ.get(name)
                             for name in ('REMOTE_ADDR', 'HTTP_HOST', 'HTTP_ORIGIN'))
    # This protects the service behind WSGI servers whose listen address is unknown. A request
    # without a client address came over a Unix socket, and therefore from this machine.
    if address and not is_loopback(address):
        return NOT_HERE
    if host is not None and not is_local_name(host):
        return OTHER_NAME
    if origin is not None and not _may_ask(origin, environ, allowed):
        return FROM_OTHER
    return None


def _is_from_page(environ: _Environ, allowed: Collection[str]) -> bool:
    """Return True if a page of another site caused a request, by its Referer or Sec-Fetch-Site."""
    # Browsers send these headers also with requests that have no Origin and need no CORS
    # preflight.
    referrer = environ.get('HTTP_REFERER')
    if referrer is not None and not _may_ask(referrer, environ, allowed):
        return True
    return environ.get('HTTP_SEC_FETCH_SITE', 'none') not in _OWN_SITE and (
        not _may_ask(environ.get('HTTP_ORIGIN') or '', environ, allowed))


def _may_ask(page: str, environ: _Environ, allowed: Collection[str]) -> bool:
    """Return True if a page belongs to this API or to an allowed origin.

    :param page: URL or origin of the page
    """
    try:
        found = parse.urlsplit(page)
    except ValueError:
        return False
    origin = f'{found.scheme}://{found.netloc}'
    return (_ANY_ORIGIN in allowed or origin in allowed
            or origin == f'{environ.get("wsgi.url_scheme")}://{environ.get("HTTP_HOST")}')
