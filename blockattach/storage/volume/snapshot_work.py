"""Work that creates and deletes snapshots of a backend, and reverts volumes to snapshots."""
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

# Statuses in which the data of a snapshot must not be deleted as remains.
_LEFT = (snapshots.Status.CREATING, snapshots.Status.AVAILABLE)


class Made(NamedTuple):
    """Snapshot with its volume."""

    snapshot: snapshots.Snapshot
    volume: records.Volume


class SnapshotWork:
    """Handlers of the work on the snapshots of one backend.

    One thread of this process at a time works on a snapshot. Other threads may act on the volume
    of the snapshot meanwhile.
    """

    def __init__(self, context: work_context.WorkContext) -> None:
        self._retry_seconds = context.retry_seconds
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._pace = context.pace
        self._copied = context.copied

    @verbs.work(
        'snapshot.create', deadline='create_seconds',
        undo=lambda self, item: self._undo(item))
    def create(self, caller: context.RequestContext, claim: records.Claim) -> Made:
        with self._leases.alone(claim.resource_id):
            item = self._claimed(claim)
            failpoints.point('volume.snapshots.before_create')
            copied = self._pace.of(item.volume.id, functools.partial(self._is_claimed, claim))
            try:
                self._backend.create_snapshot(*item, copied)
            except verbs.Left:
                # The next process resumes the work, so nothing is deleted.
                raise
            except Exception as exc:
                if not self._is_claimed(claim):
                    # Another process may be creating the snapshot now. `_undo` checks this before
                    # it deletes anything.
                    raise verbs.Failed(str(exc), item) from exc
                removed = self._removed(item)
                if removed or isinstance(exc, errors.BackendRefused):
                    raise verbs.Failed(str(exc), item) from exc
                # The outcome is unknown, so the work is repeated after its deadline.
                raise
            failpoints.point('volume.snapshots.after_create')
            return item

    @verbs.work(
        'snapshot.delete', deadline='create_seconds')
    def delete(self, caller: context.RequestContext, claim: records.Claim) -> None:
        with self._leases.alone(claim.resource_id):
            self._backend.delete_snapshot(*self._claimed(claim))
            failpoints.point('volume.snapshots.after_delete')

    @verbs.work('snapshot.cleanup', deadline='create_seconds',
                done=lambda self, claim, result: db_snapshots.cleaned(self._database, claim),
                cancel=work_ends.forget)
    def cleanup(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Delete the data of a snapshot that was deleted during its creation."""
        snapshot_id = claim.resource_id.partition('@')[0]
        with self._leases.alone(snapshot_id):
            snapshot = snapshot_queries.find_even_deleted(self._database, snapshot_id)
            if snapshot is not None and snapshot.status not in _LEFT:
                self._backend.delete_snapshot(snapshot, volume_queries.get_even_deleted(
                    self._database, snapshot.volume_id))

    def delete_of(self, claim: records.Claim, volume: records.Volume) -> None:
        """Delete the snapshots of a volume that is deleted with its snapshots.

        :param claim: claim of the work that deletes the volume
        :raises StaleGeneration: if another process has taken over the work
        """
        for snapshot in snapshot_queries.of_volume(self._database, volume.id):
            with self._leases.alone(snapshot.id):
                self._backend.delete_snapshot(snapshot, volume)
                failpoints.point('volume.snapshots.after_delete_of')
                db_snapshots.deleted_with(self._database, claim, snapshot.id)

    @verbs.work(
        'volume.revert', deadline='create_seconds')
    def revert(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Revert a volume to its latest snapshot."""
        with self._leases.volume(claim.resource_id) as lease:
            item = volume_queries.claimed(self._database, claim)
            if lease is None:
                raise errors.BackendUncertain(
                    reason='another operation on the volume is in progress')
            snapshot = snapshot_queries.get(self._database, item.progress['snapshot_id'])
            # LIO holds the device of an exported volume open even if no initiator has access, and
            # stores refuse to revert a volume that is in use.
            self._backend.target.unexport(item.volume.id)
            failpoints.point('volume.reverts.before_revert')
            self._backend.revert(snapshot, item.volume, self._copied(claim))
            failpoints.point('volume.reverts.after_revert')

    def _undo(self, item: Made) -> None:
        """Delete the data of a snapshot that was deleted during its creation.

        Nothing is deleted if another process is creating the snapshot, or has created it.
        """
        with self._leases.alone(item.snapshot.id):
            now = snapshot_queries.find(self._database, item.snapshot.id)
            if (now is None or now.status not in _LEFT) and not self._removed(item):
                db_snapshots.leave_remains(self._database, item.snapshot, self._retry_seconds)

    def _removed(self, item: Made) -> bool:
        """Delete a snapshot on the backend, and return True on success."""
        try:
            self._backend.delete_snapshot(*item)
        except Exception as exc:
            LOG.error('Failed to delete leftover snapshot from backend%s', log.fields(
                snapshot_id=item.snapshot.id, pool=item.volume.pool, reason=exc),
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
