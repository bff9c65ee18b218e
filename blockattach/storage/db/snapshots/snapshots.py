"""State changes of snapshots, and changes of their names, metadata and status by requests.

Each function that writes uses one transaction. A claim on an operation is described by
`blockattach.storage.domain.records.Claim`.
"""
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_rows = models.snapshots
_metadata = models.snapshot_metadata
_Status = snapshots.Status
_Event = snapshots.Event
_Own = volume_lifecycle.OwnStatus
Change = Callable[[dict[str, str]], Mapping[str, str]]
"""Function that computes the new metadata from the present metadata."""


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """Requested properties of a new snapshot.

    :ivar volume: volume for which the request was authorized
    :ivar in_use: True if a snapshot of a volume in use is allowed
    :ivar reference: name of the existing snapshot on the backend that the manage operation adopts;
        None to create a snapshot
    """

    volume: records.Judged
    project_id: str
    user_id: str
    name: str | None
    description: str | None
    metadata: Mapping[str, str]
    in_use: bool = False
    request_id: str | None = None
    reference: str | None = None


class Deleting(NamedTuple):
    """Snapshot that is being deleted.

    :ivar generation: generation of the snapshot after the start of the deletion
    :ivar host: ``host@backend`` that deletes the snapshot
    """

    id: str
    generation: int
    host: str | None


@storage_db.retried
def create(database: storage_db.Database, draft: Draft, lease_seconds: float,
           within: Callable[[sa.Connection, str], None] | None = None) -> snapshots.Snapshot:
    """Insert a snapshot and the work item that creates or manages it. The backend is not called.

    :param lease_seconds: seconds after which the volume service starts the work even if it has
        not received the RPC call, in database time
    :param within: called in the same transaction with the id of the new snapshot. If ``within``
        raises an exception, nothing is written
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the status of the volume does not allow a snapshot, or its backend is
        frozen
    :raises QuotaExceeded: the project has reached a quota
    """
    new_id = database.new_id()
    limits = quotas.limits(database, draft.project_id)
    with database.writer(storage_db.inserted(_rows.c.id, new_id)) as connection:
        volume = volume_rows.lock_judged(connection, draft.volume)
        snapshots.check_source(volume.id, volume.own_status, volume.status, volume.pool,
                               draft.in_use)
        quotas.check_snapshot(connection, database, limits, volume)
        if volume_rows.is_frozen(connection, volume.pool):
            raise errors.InvalidVolume(reason=f'The backend of volume {volume.id} is frozen.')
        # All columns, because the returned record is built from them without another read.
        values = {
            'id': new_id, 'volume_id': volume.id, 'project_id': draft.project_id,
            'user_id': draft.user_id, 'name': draft.name, 'description': draft.description,
            'size_gb': volume.size_gb, 'status': _Status.CREATING.value, 'progress': 0,
            'volume_type_id': volume.volume_type_id, 'pool': volume.pool,
            'availability_zone': volume.availability_zone, 'generation': 1, 'status_reset': False,
            'created_at': database.clock.utcnow(), 'updated_at': None, 'deleted': False}
        # An update of the row, so that a deletion of the volume on another node of a database
        # cluster conflicts.
        volume_rows.claim(connection, volume)
        connection.execute(_rows.insert().values(values))
        managed = draft.reference is not None
        work.begin(connection, database, (management if managed else creation)(new_id, 1),
                   lease_seconds, records.host_of(volume.pool), request_id=draft.request_id,
                   project_id=draft.project_id,
                   progress={'reference': draft.reference} if managed else {})
        _insert_metadata(connection, new_id, draft.metadata)
        if within is not None:
            within(connection, new_id)
    if managed:
        log.step(LOG, 'Managing snapshot', snapshot_id=new_id, volume_id=volume.id)
    else:
        log.step(LOG, 'Creating snapshot', snapshot_id=new_id, volume_id=volume.id)
    return snapshot_queries.record(values, dict(draft.metadata))


@storage_db.retried
def start_delete(database: storage_db.Database, snapshot: snapshots.Snapshot, lease_seconds: float,
                 force: bool = False, request_id: str | None = None) -> Deleting:
    """Record the deletion of a snapshot. The backend is not called yet.

    :param lease_seconds: seconds after which another process may start the deletion, in database
        time. If a process is still working on the snapshot, the deadline of that work is used
        instead
    :param force: True to delete a snapshot in any status
    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project
    :raises InvalidSnapshot: the status of the snapshot or of its volume does not allow the
        deletion, the backend is frozen, the snapshot is being managed, or a volume is being
        created from the snapshot
    """
    with database.writer(lambda again: _stepped(again, row)) as connection:
        volume, row = _lock_both(connection, snapshot)
        _check_deletable(connection, volume, row, force)
        claim, host = deletion(row.id, row.generation + 1), records.host_of(row.pool)
        before = work.find(connection, 'snapshot', row.id)
        work.end(connection, deletion(row.id, row.generation))
        snapshot_rows.move(connection, database, row,
                           _Event.FORCE_DELETE if force else _Event.DELETE)
        # A process that is creating the snapshot may still finish. The deletion is assigned to
        # that process until its deadline, so that no other process deletes the snapshot meanwhile.
        owner, deadline = (None, None) if before is None else (before.owner, before.deadline)
        work.begin(connection, database, claim._replace(owner=owner),
                   lease_seconds if owner is None or deadline is None else deadline, host,
                   request_id=request_id, project_id=row.project_id, progress={'was': row.status})
    log.step(LOG, 'Deleting snapshot', snapshot_id=row.id, pool=row.pool)
    return Deleting(row.id, claim.generation, host)


