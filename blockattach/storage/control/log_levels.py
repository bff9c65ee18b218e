"""The levels of the logs of running processes: asked for, and set until the process ends."""
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.rpc import processes
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Which loggers of which processes; what is empty means all.

    :ivar server: a host, with all that is on it, or a ``host@backend``
    :ivar prefix: what the names of loggers begin with
    """

    binary: str = ''
    server: str = ''
    prefix: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Levels:
    """What the loggers of a process let through, by name."""

    binary: str
    host: str
    levels: dict[str, str]


class LogControl:
    """Asks this process, and over the bus those that send heartbeats.

    Another API has no server on the bus: it is asked by a request to itself.
    """

    def __init__(self, database: storage_db.Database,
                 client: Callable[[str, str], processes.ProcessInterface], host: str,
                 down_after: float) -> None:
        """
        :param client: of another process, by binary and host
        :param host: of this process
        :param down_after: seconds without a heartbeat after which a process is not asked
        """
        self._database = database
        self._client = client
        self._host = host
        self._down_after = down_after
        self._own = processes.ProcessEndpoint()

    def get(self, caller: context.RequestContext, choice: Choice) -> list[Levels]:
        """What they are; a process that does not answer is left out."""
        return list(self._each(
            choice, lambda process: process.get_log_levels(caller, choice.prefix)))

    def set(self, caller: context.RequestContext, choice: Choice, level: str) -> None:
        """Set them; a process that does not answer may or may not have done it.

        :param level: one of `log.LEVELS`
        """
        for process in self._each(
                choice, lambda process: process.set_log_levels(caller, choice.prefix, level)):
            log.step(LOG, 'Log levels set', binary=process.binary, host=process.host,
                     prefix=choice.prefix, level=level)

    def _each(self, choice: Choice,
              ask: Callable[[processes.ProcessInterface], Any]) -> Iterator[Levels]:
        """Each process that is meant, and what it says."""
        levels: dict[tuple[str, str], Any] = {}
        if choice.binary in ('', binaries.API) and choice.server in ('', self._host):
            yield Levels(binaries.API, self._host, ask(self._own))
        for service in services.list_all(self._database, self._down_after,
                                         choice.server or None, choice.binary or None):
            if not service.up:
                continue
            name = service.binary, service.host.partition('@')[0]
            try:
                # One process may keep several backends.
                if name not in levels:
                    levels[name] = ask(self._client(*name))
                yield Levels(service.binary, service.host, levels[name])
            except errors.BlockattachError as exc:
                LOG.warning('Failed to get or set log levels of process%s', log.fields(
                    binary=service.binary, host=service.host, reason=exc))
