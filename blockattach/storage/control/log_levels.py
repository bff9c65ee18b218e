"""Operations that get and set log levels of running processes.

A process loses the levels when it ends.
"""
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
    """Selection of processes and loggers. An empty attribute does not limit the selection.

    :ivar binary: binary of the processes
    :ivar server: host, which selects all its services, or ``host@backend``
    :ivar prefix: prefix of the names of loggers
    """

    binary: str = ''
    server: str = ''
    prefix: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Levels:
    """Log levels of a process.

    :ivar levels: log levels by the name of the logger
    """

    binary: str
    host: str
    levels: dict[str, str]


class LogControl:
    """Operations on the log levels of this API process, and of processes that send heartbeats.

    Other API processes have no RPC server. A client must send the API request to such a process to
    get or set its levels.
    """

    def __init__(self, database: storage_db.Database,
                 client: Callable[[str, str], processes.ProcessInterface], host: str,
                 down_after: float) -> None:
        """
        :param client: function that returns an RPC client of the process with a binary and a host
        :param host: host of this process
        :param down_after: seconds without a heartbeat after which a process counts as down, and is
            not called
        """
        self._database = database
        self._client = client
        self._host = host
        self._down_after = down_after
        self._own = processes.ProcessEndpoint()

    def get(self, caller: context.RequestContext, choice: Choice) -> list[Levels]:
        """Return the log levels of the selected processes.

        The result does not contain processes that do not respond.
        """
        return list(self._each(
            choice, lambda process: process.get_log_levels(caller, choice.prefix)))

    def set(self, caller: context.RequestContext, choice: Choice, level: str) -> None:
        """Set the log levels of the selected processes.

        No error is raised if a process does not respond. Such a process may have set its levels.

        :param level: a value in `log.LEVELS`
        """
        for process in self._each(
                choice, lambda process: process.set_log_levels(caller, choice.prefix, level)):
            log.step(LOG, 'Log levels set', binary=process.binary, host=process.host,
                     prefix=choice.prefix, level=level)

    def _each(self, choice: Choice,
              ask: Callable[[processes.ProcessInterface], Any]) -> Iterator[Levels]:
        """Call each selected process, and yield the responses.

        :param ask: function that sends the call to the given process
        """
        levels: dict[tuple[str, str], Any] = {}
        if choice.binary in ('', binaries.API) and choice.server in ('', self._host):
            yield Levels(binaries.API, self._host, ask(self._own))
        for service in services.list_all(self._database, self._down_after,
                                         choice.server or None, choice.binary or None):
            if not service.up:
                continue
            name = service.binary, service.host.partition('@')[0]
            try:
                # A process may have several backends.
                if name not in levels:
                    levels[name] = ask(self._client(*name))
                yield Levels(service.binary, service.host, levels[name])
            except errors.BlockattachError as exc:
                LOG.warning('Failed to get or set log levels of process%s', log.fields(
                    binary=service.binary, host=service.host, reason=exc))
