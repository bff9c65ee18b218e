"""What the transports of one URL share: a directory, keys and a clock.

oslo.messaging makes drivers itself, from a URL, so what they need can be handed to them no other
way than by a registry of the process. Without `provide`, transports of one URL in one process find
each other, by a key that no other process has.
"""
import threading
from typing import NamedTuple
from urllib import parse

from blockattach.platform import clock as clocks
from blockattach.platform.rpc.http import endpoints
from blockattach.platform.rpc.http import trust

LOOPBACK = '127.0.0.1'


class Site(NamedTuple):
    """Those who may talk to each other, as seen by one process.

    :ivar listen: host and port where its servers listen; port 0: any that is free
    :ivar advertise: where others reach them, if not there
    """

    store: endpoints.EndpointStore
    keys: trust.Keys
    clock: clocks.Clock
    listen: tuple[str, int] = (LOOPBACK, 0)
    advertise: tuple[str, int] | None = None


class Registry:
    """The sites of a process by URL, each as long as somebody holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Site, int]] = {}

    def provide(self, url: str, site: Site) -> None:
        """Have the transports of this URL use it, until `leave`.

        :raises ValueError: the URL has a site
        """
        with self._lock:
            name = _name(url)
            if name in self._open:
                raise ValueError('a transport with this URL is already open')
            self._open[name] = site, 1

    def join(self, url: str) -> Site:
        """The site of that URL; one of this process alone if none was provided."""
        with self._lock:
            name = _name(url)
            site, holders = self._open.get(name) or (_of_this_process(), 0)
            self._open[name] = site, holders + 1
            return site

    def leave(self, url: str) -> None:
        """Give it back; the last one takes it away."""
        with self._lock:
            name = _name(url)
            site, holders = self._open[name]
            if holders > 1:
                self._open[name] = site, holders - 1
            else:
                del self._open[name]


REGISTRY = Registry()
"""See the module."""


def _of_this_process() -> Site:
    return Site(endpoints.MemoryStore(), trust.Keyring(trust.new_key()), clocks.Clock())


def _name(url: str) -> str:
    """The URL without account and query."""
    parts = parse.urlsplit(url)
    return f'{parts.netloc.rpartition("@")[2]}/{parts.path.strip("/")}'
