"""Make and remove volumes on one backend."""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach.db import engine
from blockattach.db import volume_queries
from blockattach.domain import records
from blockattach.domain import volume_lifecycle
from blockattach.volume import backends
from blockattach.volume import lease
from blockattach.volume import outcomes

LOG = oslo_log.getLogger(__name__)

_Own = volume_lifecycle.OwnStatus


class VolumeManager:
    """The volumes of one backend, ``host@backend``."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend, host: str,
                 outcome: outcomes.VolumeOutcomes, leases: lease.Leases) -> None:
        self.leases = leases
        self.backend = backend
        self.host = host
        self._database = database
        self._outcome = outcome
        self._rests: dict[tuple[str, str | None], records.Volume] = {}

    def create(self, caller: context.RequestContext, volume_id: str, generation: int) -> None:
        """Make a volume that this service has taken on. Never raises: it is recorded instead."""
        with self.leases.alone(volume_id):
            volume = self._current(volume_id, generation, _Own.CREATING)
            if volume is not None:
                self._create(caller, volume)

    def delete(self, caller: context.RequestContext, volume_id: str, generation: int) -> None:
        """Remove a volume that was told to go. Never raises: it is recorded instead."""
        with self.leases.volume(volume_id) as lease:
            volume = self._current(volume_id, generation, _Own.DELETING)
            if lease is not None and volume is not None:
                self._delete(caller, volume)

    def remember_rests(self) -> None:
        """What an earlier life may have made of volumes that were taken away from it."""
        self._rests |= {(volume.id, volume.pool): volume for volume in volume_queries.tried_on(
            self._database, self.host)}

    def remove_rests(self) -> None:
        """Of volumes that are elsewhere or gone; what cannot be removed now comes round again."""
        for volume in list(self._rests.values()):
            with self.leases.alone(volume.id):
                self._remove_if_elsewhere(volume)

    def _create(self, caller: context.RequestContext, volume: records.Volume) -> None:
        failpoints.point('volume.volumes.before_create')
        try:
            self.backend.create(volume)
        except Exception as exc:
            LOG.error('Cannot make a volume%s', self._fields(volume, reason=exc),
                      exc_info=not errors.is_known(exc))
            if self._current(volume.id, volume.generation, _Own.CREATING) is None:
                self._remove_if_elsewhere(volume)
                return
            refused = isinstance(exc, errors.BackendRefused)
            if refused or not self._remove(volume):
                # Of this try or of an earlier one, whose end nobody knows, something may be here.
                self._rests[volume.id, volume.pool] = volume
                if not refused:
                    # It is made again when its deadline has passed, unless it is taken away.
                    return
            self._outcome.not_created(caller, volume, f'Pool {volume.pool}: {exc}')
            if refused:
                # Not before it waits for another pool: until then others may go on with it here.
                self._remove_if_elsewhere(volume)
            return
        failpoints.point('volume.volumes.after_create')
        if not self._outcome.created(volume):
            self._remove_if_elsewhere(volume)

    def _delete(self, caller: context.RequestContext, volume: records.Volume) -> None:
        try:
            self.backend.target.unexport(volume.id)
            failpoints.point('volume.volumes.after_unexport')
            self.backend.delete(volume)
        except errors.BackendRefused as exc:
            self._outcome.not_deleted(caller, volume, str(exc))
            return
        except Exception as exc:
            LOG.error('Cannot tell whether a volume was removed; it is tried again%s',
                      self._fields(volume, reason=exc), exc_info=not errors.is_known(exc))
            return
        failpoints.point('volume.volumes.after_delete')
        self._outcome.deleted(volume)

    def _remove_if_elsewhere(self, volume: records.Volume) -> None:
        """Whoever has lost a volume removes what it made, unless it was given back to it."""
        try:
            now = volume_queries.get_bare(self._database, volume.id)
        except errors.VolumeNotFound:
            now = None
        place = volume.id, volume.pool
        self._rests.pop(place, None)
        own_status = None if now is None or now.pool != volume.pool else now.own_status
        elsewhere = own_status in (None, _Own.DELETING)
        if elsewhere and not self._remove(volume):
            self._rests[place] = volume
        elif own_status == _Own.CREATING:
            # As long as it is being made here, it may still be taken away.
            self._rests[place] = volume

    def _remove(self, volume: records.Volume) -> bool:
        """Whether nothing is left of it."""
        try:
            self.backend.delete(volume)
        except Exception as exc:
            LOG.error('Cannot remove the rest of a volume%s', self._fields(volume, reason=exc),
                      exc_info=not errors.is_known(exc))
            return False
        return True

    def _current(self, volume_id: str, generation: int,
                 own_status: volume_lifecycle.OwnStatus) -> records.Volume | None:
        try:
            volume = volume_queries.get_bare(self._database, volume_id)
        except errors.VolumeNotFound:
            return None
        if volume.generation != generation or volume.own_status != own_status:
            LOG.info('Message is late: the volume has moved on%s', self._fields(volume))
            return None
        return volume

    def _fields(self, volume: records.Volume, reason: Exception | None = None) -> log.Fields:
        return log.fields(volume_id=volume.id, pool=volume.pool, host=self.host, reason=reason)
