"""Sites of the HTTP driver: the directory of servers, the keys and the clock that processes share.

oslo.messaging creates a driver from a URL only, so a registry of the process passes these objects
to drivers. Without `Registry.provide`, transports with the same URL reach each other within the
process only, because no other process has their key.
"""
import ipaddress
import threading
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol
from urllib import parse

from blockattach.platform import clock as clocks
from blockattach.platform.rpc.http import trust

FRESH_SECONDS = 5.0
"""Time in seconds for which the endpoints of a named server are cached."""
LOOPBACK = '127.0.0.1'


class Endpoint(NamedTuple):
    """Address of a server, which is valid until the server stops.

    :ivar instance: ID of this run of the server. No other run has the same ID, so that a later
        server on the same port is not mistaken for this one
    :ivar fingerprint: SHA-256 of the certificate of the server in hexadecimal; None without TLS
    """

    host: str
    port: int
    instance: str
    fingerprint: str | None = None

    @property
    def authority(self) -> str:
        """Host and port in the form of the header ``Host``."""
        return f'[{self.host}]:{self.port}' if ':' in self.host else f'{self.host}:{self.port}'


class EndpointStore(Protocol):
    """Directory of endpoints that all processes of a site share."""

    def register(self, topic: str, server: str, endpoint: Endpoint) -> None:
        """Add the endpoint of a server that listens on a topic."""

    def withdraw(self, topic: str, server: str, endpoint: Endpoint) -> None:
        """Remove an endpoint. A missing endpoint is no error."""

    def find(self, topic: str, server: str | None = None) -> Sequence[Endpoint]:
        """Return the endpoints of a topic in the order of their registration.

        :param server: name of the server; None for all servers
        """


class MemoryStore:
    """Directory of endpoints for the transports of a single process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, Endpoint], None] = {}

    def register(self, topic: str, server: str, endpoint: Endpoint) -> None:
        with self._lock:
            self._known[topic, server, endpoint] = None

    def withdraw(self, topic: str, server: str, endpoint: Endpoint) -> None:
        with self._lock:
            self._known.pop((topic, server, endpoint), None)

    def find(self, topic: str, server: str | None = None) -> Sequence[Endpoint]:
        with self._lock:
            return [endpoint for known, name, endpoint in self._known
                    if known == topic and server in (None, name)]


class Lookup:
    """Cache of a directory for the endpoints of named servers.

    A stale endpoint is detected when it is used, because nothing listens at its address, or the
    server rejects the instance ID.
    """

    def __init__(self, store: EndpointStore, clock: clocks.Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], tuple[float, Sequence[Endpoint]]] = {}
        self._first: dict[str, int] = {}

    def candidates(self, topic: str, server: str | None) -> Iterator[Endpoint]:
        """Yield the endpoints in the order in which a client tries them.

        Successive calls begin with different endpoints, to distribute the load.

        The endpoints of a named server come from the cache first. If all of these endpoints
        fail, the directory is read for further endpoints.

        :param server: name of the server; None for any server of the topic
        """
        tried = set()
        if server is not None:
            for endpoint in self._rotated(topic, self._remembered(topic, server)):
                tried.add(endpoint)
                yield endpoint
        for endpoint in self._rotated(topic, self.all(topic, server)):
            if endpoint not in tried:
                yield endpoint

    def all(self, topic: str, server: str | None = None) -> Sequence[Endpoint]:
        """Read the directory, and return the endpoints of a topic.

        :param server: name of the server; None for all servers
        """
        listening = self._store.find(topic, server)
        if server is not None:
            with self._lock:
                self._found[topic, server] = self._clock.monotonic(), listening
        return listening

    def _remembered(self, topic: str, server: str) -> Sequence[Endpoint]:
        with self._lock:
            since, listening = self._found.get((topic, server), (0.0, ()))
        return listening if self._clock.monotonic() - since < FRESH_SECONDS else ()

    def _rotated(self, topic: str, listening: Sequence[Endpoint]) -> Sequence[Endpoint]:
        if len(listening) < 2:
            return listening
        with self._lock:
            first = self._first[topic] = (self._first.get(topic, -1) + 1) % len(listening)
        return [*listening[first:], *listening[:first]]


def is_loopback(host: str) -> bool:
    """Return True for a loopback IP address.

    A host name is not accepted, because it may resolve to any address.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Site(NamedTuple):
    """Settings with which a process communicates with the other processes of a site.

    :ivar listen: host and port on which the process listens; port 0 for any free port
    :ivar advertise: host and port to which clients connect; None if they are those of ``listen``
    """

    store: EndpointStore
    keys: trust.Keys
    clock: clocks.Clock
    listen: tuple[str, int] = (LOOPBACK, 0)
    advertise: tuple[str, int] | None = None


class Registry:
    """Registry of the sites of a process by URL.

    A site is removed after one call of `leave` for each call of `provide` and `join`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Site, int]] = {}

    def provide(self, url: str, site: Site) -> None:
        """Set the site that `join` returns for a URL.

        :raises ValueError: the URL already has a site
        """
        with self._lock:
            name = _name(url)
            if name in self._open:
                raise ValueError('a transport with this URL is already open')
            self._open[name] = site, 1

    def join(self, url: str) -> Site:
        """Return the site of a URL.

        If the URL has no site, a site is created that only this process can use.
        """
        with self._lock:
            name = _name(url)
            site, holders = self._open.get(name) or (_of_this_process(), 0)
            self._open[name] = site, holders + 1
            return site

    def leave(self, url: str) -> None:
        """Release the site of a URL. The last release removes the site from the registry."""
        with self._lock:
            name = _name(url)
            site, holders = self._open[name]
            if holders > 1:
                self._open[name] = site, holders - 1
            else:
                del self._open[name]


REGISTRY = Registry()
"""Registry of this process."""


def _of_this_process() -> Site:
    return Site(MemoryStore(), trust.Keyring(trust.new_key()), clocks.Clock())


def _name(url: str) -> str:
    """Return host and path of a URL, without credentials and query."""
    parts = parse.urlsplit(url)
    return f'{parts.netloc.rpartition("@")[2]}/{parts.path.strip("/")}'
