"""Locks of snapshots, and the changes of their status.

This is the only module that changes the status of existing snapshots, alone or together with their
volume. The functions are called within the transactions of other modules of
`blockattach.storage.db`. Lock order: volume, snapshots.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import sources
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots
from blockattach.storage.domain import volume_lifecycle

_rows = models.snapshots
_volumes = models.volumes
_cached = models.cached_images
_Status = snapshots.Status
_Event = snapshots.Event
_DELETING = volume_lifecycle.OwnStatus.DELETING.value
LIVE = models.live(_rows)
"""Condition for snapshots that are not deleted."""
_DEPENDANTS = statements.Statement(lambda dialect: sa.select(
    sources.is_copied(_volumes.c.id).label('is_copied'),
    sa.exists().where(_rows.c.volume_id == _volumes.c.id, LIVE).label('has_snapshots'),
    sa.exists().where(_cached.c.volume_id == _volumes.c.id).label('is_cached'),
).where(_volumes.c.id == statements.value('volume_id')))


class Dependants(NamedTuple):
    """Resources that depend on the data of a volume.

    :ivar is_copied: True if another volume is being created from the volume
    :ivar has_snapshots: True if the volume has live snapshots
    :ivar is_cached: True if the volume contains a cached image, so that other volumes may be
        created from the volume at any time
    """

    is_copied: bool
    has_snapshots: bool
    is_cached: bool


def lock(connection: sa.Connection, snapshot_id: str) -> sa.Row[Any]:
    """Lock the row of a live snapshot until the transaction ends.

    :returns: row of the snapshot
    :raises SnapshotNotFound: there is no such live snapshot
    """
    row = await_others(connection, snapshot_id)
    if row is None or row.deleted:
        raise errors.SnapshotNotFound(snapshot_id=snapshot_id)
    return row


def lock_judged(connection: sa.Connection, judged: records.Judged) -> sa.Row[Any]:
    """Lock the live snapshot for which a request was authorized, until the transaction ends.

    :returns: row of the snapshot
    :raises SnapshotNotFound: the snapshot is deleted, or belongs to another project now
    """
    row = lock(connection, judged.id)
    rows.check_judged(row, judged, errors.SnapshotNotFound(snapshot_id=judged.id))
    return row


def lock_at(connection: sa.Connection, snapshot_id: str, generation: int | None) -> sa.Row[Any]:
    """Lock a live snapshot on condition of its generation.

    :param generation: generation that the snapshot must have; None for any generation
    :returns: row of the snapshot
    :raises StaleGeneration: the snapshot has another generation, is deleted, or does not exist
    """
    row = await_others(connection, snapshot_id)
    if row is None or row.deleted or generation not in (None, row.generation):
        raise errors.StaleGeneration(noun='snapshot', id=snapshot_id, generation=generation)
    return row


def await_others(connection: sa.Connection, snapshot_id: str) -> sa.Row[Any] | None:
    """Lock and return the row of a live or deleted snapshot, or return None if there is no row."""
    return connection.execute(
        _rows.select().where(_rows.c.id == snapshot_id).with_for_update()).one_or_none()


def is_now(connection: sa.Connection, snapshot_id: str, **values: Any) -> bool:
    """Lock the row of a snapshot, and return True if its columns have the given values.

    Used to find out whether changes are stored, if the connection was lost during the commit.
    """
    return rows.holds(await_others(connection, snapshot_id), values)


def move(connection: sa.Connection, database: storage_db.Database, row: Any, event: _Event,
         chosen: _Status | None = None, **values: Any) -> _Status:
    """Apply an event to a locked snapshot.

    The event determines the new status. The generation is incremented. If the new status is
    ``GONE``, the row is marked as deleted.

    :param row: row of the snapshot as read under the lock
    :param chosen: see `snapshots.next_status`
    :param values: further columns of the snapshot
    :returns: new status
    :raises InvalidSnapshot: the status does not allow the event
    :raises RetryRequest: the row has changed since it was read
    """
    status = snapshots.next_status(row.status, event, chosen)
    now = database.clock.utcnow()
    if status is _Status.GONE:
        values |= {'deleted': True, 'deleted_at': now}
    rows.advance(connection, _rows, row, **{
        'status_reset': False, **values, 'status': status.value, 'updated_at': now})
    return status


def update(connection: sa.Connection, row: Any, **values: Any) -> None:
    """Update columns of a locked snapshot that do not affect its lifecycle.

    :raises RetryRequest: the row has changed since it was read
    """
    rows.update(connection, _rows, row, **values)


def claim(connection: sa.Connection, row: Any) -> None:
    """Claim a locked snapshot for a transaction that relies on the snapshot.

    The generation of the snapshot is incremented, but no work is started. A concurrent transaction
    that changes the snapshot then conflicts, on any node of the database.

    :raises RetryRequest: the row has changed since it was read
    """
    # A locking read would not block other nodes of a multi-writer database.
    rows.advance(connection, _rows, row)


def dependants(connection: sa.Connection, volume_id: str) -> Dependants:
    """Return which resources depend on the data of a locked volume."""
    return Dependants(*_DEPENDANTS.first(connection, volume_id=volume_id))


def keep_cached(connection: sa.Connection, volume_id: str) -> None:
    """Raise InvalidVolume if a volume is being created from a cached image in a locked volume.

    Called before an operation after which the data of the locked volume may change.
    """
    found = dependants(connection, volume_id)
    if found.is_cached and found.is_copied:
        raise errors.InvalidVolume(
            reason=f'Volume {volume_id} is a cached image, and another volume is being created '
                   f'from the image. Retry when the operation has finished.')


def delete_with(connection: sa.Connection, database: storage_db.Database, volume_id: str,
                force: bool, project_id: str | None) -> dict[str, str]:
    """Start the deletion of all snapshots of a locked volume that is being deleted.

    The work of deleting the volume deletes the snapshots as well.

    :param force: True to delete snapshots in any status
    :param project_id: project that must own all snapshots of the volume; None for any project
    :returns: status of each snapshot before the deletion, by snapshot id
    :raises InvalidSnapshot: a snapshot belongs to another project, has a status that does not
        allow the deletion, is being managed, or is the source of a volume that is being created
    """
    found = _locked(connection, volume_id)
    for row in found:
        if project_id not in (None, row.project_id):
            # The message must not name a snapshot of another project.
            raise errors.InvalidSnapshot(
                reason=f'Volume {volume_id} cannot be deleted with its snapshots. A snapshot '
                       'belongs to another project.')
        if not force and row.status not in snapshots.DELETABLE:
            raise errors.InvalidSnapshot(
                reason=f'Snapshot {row.id} cannot be deleted in status {row.status}.')
        check_unused(connection, row.id)
    for row in found:
        work.end(connection, work_on(row.id, row.generation))
        move(connection, database, row, _Event.FORCE_DELETE if force else _Event.DELETE)
    return {row.id: row.status for row in found}


def keep(connection: sa.Connection, database: storage_db.Database, volume_id: str,
         was: Mapping[str, str]) -> None:
    """Restore the statuses of the snapshots of a locked volume whose deletion was cancelled.

    :param was: status of each snapshot before the deletion, by snapshot id
    """
    for row in _locked(connection, volume_id):
        move(connection, database, row, _Event.DELETE_CANCELLED, snapshots.settled(was[row.id]))


def cannot_delete_with(connection: sa.Connection, database: storage_db.Database,
                       volume_id: str) -> None:
    """Record that the snapshots of a locked volume could not be deleted with the volume."""
    for row in _locked(connection, volume_id):
        move(connection, database, row, _Event.DELETE_FAILED)


def derive_work(connection: sa.Connection, database: storage_db.Database, volume: Any) -> None:
    """Repair the work on the snapshots of a locked volume according to their statuses.

    Missing work is inserted, and work that does not belong to the status is deleted. Used by a
    command for operators.
    """
    for row in _locked(connection, volume.id):
        verb = {_Status.CREATING: 'create', _Status.DELETING: 'delete'}.get(_Status(row.status))
        # No work belongs to a status that a request has set directly. If the volume is being
        # deleted, the work on the volume deletes the snapshots.
        if verb is None or row.status_reset or volume.own_status == _DELETING:
            work.end(connection, work_on(row.id, row.generation))
        elif work.find(connection, 'snapshot', row.id) is None:
            work.begin(connection, database, work_on(row.id, row.generation, verb), work.PASSED,
                       records.host_of(row.pool), project_id=row.project_id,
                       progress={'was': _Status.ERROR.value})


def check_unused(connection: sa.Connection, snapshot_id: str) -> None:
    """Raise InvalidSnapshot if the data of a locked snapshot must not be deleted now.

    This is the case if the snapshot is being managed, or if a volume is being created from the
    snapshot.
    """
    at_work = work.find(connection, 'snapshot', snapshot_id)
    if at_work is not None and at_work.verb == 'manage':
        raise errors.InvalidSnapshot(
            reason=f'Snapshot {snapshot_id} is being managed. Retry when the operation has '
                   'finished.')
    if sources.is_snapshot_copied(connection, snapshot_id):
        raise errors.InvalidSnapshot(
            reason=f'A volume is being created from snapshot {snapshot_id}. Retry when the '
                   'operation has finished.')


def work_on(snapshot_id: str, generation: int, verb: str = 'delete',
            owner: str | None = None) -> records.Claim:
    """Return the claim on an operation on a snapshot.

    :param verb: ``create``, ``manage`` or ``delete``
    :param owner: process instance; None for any owner
    """
    return records.Claim('snapshot', snapshot_id, verb, generation, owner)


def _of(volume_id: str) -> sa.Select[Any]:
    return _rows.select().where(_rows.c.volume_id == volume_id, LIVE)


def _locked(connection: sa.Connection, volume_id: str) -> Sequence[sa.Row[Any]]:
    # The rows are sorted, so that all transactions lock the snapshots in the same order.
    return connection.execute(_of(volume_id).order_by(_rows.c.id).with_for_update()).all()
