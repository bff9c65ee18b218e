"""Make and remove volumes on one backend: the acts that go on after the answer."""
import functools

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes as db_volumes
from blockattach.storage.domain import records
from blockattach.storage.volume import making
from blockattach.storage.volume import remains
from blockattach.storage.volume import snapshot_work
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class VolumeWork:
    """The acts on the volumes of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._remains = remains.Remains(context)
        self._maker = making.Maker(context)
        self._place_again = context.place_again
        self._schedule_seconds = context.schedule_seconds
        self._delete_snapshots = snapshot_work.SnapshotWork(context).delete_of

    def _then_place_again(self, caller: context.RequestContext, claim: records.Claim,
                          made: volume_queries.AtWork) -> None:
        self._place_again(caller, claim)
        # Not before it waits for another pool: until then others may go on with it here.
        self._remains.remove_if_elsewhere(made.volume)

    @verbs.work(
        'volume.create', deadline='create_seconds',
        done=lambda self, claim, made: self._maker.made(made),
        failed=lambda self, claim, say: db_volumes.unclaim(
            self._database, claim.resource_id, claim.generation, self._schedule_seconds,
            claim.owner, say=say),
        then=_then_place_again,
        undo=lambda self, made: self._remains.remove_if_elsewhere(made.volume))
    def create(self, caller: context.RequestContext, claim: records.Claim,
               ) -> volume_queries.AtWork | verbs.TakesLong:
        """Make a volume."""
        with self._leases.alone(claim.resource_id):
            found = volume_queries.claimed(self._database, claim)
            if not self._maker.takes_long(found):
                return self._create(found)
        return verbs.TakesLong(functools.partial(self._copy, claim))

    def _copy(self, claim: records.Claim) -> volume_queries.AtWork:
        """Nothing of the source is held meanwhile: it is attached and detached as ever."""
        with self._leases.alone(claim.resource_id):
            return self._create(volume_queries.claimed(self._database, claim))

    def _create(self, found: volume_queries.AtWork) -> volume_queries.AtWork:
        volume = found.volume
        failpoints.point('volume.volumes.before_create')
        try:
            made = self._maker.make(found)
        except verbs.Left:
            raise
        except Exception as exc:
            if not volume_queries.is_claimed(self._database, found.claim) or isinstance(
                    exc, errors.BackendRefused) or self._remains.removed(volume):
                raise verbs.Failed(f'Pool {volume.pool}: {exc}', found) from exc
            # It is made again when its deadline has passed, unless it is taken away.
            raise
        failpoints.point('volume.volumes.after_create')
        return made

    @verbs.work(
        'volume.delete', deadline='create_seconds')
    def delete(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Remove a volume."""
        with self._leases.volume(claim.resource_id) as lease:
            found = volume_queries.claimed(self._database, claim)
            if lease is None:
                raise errors.BackendUncertain(
                    reason='another operation on the volume is in progress')
            self._backend.target.unexport(found.volume.id)
            failpoints.point('volume.volumes.after_unexport')
            # Work that an operator's repair has begun does not say which there are.
            if found.progress.get('snapshots') != {}:
                self._delete_snapshots(claim, found.volume)
            self._backend.delete(found.volume)
            failpoints.point('volume.volumes.after_delete')

    @verbs.work('volume.cleanup', deadline='create_seconds',
                done=lambda self, claim, made: self._remains.forget(claim),
                cancel=work_ends.forget)
    def cleanup(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Remove what may remain of a volume on a pool that has lost it."""
        self._remains.clean(claim)
