"""What filters and weighers look at besides the request and the pools, read before each choice.

Read and not carried: a volume that waits, or is placed anew after a crash, is judged by what holds
then.
"""
import dataclasses
from collections.abc import Collection
from typing import Protocol

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import placing_facts
from blockattach.domain import hint_filters
from blockattach.domain import pools

LOG = oslo_log.getLogger(__name__)

LOCALITY = 'instance_locality'
COUNTING = 'volume_number'


class ServerHosts(Protocol):
    """Looks up on which host a server runs."""

    def host_of(self, server_id: str, project_id: str) -> str:
        """The host.

        :raises ServerHostUnknown: it cannot be found out
        """


class FactReader:
    """Reads what the filters and weighers in use may look at, and nothing that is dear besides."""

    def __init__(self, database: engine.Database, filters: Collection[str],
                 weighers: Collection[str], servers: ServerHosts | None = None) -> None:
        """
        :param filters: their names, and those of the weighers
        :param servers: asked only where the filter on locality is in use
        """
        self._database = database
        self._servers = servers
        self._near_servers = LOCALITY in filters
        self._counting = COUNTING in weighers

    def read(self, volume_id: str) -> pools.Facts:
        """The facts as they are now.

        :raises VolumeNotFound: there is no such live volume
        """
        found = placing_facts.read(self._database, volume_id, self._counting)
        server_id = hint_filters.server_id(found.hints) if self._near_servers else None
        return found if server_id is None else self._with_host(volume_id, server_id, found)

    def _with_host(self, volume_id: str, server_id: str, found: pools.Facts) -> pools.Facts:
        try:
            if self._servers is None:
                raise errors.ServerHostUnknown(server_id=server_id, reason='Nova is not known')
            host = self._servers.host_of(server_id, found.volume['project_id'])
        except errors.ServerHostUnknown as error:
            LOG.warning('Cannot find the server that a volume shall be near: %s%s', error,
                        log.fields(volume_id=volume_id, server_id=server_id))
            return dataclasses.replace(found, server_lost=str(error))
        return dataclasses.replace(found, server_host=host)
