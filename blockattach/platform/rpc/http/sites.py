"""Sites: the directory, keys and clock that the transports of a URL share.

oslo.messaging creates drivers itself from a URL. Other objects can only be passed to drivers by a
registry of the process. Without `Registry.provide`, transports with the same URL in a process
reach each other, with a key that no other process has.
"""
import threading
from typing import NamedTuple
from urllib import parse

from blockattach.platform import clock as clocks
from blockattach.platform.rpc.http import endpoints
from blockattach.platform.rpc.http import trust

LOOPBACK = '127.0.0.1'


class Site(NamedTuple):
    """Settings of a process for the processes that communicate with each other.

    :ivar listen: host and port on which the process listens; port 0 for any free port
    :ivar advertise: host and port that clients connect to, if they differ; else None
    """

    store: endpoints.EndpointStore
    keys: trust.Keys
    clock: clocks.Clock
    listen: tuple[str, int] = (LOOPBACK, 0)
    advertise: tuple[str, int] | None = None


class Registry:
    """Sites of a process by URL. A site exists as long as it has a user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Site, int]] = {}

    def provide(self, url: str, site: Site) -> None:
        """Set the site of the transports of a URL, until `leave`.

        :raises ValueError: the URL already has a site
        """
        with self._lock:
            name = _name(url)
            if name in self._open:
                raise ValueError('a transport with this URL is already open')
            self._open[name] = site, 1

    def join(self, url: str) -> Site:
        """Return the site of a URL. If none was provided, create one for this process only."""
        with self._lock:
            name = _name(url)
            site, holders = self._open.get(name) or (_of_this_process(), 0)
            self._open[name] = site, holders + 1
            return site

    def leave(self, url: str) -> None:
        """Release the site of a URL. The last release removes the site."""
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
    return Site(endpoints.MemoryStore(), trust.Keyring(trust.new_key()), clocks.Clock())


def _name(url: str) -> str:
    """Return host and path of a URL, without credentials and query."""
    parts = parse.urlsplit(url)
    return f'{parts.netloc.rpartition("@")[2]}/{parts.path.strip("/")}'
