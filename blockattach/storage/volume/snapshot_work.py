"""Make and remove snapshots on one backend: what goes on after the answer."""
import functools
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage.db import work_ends
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.snapshots import snapshots as db_snapshots
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs

LOG = oslo_log.getLogger(__name__)

_LEFT = (snapshots.Status.CREATING, snapshots.Status.AVAILABLE)


class Made(NamedTuple):
    """A snapshot, and its volume."""

    snapshot: snapshots.Snapshot
    volume: records.Volume


class SnapshotWork:
    """The acts on the snapshots of one backend.

    Threads of this process exclude each other from a snapshot, and its volume is used meanwhile.
    """

    def __init__(self, context: work_context.WorkContext) -> None:
        self._retry_seconds = context.retry_seconds
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._pace = context.pace

    @verbs.work(
        'snapshot.create', deadline='create_seconds',
        undo=lambda self, made: self._undo(made))
    def create(self, caller: context.RequestContext, claim: records.Claim) -> Made:
        """Keep a volume's bytes as they are at this moment."""
        with self._leases.alone(claim.resource_id):
            made = self._claimed(claim)
            failpoints.point('volume.snapshots.before_create')
            copied = self._pace.of(made.volume.id, functools.partial(self._is_claimed, claim))
            try:
                self._backend.create_snapshot(*made, copied)
            except verbs.Left:
                raise
            except Exception as exc:
                if not self._is_claimed(claim):
                    # Whether another process makes it now is looked at before anything goes.
                    raise verbs.Failed(str(exc), made) from exc
                removed = self._removed(made)
                if removed or isinstance(exc, errors.BackendRefused):
                    raise verbs.Failed(str(exc), made) from exc
                # It is made again when its deadline has passed.
                raise
            failpoints.point('volume.snapshots.after_create')
            return made

    @verbs.work(
        'snapshot.delete', deadline='create_seconds')
    def delete(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Remove a snapshot."""
        with self._leases.alone(claim.resource_id):
            self._backend.delete_snapshot(*self._claimed(claim))
            failpoints.point('volume.snapshots.after_delete')

    @verbs.work('snapshot.cleanup', deadline='create_seconds',
                done=lambda self, claim, made: db_snapshots.cleaned(self._database, claim),
                cancel=work_ends.forget)
    def cleanup(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Remove what may remain of a snapshot that was taken away."""
        snapshot_id = claim.resource_id.partition('@')[0]
        with self._leases.alone(snapshot_id):
            found = snapshot_queries.find_even_deleted(self._database, snapshot_id)
            if found is not None and found.status not in _LEFT:
                self._backend.delete_snapshot(found, volume_queries.get_even_deleted(
                    self._database, found.volume_id))

    def delete_of(self, claim: records.Claim, volume: records.Volume) -> None:
        """Remove the snapshots of a volume that is removed with them.

        :param claim: on the volume
        :raises StaleGeneration: another process went on with it
        """
        for snapshot in snapshot_queries.of_volume(self._database, volume.id):
            with self._leases.alone(snapshot.id):
                self._backend.delete_snapshot(snapshot, volume)
                failpoints.point('volume.snapshots.after_delete_of')
                db_snapshots.deleted_with(self._database, claim, snapshot.id)

    def _undo(self, made: Made) -> None:
        """Remove what was made of a snapshot that was taken away meanwhile, unless another process
        makes it, or has made it.
        """
        with self._leases.alone(made.snapshot.id):
            now = snapshot_queries.find(self._database, made.snapshot.id)
            if (now is None or now.status not in _LEFT) and not self._removed(made):
                db_snapshots.leave_remains(self._database, made.snapshot, self._retry_seconds)

    def _removed(self, made: Made) -> bool:
        """Remove a snapshot's bytes; whether they are gone."""
        try:
            self._backend.delete_snapshot(*made)
        except Exception as exc:
            LOG.error('Failed to delete remains of snapshot%s', log.fields(
                snapshot_id=made.snapshot.id, pool=made.volume.pool, reason=exc),
                exc_info=not errors.is_known(exc))
            return False
        return True

    def _is_claimed(self, claim: records.Claim) -> bool:
        return snapshot_queries.claimed(self._database, claim) is not None

    def _claimed(self, claim: records.Claim) -> Made:
        snapshot = snapshot_queries.claimed(self._database, claim)
        if snapshot is None:
            raise errors.StaleGeneration(noun='snapshot', id=claim.resource_id,
                                         generation=claim.generation)
        return Made(snapshot, volume_queries.get_bare(self._database, snapshot.volume_id))