@storage_db.retried
def deleted_with(database: storage_db.Database, claim: records.Claim, snapshot_id: str) -> None:
    """Record that the backend has deleted a snapshot during the deletion of its volume.

    :param claim: claim on the deletion of the volume
    :raises StaleGeneration: the claim is not valid any more
    :raises VolumeNotFound, SnapshotNotFound: the volume or the snapshot is deleted already
    """
    with database.writer(lambda again: _is_gone(again, snapshot_id)) as connection:
        volume = volume_rows.lock(connection, claim.resource_id)
        if (volume.generation, volume.own_status) != (claim.generation, _Own.DELETING.value):
            raise errors.StaleGeneration(noun='volume', id=volume.id, generation=claim.generation)
        work.read(connection, claim)
        row = snapshot_rows.lock(connection, snapshot_id)
        snapshot_rows.move(connection, database, row, _Event.DELETED)
    log.step(LOG, 'Snapshot deleted with volume', snapshot_id=snapshot_id)


@storage_db.retried
def unmanage(database: storage_db.Database, snapshot: snapshots.Snapshot) -> None:
    """Mark a snapshot as deleted without calling the backend, which keeps the data.

    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project
    :raises InvalidSnapshot: the status of the snapshot or of its volume does not allow unmanaging,
        the snapshot is being managed, or a volume is being created from the snapshot
    """
    with database.writer(lambda again: _is_gone(again, snapshot.id)) as connection:
        volume, row = _lock_both(connection, snapshot)
        _check_usable(connection, volume, row, row.status in snapshots.UNMANAGEABLE)
        snapshot_rows.move(connection, database, row, _Event.UNMANAGE)
    log.step(LOG, 'Snapshot unmanaged', snapshot_id=row.id, pool=row.pool)


@storage_db.retried
def leave_remains(database: storage_db.Database, snapshot: snapshots.Snapshot,
                  retry_seconds: float) -> None:
    """Schedule the removal of data that a deleted snapshot may have on its backend.

    :param retry_seconds: seconds until the removal is attempted
    """
    with database.writer() as connection:
        work.replace(connection, database, remains(snapshot.id, snapshot.pool or ''),
                     retry_seconds, snapshot.host)


def cleaned(database: storage_db.Database, claim: records.Claim) -> None:
    """Delete the work item of `leave_remains`, after the data were removed from the backend."""
    work.forget(database, claim)


@storage_db.retried
def reset_status(database: storage_db.Database, snapshot: snapshots.Snapshot,
                 status: _Status) -> None:
    """Set the status of a snapshot as requested by an administrator.

    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project
    :raises SnapshotAtWork: the snapshot is being created, managed or deleted, or its volume is
        being deleted or reverted
    :raises InvalidSnapshot: the new status is ``available``, but the snapshot was never created on
        a backend
    """
    with database.writer() as connection:
        row = _lock_idle(connection, snapshot)
        # The progress is 0 until a backend has created the snapshot.
        if not row.progress and status is _Status.AVAILABLE:
            raise errors.InvalidSnapshot(
                reason=f'Snapshot {row.id} was never created on a backend, so the status cannot '
                       f'be reset to {status}.')
        snapshot_rows.move(connection, database, row, _Event.RESET, status, status_reset=True)


@storage_db.retried
def state_status(database: storage_db.Database, snapshot: snapshots.Snapshot, stated: str,
                 progress: int | None) -> None:
    """Set the status and progress that a consumer such as Nova reports for a snapshot.

    :param stated: status that the consumer reports
    :param progress: progress in percent; None to leave the progress unchanged
    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project
    :raises InvalidInput: the present status does not allow the change to ``stated``
    :raises SnapshotAtWork: ``stated`` differs from the present status, and an operation of this
        service is in progress. The snapshot is being created, managed or deleted, or its volume is
        being deleted or reverted
    """
    with database.writer() as connection:
        volume, row = _lock_both(connection, snapshot)
        status = snapshots.check_stated(row.status, stated)
        values = {} if progress is None else {'progress': progress}
        if _is_at_work(connection, volume, row):
            if status != row.status:
                raise errors.SnapshotAtWork(snapshot_id=row.id, status=row.status)
            snapshot_rows.update(connection, row, **values, updated_at=database.clock.utcnow())
            return
        snapshot_rows.move(connection, database, row, _Event.STATE, status, status_reset=True,
                           **values)


