"""A backend is asked to make its target as the rows say, now, and what came of it."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.rpc import volume as volume_rpc


class ReconcileControl:
    """The caller has been checked already."""

    def __init__(self, database: storage_db.Database, volume_services: volume_rpc.VolumeClients,
                 down_after: float) -> None:
        """
        :param down_after: seconds without a heartbeat after which a service counts as down
        """
        self._database = database
        self._volume_services = volume_services
        self._down_after = down_after

    def reconcile(self, caller: context.RequestContext, host: str,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        """Each difference between rows and target, as `VolumeInterface.reconcile` says it.

        :param host: ``host@backend``, of a cluster its own
        :raises ServiceNotFound: there is no such backend
        :raises ServiceSilent: its services send no heartbeat
        :raises BackendError: its target does not answer
        :raises ServiceUnreachable: no answer came in time; it may go on
        """
        keeping = services.keeping(self._database, binaries.VOLUME, host, self._down_after)
        if not keeping:
            raise errors.ServiceNotFound(binary=binaries.VOLUME, host=host)
        if not any(one.up for one in keeping):
            raise errors.ServiceSilent(binary=binaries.VOLUME, host=host,
                                       seconds=self._down_after)
        return self._volume_services.on(host).reconcile(caller, dry_run)
