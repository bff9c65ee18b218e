"""What was made of a volume that was taken away meanwhile: removed, at once or as work."""
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
    """On the pools of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._retry_seconds = context.retry_seconds

    def remove_if_elsewhere(self, volume: records.Volume) -> None:
        """Remove what was made of a volume that was taken away, unless it was given back; what
        cannot be removed now is work.
        """
        with self._leases.alone(volume.id):
            here = self._own_status_here(volume)
            if here is _Own.CREATING:
                return
            if here in (None, _Own.DELETING) and not self.removed(volume):
                db_volumes.leave_remains(self._database, volume, self._retry_seconds)
                return
            self.forget(work.remains(volume.id, volume.pool or ''))

    def removed(self, volume: records.Volume) -> bool:
        """Remove a volume's bytes; whether they are gone."""
        try:
            self._backend.delete(volume)
        except Exception as exc:
            LOG.error('Failed to delete remains of volume%s', log.fields(
                volume_id=volume.id, pool=volume.pool, reason=exc),
                exc_info=not errors.is_known(exc))
            return False
        return True

    def clean(self, claim: records.Claim) -> None:
        """Remove what may remain of a volume on a pool, as work."""
        volume_id, _, pool = claim.resource_id.partition('@')
        with self._leases.alone(volume_id):
            try:
                volume = dataclasses.replace(
                    volume_queries.get_even_deleted(self._database, volume_id), pool=pool)
            except errors.VolumeNotFound:
                # Its history is purged.
                return
            here = self._own_status_here(volume)
            if here is _Own.CREATING:
                raise errors.BackendUncertain(
                    reason='the volume is being created on the pool again')
            if here in (None, _Own.DELETING):
                self._backend.delete(volume)

    def forget(self, claim: records.Claim) -> None:
        """Nothing remains."""
        work.forget(self._database, claim)

    def _own_status_here(self, volume: records.Volume) -> volume_lifecycle.OwnStatus | None:
        """What a volume is in by itself, also one that was left there; None: it is gone, or not on
        that pool; one that is on its way there is being made there.
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
