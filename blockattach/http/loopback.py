"""Who is on this machine: all that an API without authentication may serve."""
import functools
import ipaddress
import socket

import webob

from blockattach.http import faults
from blockattach.http import middleware

REFUSED = ('Without authentication ([api] auth_strategy = noauth) only clients on the same '
           'machine are served.')


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


def serve_locally(inner: middleware.Handler) -> middleware.Handler:
    """Refuse whoever comes from another machine.

    For servers whose address is not ours to check. Before any header is believed: a client may
    write into ``X-Forwarded-For`` what he likes. Without an address the request came over a Unix
    socket, which is on this machine.
    """
    def handle(request: webob.Request) -> webob.Response:
        address = request.environ.get('REMOTE_ADDR')
        if address and not is_loopback(address):
            return faults.response(403, REFUSED)
        return inner(request)
    return handle
