"""Reconcile operation, which compares the target of a backend with the database on request."""
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
    """Reconcile operation for an authorized caller."""

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
        """Reconcile a backend, and return the differences between its target and the database.

        :param host: ``host@backend``, or ``cluster@backend`` of a cluster
        :param dry_run: True to report the differences without repairing them
        :returns: differences in the form of `VolumeInterface.reconcile`
        :raises ServiceNotFound: the backend has no volume service
        :raises ServiceSilent: no volume service of the backend is up
        :raises BackendError: the target does not respond
        :raises ServiceUnreachable: no response was received in time. The reconciliation may still
            be running
        """
        keeping = services.keeping(self._database, binaries.VOLUME, host, self._down_after)
        if not keeping:
            raise errors.ServiceNotFound(binary=binaries.VOLUME, host=host)
        # A call to a process that is down would wait until its timeout.
        if not any(one.up for one in keeping):
            raise errors.ServiceSilent(binary=binaries.VOLUME, host=host,
                                       seconds=self._down_after)
        return self._volume_services.on(host).reconcile(caller, dry_run)
