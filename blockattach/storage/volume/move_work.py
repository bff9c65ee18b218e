"""Take volumes from other backends of the same process: migrations, and types that need one."""
import functools

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import work
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.volume import backends
from blockattach.storage.volume import copying
from blockattach.storage.volume import remains
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs

_UNSAID = (errors.VolumeNotFound, errors.DatabaseUnavailable, verbs.Left)
"""What says nothing of the copy: others go on with it, or this process does later."""


class MoveWork:
    """The acts that bring volumes to one backend.

    The source is only read, and removed as work of its own once the row says that the volume is
    here: it is whole whenever this is interrupted. Each attempt begins anew.
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
                          made: records.Volume | None) -> None:
        self._context.place_again(caller, claim)
        # Not before it waits for another pool: until then others may go on with it here.
        if made is not None:
            self._remains.remove_if_elsewhere(made)

    @verbs.work(
        'volume.migrate', deadline='create_seconds',
        failed=_unclaim, then=_then_place_again,
        undo=lambda self, volume: self._remains.remove_if_elsewhere(volume))
    def migrate(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Take a volume from another backend."""
        return verbs.TakesLong(functools.partial(self._take, claim))

    @verbs.work(
        'volume.retype', deadline='create_seconds',
        failed=_unclaim, then=_then_place_again,
        undo=lambda self, volume: self._remains.remove_if_elsewhere(volume))
    def retype(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """The same for the sake of a type that its own backend cannot serve."""
        return verbs.TakesLong(functools.partial(self._take, claim))

    def _take(self, claim: records.Claim) -> None:
        found = volume_queries.claimed(self._database, claim)
        try:
            with self._leases.alone(claim.resource_id):
                self._copy(claim, found)
                moving.moved(self._database, claim)
        except errors.StaleGeneration:
            self._remains.remove_if_elsewhere(found.there)
            raise
        except _UNSAID:
            raise
        except Exception as exc:
            # Whatever it is: the volume is whole where it was.
            raise verbs.Failed(f'Pool {found.there.pool}: {exc}', found.there) from exc
        failpoints.point('volume.moving.after_move')

    def _copy(self, claim: records.Claim, found: volume_queries.AtWork) -> None:
        source = self._context.served.get(found.volume.host or '')
        if source is None:
            raise errors.BackendRefused(
                reason=f'the process does not serve source backend {found.volume.host}')
        if backends.is_one_disk(source, found.volume, self._backend, found.there):
            raise errors.BackendRefused(
                reason=f'the pool and {found.volume.host} use the same storage for volume '
                       f'{found.volume.id}')
        # Of hosts that were connected once; both backends may have one target.
        source.target.unexport(found.volume.id)
        failpoints.point('volume.moving.before_create')
        # What an earlier attempt has left may have other bytes, or another size.
        self._backend.delete(found.there)
        self._backend.create(found.there)
        failpoints.point('volume.moving.before_copy')
        copying.copy_volume(source, found.volume, self._backend, found.there,
                            self._context.copied(claim))
        failpoints.point('volume.moving.after_copy')
