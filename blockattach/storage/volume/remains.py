"""Deletion of the data that interrupted work has left in a pool (*remains*).

A volume has remains in a pool if it was deleted, or placed in another pool, during the work on it.
"""
import dataclasses

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import work
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes as db_volumes
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.volume import work_context

LOG = oslo_log.getLogger(__name__)

_Own = volume_lifecycle.OwnStatus


class Remains:
    """Deletion of the remains of volumes in the pools of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._retry_seconds = context.retry_seconds

    def remove_if_elsewhere(self, volume: records.Volume) -> None:
        """Delete the remains of a volume in a pool, unless the volume belongs to the pool again.

        If the deletion fails, a work item is created that deletes the remains later.

        :param volume: volume whose ``pool`` is the pool that may contain remains
        """
        with self._leases.alone(volume.id):
            here = self._own_status_here(volume)
            if here is _Own.CREATING:
                # Another process may be creating the volume on this pool again.
                return
            if here in (None, _Own.DELETING) and not self.removed(volume):
                db_volumes.leave_remains(self._database, volume, self._retry_seconds)
                return
            self.forget(work.remains(volume.id, volume.pool or ''))

    def removed(self, volume: records.Volume) -> bool:
        """Delete a volume on the backend, and return True on success."""
        try:
            self._backend.delete(volume)
        except Exception as exc:
            LOG.error('Failed to delete leftover volume from backend%s', log.fields(
                volume_id=volume.id, pool=volume.pool, reason=exc),
                exc_info=not errors.is_known(exc))
            return False
        return True

    def clean(self, claim: records.Claim) -> None:
        """Execute the work item that deletes the remains of a volume in a pool.

        :param claim: claim of the work item
        :raises BackendUncertain: if the volume is being created in the pool again
        """
        volume_id, _, pool = claim.resource_id.partition('@')
        with self._leases.alone(volume_id):
            try:
                volume = dataclasses.replace(
                    volume_queries.get_even_deleted(self._database, volume_id), pool=pool)
            except errors.VolumeNotFound:
                # The row of the volume has been purged.
                return
            here = self._own_status_here(volume)
            if here is _Own.CREATING:
                raise errors.BackendUncertain(
                    reason='the volume is being created on the pool again')
            if here in (None, _Own.DELETING):
                self._backend.delete(volume)

    def forget(self, claim: records.Claim) -> None:
        """Delete the work item of remains that no longer exist."""
        work.forget(self._database, claim)

    def _own_status_here(self, volume: records.Volume) -> volume_lifecycle.OwnStatus | None:
        """Return the own status of a volume if it belongs to the pool ``volume.pool``.

        :returns: CREATING also for a volume that is being moved to the pool; None if the volume is
            deleted or belongs to another pool
        """
        try:
            now = volume_queries.get_even_deleted(self._database, volume.id)
        except errors.VolumeNotFound:
            return None
        if now.own_status == _Own.GONE:
            return None
        if now.pool == volume.pool:
            return _Own(now.own_status)
        awaited = claims.pool_of(self._database, volume.id) == volume.pool
        return _Own.CREATING if awaited else None
