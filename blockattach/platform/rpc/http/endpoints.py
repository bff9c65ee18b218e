"""Where servers listen: what a client looks up before it connects."""
import ipaddress
import threading
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

from blockattach.platform import clock as clocks

FRESH_SECONDS = 5.0
"""How long what was found for the name of a server is not looked up again."""


class Endpoint(NamedTuple):
    """One start of one server. ``instance`` is never used again, so that what gets its port later
    is not taken for it.

    :ivar fingerprint: of its certificate, SHA-256 in hexadecimal; None: without TLS
    """

    host: str
    port: int
    instance: str
    fingerprint: str | None = None

    @property
    def authority(self) -> str:
        """As in the header ``Host``."""
        return f'[{self.host}]:{self.port}' if ':' in self.host else f'{self.host}:{self.port}'


class EndpointStore(Protocol):
    """The directory that all processes of a site share."""

    def register(self, topic: str, server: str, endpoint: Endpoint) -> None:
        """It listens on the topic, under this name of a server."""

    def withdraw(self, topic: str, server: str, endpoint: Endpoint) -> None:
        """It listens no more; one that is not known is no error."""

    def find(self, topic: str, server: str | None = None) -> Sequence[Endpoint]:
        """Who listens on the topic, or on it under this name, in the order of their coming."""


class MemoryStore:
    """A directory for the transports of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, Endpoint], None] = {}

    def register(self, topic: str, server: str, endpoint: Endpoint) -> None:
        """See `EndpointStore`."""
        with self._lock:
            self._known[topic, server, endpoint] = None

    def withdraw(self, topic: str, server: str, endpoint: Endpoint) -> None:
        """See `EndpointStore`."""
        with self._lock:
            self._known.pop((topic, server, endpoint), None)

    def find(self, topic: str, server: str | None = None) -> Sequence[Endpoint]:
        """See `EndpointStore`."""
        with self._lock:
            return [endpoint for known, name, endpoint in self._known
                    if known == topic and server in (None, name)]


class Lookup:
    """Asks a directory, and remembers for a while where servers of a name are: what has become
    stale shows when nobody is there, or refuses."""

    def __init__(self, store: EndpointStore, clock: clocks.Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], tuple[float, Sequence[Endpoint]]] = {}
        self._first: dict[str, int] = {}

    def candidates(self, topic: str, server: str | None) -> Iterator[Endpoint]:
        """Whom to try, in this order; each is the first as often as the others. What was not
        looked up just now is looked up before there are no more.
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
        """As the directory says now."""
        found = self._store.find(topic, server)
        if server is not None:
            with self._lock:
                self._found[topic, server] = self._clock.monotonic(), found
        return found

    def _remembered(self, topic: str, server: str) -> Sequence[Endpoint]:
        with self._lock:
            since, found = self._found.get((topic, server), (0.0, ()))
        return found if self._clock.monotonic() - since < FRESH_SECONDS else ()

    def _rotated(self, topic: str, found: Sequence[Endpoint]) -> Sequence[Endpoint]:
        if len(found) < 2:
            return found
        with self._lock:
            first = self._first[topic] = (self._first.get(topic, -1) + 1) % len(found)
        return [*found[first:], *found[:first]]


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this host: its address says so, as a name cannot."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
