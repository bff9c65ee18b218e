"""Work that creates and deletes volumes of a backend."""
import functools

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes as db_volumes
from blockattach.storage.domain import records
from blockattach.storage.volume import remains
from blockattach.storage.volume import snapshot_work
from blockattach.storage.volume import volume_data
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class VolumeWork:
    """Handlers of the work that creates and deletes volumes of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._remains = remains.Remains(context)
        self._maker = volume_data.Maker(context)
        self._place_again = context.place_again
        self._schedule_seconds = context.schedule_seconds
        self._delete_snapshots = snapshot_work.SnapshotWork(context).delete_of

    def _then_place_again(self, caller: context.RequestContext, claim: records.Claim,
                          item: volume_queries.AtWork) -> None:
        self._place_again(caller, claim)
        # The remains are deleted only now that the volume waits for another pool. Before, another
        # process may have continued the work on this pool.
        self._remains.remove_if_elsewhere(item.volume)

    @verbs.work(
        'volume.create', deadline='create_seconds',
        done=lambda self, claim, item: self._maker.made(item),
        failed=lambda self, claim, say: db_volumes.unclaim(
            self._database, claim.resource_id, claim.generation, self._schedule_seconds,
            claim.owner, say=say),
        then=_then_place_again,
        undo=lambda self, item: self._remains.remove_if_elsewhere(item.volume))
    def create(self, caller: context.RequestContext, claim: records.Claim,
               ) -> volume_queries.AtWork | verbs.TakesLong:
        """Create a volume. If data must be copied, the work continues in the background."""
        with self._leases.alone(claim.resource_id):
            item = volume_queries.claimed(self._database, claim)
            if not self._maker.takes_long(item):
                return self._create(item)
        return verbs.TakesLong(functools.partial(self._copy, claim))

    def _copy(self, claim: records.Claim) -> volume_queries.AtWork:
        # Only the new volume is locked. The source can be attached and detached during the copy.
        with self._leases.alone(claim.resource_id):
            return self._create(volume_queries.claimed(self._database, claim))

    def _create(self, item: volume_queries.AtWork) -> volume_queries.AtWork:
        volume = item.volume
        failpoints.point('volume.volumes.before_create')
        try:
            created = self._maker.make(item)
        except verbs.Left:
            raise
        except Exception as exc:
            # Without the claim, another process may be creating the volume on this pool, so
            # nothing is deleted here.
            if not volume_queries.is_claimed(self._database, item.claim) or isinstance(
                    exc, errors.BackendRefused) or self._remains.removed(volume):
                raise verbs.Failed(f'Pool {volume.pool}: {exc}', item) from exc
            # The outcome is unknown, so the work is repeated after its deadline, unless the volume
            # is deleted before.
            raise
        failpoints.point('volume.volumes.after_create')
        return created

    @verbs.work(
        'volume.delete', deadline='create_seconds')
    def delete(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Delete a volume, and first the snapshots that the request deletes with the volume."""
        with self._leases.volume(claim.resource_id) as lease:
            item = volume_queries.claimed(self._database, claim)
            if lease is None:
                raise errors.BackendUncertain(
                    reason='another operation on the volume is in progress')
            # LIO holds the device of an exported volume open even if no initiator has access, and
            # LVM does not delete an open volume.
            self._backend.target.unexport(item.volume.id)
            failpoints.point('volume.volumes.after_unexport')
            # Work that was created by a repair of an operator does not list the snapshots.
            if item.progress.get('snapshots') != {}:
                self._delete_snapshots(claim, item.volume)
            self._backend.delete(item.volume)
            failpoints.point('volume.volumes.after_delete')

    @verbs.work('volume.cleanup', deadline='create_seconds',
                done=lambda self, claim, result: self._remains.forget(claim),
                cancel=work_ends.forget)
    def cleanup(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Delete the data of a volume in a pool to which the volume no longer belongs."""
        self._remains.clean(claim)