@storage_db.retried
def update(database: storage_db.Database, snapshot: records.Judged,
           values: Mapping[str, str | None]) -> None:
    """Update the name or the description of a snapshot, or both.

    :param values: new values by column name
    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project
    """
    with database.writer() as connection:
        row = snapshot_rows.lock_judged(connection, snapshot)
        snapshot_rows.update(connection, row, **values, updated_at=database.clock.utcnow())


@storage_db.retried
def change_metadata(database: storage_db.Database, snapshot: records.Judged,
                    change: Change) -> dict[str, str]:
    """Change the metadata of a snapshot, and return the resulting metadata.

    :param change: function that computes the new metadata from the present metadata
    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project
    """
    snapshot_id = snapshot.id
    with database.writer() as connection:
        row = snapshot_rows.lock_judged(connection, snapshot)
        mine = _metadata.c.snapshot_id == snapshot_id
        now = {row.key: row.value for row in connection.execute(_metadata.select().where(mine))}
        wanted = dict(change(dict(now)))
        changed = [key for key in now if wanted.get(key) != now[key]]
        if changed:
            connection.execute(_metadata.delete().where(mine, _metadata.c.key.in_(changed)))
        _insert_metadata(connection, snapshot_id, {
            key: value for key, value in wanted.items() if now.get(key) != value})
        snapshot_rows.update(connection, row, updated_at=database.clock.utcnow())
    return wanted


def creation(snapshot_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the creation of a snapshot.

    :param owner: process instance; None for any
    """
    return snapshot_rows.work_on(snapshot_id, generation, 'create', owner)


def management(snapshot_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the manage operation that adopts a snapshot.

    :param owner: process instance; None for any
    """
    return snapshot_rows.work_on(snapshot_id, generation, 'manage', owner)


def deletion(snapshot_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the deletion of a snapshot.

    :param owner: process instance; None for any
    """
    return snapshot_rows.work_on(snapshot_id, generation, 'delete', owner)


def remains(snapshot_id: str, pool: str, owner: str | None = None) -> records.Claim:
    """Return the claim on the removal of data that a deleted snapshot may have on its pool.

    :param owner: process instance; None for any
    """
    return records.Claim('snapshot', f'{snapshot_id}@{pool}', 'cleanup', 0, owner)


def _lock_both(connection: sa.Connection,
               snapshot: snapshots.Snapshot) -> tuple[sa.Row[Any], sa.Row[Any]]:
    # The lock order is the volume, then its snapshots.
    volume = volume_rows.lock(connection, snapshot.volume_id)
    return volume, snapshot_rows.lock_judged(connection, snapshot)


def _lock_idle(connection: sa.Connection, snapshot: snapshots.Snapshot) -> sa.Row[Any]:
    volume, row = _lock_both(connection, snapshot)
    if _is_at_work(connection, volume, row):
        raise errors.SnapshotAtWork(snapshot_id=row.id, status=row.status)
    return row


def _is_at_work(connection: sa.Connection, volume: Any, row: Any) -> bool:
    # The deletion of the volume also deletes the snapshot, and a revert reads its data.
    return volume.own_status in (_Own.DELETING, _Own.REVERTING) or \
        work.find(connection, 'snapshot', row.id) is not None


def _check_deletable(connection: sa.Connection, volume: Any, row: Any, force: bool) -> None:
    _check_usable(connection, volume, row, force or row.status in snapshots.DELETABLE)
    if volume_rows.is_frozen(connection, row.pool):
        raise errors.InvalidSnapshot(reason=f'The backend of snapshot {row.id} is frozen.')


def _check_usable(connection: sa.Connection, volume: Any, row: Any, status_allows: bool) -> None:
    if not status_allows:
        raise errors.InvalidSnapshot(reason='Snapshot status must be available or error and '
                                            'Snapshot must not be part of a group.')
    if volume.own_status in (_Own.DELETING, _Own.REVERTING):
        raise errors.InvalidSnapshot(
            reason=f'Volume {volume.id} of snapshot {row.id} is {volume.own_status}. Retry when '
                   f'the operation has finished.')
    snapshot_rows.check_unused(connection, row.id)


def _insert_metadata(connection: sa.Connection, snapshot_id: str,
                     metadata: Mapping[str, str]) -> None:
    if metadata:
        connection.execute(_metadata.insert(), [
            {'snapshot_id': snapshot_id, 'key': key, 'value': value}
            for key, value in metadata.items()])


def _stepped(connection: sa.Connection, row: Any) -> bool:
    return snapshot_rows.is_now(connection, row.id, generation=row.generation + 1)


def _is_gone(connection: sa.Connection, snapshot_id: str) -> bool:
    return snapshot_rows.is_now(connection, snapshot_id, deleted=True)
