"""Work that moves volumes to a backend from other backends of the same process.

A volume is moved by a migration, or by a retype that requires a migration.
"""
import functools

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import work
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.volume import backends
from blockattach.storage.volume import remains
from blockattach.storage.volume import volume_data
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs

_UNSAID = (errors.VolumeNotFound, errors.DatabaseUnavailable, verbs.Left)
"""Errors that do not concern the copy itself. Another process continues with the work, or this
process does so later."""


class MoveWork:
    """Handlers of the work that moves volumes to one backend.

    The data on the former backend is only read. After the row has recorded that the volume is on
    the new backend, a separate work item deletes this data. The data is therefore complete when a
    move is interrupted. Each attempt starts the copy again.
    """

    def __init__(self, context: work_context.WorkContext) -> None:
        self._context = context
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._remains = remains.Remains(context)

    def _unclaim(self, claim: records.Claim, say: work.Say) -> None:
        moving.unclaim(self._database, claim.resource_id, claim.generation,
                       self._context.schedule_seconds, claim, say=say)

    def _then_place_again(self, caller: context.RequestContext, claim: records.Claim,
                          copy: records.Volume | None) -> None:
        self._context.place_again(caller, claim)
        # The copy is deleted only now that the volume waits for another pool. Before, another
        # process may have continued the work on this pool.
        if copy is not None:
            self._remains.remove_if_elsewhere(copy)

    @verbs.work(
        'volume.migrate', deadline='create_seconds',
        failed=_unclaim, then=_then_place_again,
        undo=lambda self, volume: self._remains.remove_if_elsewhere(volume))
    def migrate(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Migrate a volume from another backend."""
        return verbs.TakesLong(functools.partial(self._take, claim))

    @verbs.work(
        'volume.retype', deadline='create_seconds',
        failed=_unclaim, then=_then_place_again,
        undo=lambda self, volume: self._remains.remove_if_elsewhere(volume))
    def retype(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Migrate a volume from another backend that cannot serve its new volume type."""
        return verbs.TakesLong(functools.partial(self._take, claim))

    def _take(self, claim: records.Claim) -> None:
        item = volume_queries.claimed(self._database, claim)
        try:
            with self._leases.alone(claim.resource_id):
                self._copy(claim, item)
                moving.moved(self._database, claim)
        except errors.StaleGeneration:
            # The claim on the work is lost, so the volume may belong to another pool by now.
            self._remains.remove_if_elsewhere(item.there)
            raise
        except _UNSAID:
            raise
        except Exception as exc:
            # After any other error, the volume is still complete on its former pool.
            raise verbs.Failed(f'Pool {item.there.pool}: {exc}', item.there) from exc
        failpoints.point('volume.moving.after_move')

    def _copy(self, claim: records.Claim, item: volume_queries.AtWork) -> None:
        source = self._context.served.get(item.volume.host or '')
        if source is None:
            raise errors.BackendRefused(
                reason=f'the process does not serve source backend {item.volume.host}')
        if backends.is_one_disk(source, item.volume, self._backend, item.there):
            raise errors.BackendRefused(
                reason=f'the pool and {item.volume.host} use the same storage for volume '
                       f'{item.volume.id}')
        # The source may still be exported for hosts that were connected earlier. If both backends
        # use the same target, that export has the name that the export of the copy needs.
        source.target.unexport(item.volume.id)
        failpoints.point('volume.moving.before_create')
        # The copy of an earlier attempt may have other data or another size.
        self._backend.delete(item.there)
        self._backend.create(item.there)
        failpoints.point('volume.moving.before_copy')
        volume_data.copy_volume(source, item.volume, self._backend, item.there,
                                self._context.copied(claim))
        failpoints.point('volume.moving.after_copy')
