"""Snapshot operations: create, delete and revert.

The operations return at once; the volume service does the work.
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
        """Create a snapshot record, and ask the volume service to create the snapshot.

        :param request: idempotency key; repeated requests create only one snapshot
        :raises VolumeNotFound, InvalidVolume: the volume does not allow a snapshot
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
        """Start to delete a snapshot.

        :param force: ignore the status of the snapshot
        :raises SnapshotNotFound, InvalidSnapshot: the snapshot cannot be deleted
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
        """Start to revert a volume to its latest snapshot.

        :raises InvalidInput, NotRevertible: the volume cannot be reverted to this snapshot
        """
        with self._parts.telemetry.verb('volumes.revert'):
            reverting = reverts.start(
                self._parts.database, volume, snapshot_id, self._parts.settings.delete_seconds,
                caller.request_id)
            failpoints.point('control.snapshots.after_revert')
            handoff.start_work(
                self._parts, caller, reverts.reversion(reverting.id, reverting.generation),
                reverting.host)
