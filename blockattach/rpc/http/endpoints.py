"""Where servers listen: what a client looks up before it connects."""
import threading
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

import oslo_messaging


class NotReached(oslo_messaging.MessageDeliveryFailure):
    """No server has the message: none is known, none accepts, or it was refused. Nothing is done,
    so another way may be tried."""


class Endpoint(NamedTuple):
    """One start of one server. ``instance`` is never used again, so that what gets its port later
    is not taken for it."""

    host: str
    port: int
    instance: str

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
