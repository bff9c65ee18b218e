"""Snapshot operations: create, manage, delete and revert.

The operations return before the volume service has executed the work.
"""
import functools

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import idempotency
from blockattach.storage.control import handoff
from blockattach.storage.control import repeats
from blockattach.storage.control import volume_parts
from blockattach.storage.db.snapshots import reverts
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots as domain


class SnapshotControl:
    """Snapshot operations for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts) -> None:
        self._parts = parts

    def create(self, caller: context.RequestContext, draft: snapshots.Draft,
               request: idempotency.Request | None = None) -> domain.Snapshot:
        """Create the row of a snapshot, and ask the volume service to execute the work.

        The work creates the snapshot, or manages an existing one if the draft has a reference.

        :param request: identity of a request with an idempotency key, which creates only one
            snapshot if it is repeated; None without a key
        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        :raises InvalidVolume: the status of the volume does not allow a snapshot
        :raises QuotaExceeded: the project has reached a quota
        """
        with self._parts.telemetry.verb('snapshots.create'):
            if request is None:
                return self._create(caller, draft)
            return self._parts.repeats.once(
                request, lambda within: self._create(caller, draft, within),
                functools.partial(snapshot_queries.get, self._parts.database))

    def _create(self, caller: context.RequestContext, draft: snapshots.Draft,
                within: repeats.Within | None = None) -> domain.Snapshot:
        failpoints.point('control.snapshots.before_create')
        made = snapshots.create(self._parts.database, draft,
                                self._parts.settings.schedule_seconds, within)
        failpoints.point('control.snapshots.after_create')
        claim = snapshots.creation if draft.reference is None else snapshots.management
        handoff.start_work(self._parts, caller, claim(made.id, made.generation), made.host)
        return made

    def delete(self, caller: context.RequestContext, snapshot: domain.Snapshot,
               force: bool = False) -> None:
        """Start the deletion of a snapshot.

        :param force: True to delete the snapshot in any status
        :raises SnapshotNotFound: the snapshot was deleted or transferred in the meantime
        :raises InvalidSnapshot: the snapshot cannot be deleted now, see `snapshots.start_delete`
        """
        with self._parts.telemetry.verb('snapshots.delete'):
            deleting = snapshots.start_delete(
                self._parts.database, snapshot, self._parts.settings.delete_seconds, force,
                caller.request_id)
            failpoints.point('control.snapshots.after_delete')
            handoff.start_work(
                self._parts, caller, snapshots.deletion(deleting.id, deleting.generation),
                deleting.host)

    def revert(self, caller: context.RequestContext, volume: records.Volume,
               snapshot_id: str | None) -> None:
        """Start the revert of a volume to its latest snapshot.

        :param snapshot_id: snapshot that the request names
        :raises InvalidInput: the volume has no snapshots, ``snapshot_id`` is not the latest
            snapshot of the volume, or the sizes of the volume and the snapshot differ
        :raises NotRevertible: the volume or the snapshot is not available
        """
        with self._parts.telemetry.verb('volumes.revert'):
            reverting = reverts.start(
                self._parts.database, volume, snapshot_id, self._parts.settings.delete_seconds,
                caller.request_id)
            failpoints.point('control.snapshots.after_revert')
            handoff.start_work(
                self._parts, caller, reverts.reversion(reverting.id, reverting.generation),
                reverting.host)
