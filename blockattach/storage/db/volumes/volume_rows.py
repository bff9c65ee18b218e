"""Locks of volumes, and the changes of their own status.

The functions are called within the transactions of other modules of `blockattach.storage.db`. They
also update the status columns that are derived from the own status and the attachments. The only
other module that updates these columns is `blockattach.storage.db.attachments.attachments`.
"""
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import claims
from blockattach.storage.domain import quotas as quota_rules
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_volumes = models.volumes
_pools = models.pools
_Own = volume_lifecycle.OwnStatus
_attachments = models.attachments
LIVE = models.live(_volumes)
"""Condition for volumes that are not deleted."""
_LOCK = statements.Statement(lambda dialect: _volumes.select().where(
    _volumes.c.id == statements.value('volume_id'), LIVE).with_for_update())


# The transitions from creation to the status available are each written by a single statement,
# because every volume makes them.
def _at(own_status: volume_lifecycle.OwnStatus) -> tuple[sa.ColumnElement[bool], ...]:
    # The condition has no indexed column except the primary key. Otherwise MariaDB might use, and
    # lock, another index first.
    return (_volumes.c.id == statements.value('volume_id'),
            _volumes.c.generation == statements.value('generation'),
            _volumes.c.own_status == own_status.value)


_NEXT = {'generation': _volumes.c.generation + 1, 'updated_at': statements.value('now')}
# The status columns are not written, because the volume is still being created.
CLAIM = statements.Statement(lambda dialect: _volumes.update().where(
    *_at(_Own.CREATING), _volumes.c.pool.is_(None)).values(
        pool=statements.value('pool'), service_uuid=statements.value('service_uuid'), **_NEXT))
_SIZE = sa.select(_volumes.c.size_gb).where(
    _volumes.c.id == statements.value('volume_id')).scalar_subquery()
TAKE = statements.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == statements.value('pool'),
    sa.or_(_pools.c.limit_gb.is_(None), _pools.c.allocated_gb + _SIZE <= _pools.c.limit_gb),
).values(allocated_gb=_pools.c.allocated_gb + _SIZE))
_NO_GRANTS = statements.Statement(lambda dialect: models.grants.delete().where(
    models.grants.c.volume_id == statements.value('volume_id')))
CREATED = statements.Statement(lambda dialect: _volumes.update().where(
    *_at(_Own.CREATING), _volumes.c.pool.is_not(None), _volumes.c.lowest_rank.is_(None),
).values(own_status=_Own.AVAILABLE.value, shared_targets=statements.value('shared_targets'),
         **volume_lifecycle.derive_status(_Own.AVAILABLE, None)._asdict(), **_NEXT))


def with_limits(query: sa.Select) -> sa.Select:
    """Add the columns with the QoS specs to a query for volumes and their types.

    `blockattach.storage.db.rows.limits` needs these columns. The join saves a second statement.
    """
    specs = models.qos_specs
    return query.add_columns(
        specs.c.consumer.label('qos_consumer'), specs.c.specs.label('qos_specs'),
    ).outerjoin(specs, specs.c.id == models.volume_types.c.qos_specs_id)


def lock(connection: sa.Connection, volume_id: str) -> Any:
    """Lock the row of a live volume until the transaction ends.

    :returns: row of the volume
    :raises VolumeNotFound: there is no such live volume
    """
    row = _LOCK.first(connection, volume_id=volume_id)
    if row is None:
        raise errors.VolumeNotFound(volume_id=volume_id)
    return row


def lock_judged(connection: sa.Connection, judged: records.Judged) -> Any:
    """Lock the live volume for which a request was authorized, until the transaction ends.

    :returns: row of the volume
    :raises VolumeNotFound: the volume is deleted, or belongs to another project now
    """
    row = _LOCK.first(connection, volume_id=judged.id)
    rows.check_judged(row, judged, errors.VolumeNotFound(volume_id=judged.id))
    return row


def lock_at(connection: sa.Connection, volume_id: str, generation: int | None,
            *own_statuses: volume_lifecycle.OwnStatus) -> Any:
    """Lock a live volume on condition of its generation and its own status.

    :param generation: generation that the volume must have; None for any generation
    :param own_statuses: own statuses, one of which the volume must have
    :returns: row of the volume
    :raises VolumeNotFound: there is no such live volume
    :raises StaleGeneration: the volume has another generation or another own status
    """
    row = lock(connection, volume_id)
    if generation not in (None, row.generation) or row.own_status not in own_statuses:
        raise errors.StaleGeneration(noun='volume', id=volume_id,
                                     generation=generation or row.generation)
    return row


def stepped(volume_id: str, generation: int, **values: Any) -> storage_db.Happened:
    """Return a callback that checks whether a change of a volume was committed.

    :param generation: generation before the change, which the change increments
    :param values: columns that the change writes
    """
    return lambda connection: rows.holds(await_others(connection, volume_id),
                                         {'generation': generation + 1, **values})


def await_others(connection: sa.Connection, volume_id: str) -> sa.Row[Any] | None:
    """Lock and return the row of a live or deleted volume, or return None if there is no row.

    The call waits for other transactions that have locked the row. One of them may be an earlier
    transaction of the caller, whose connection was lost during the commit.
    """
    return connection.execute(
        _volumes.select().where(_volumes.c.id == volume_id).with_for_update()).one_or_none()


def limits(database: storage_db.Database, project_id: str) -> quotas.Limits:
    """Return the limits of a project for `insert`. Called before the transaction begins."""
    return quotas.limits(database, project_id)


def insert(connection: sa.Connection, database: storage_db.Database, kind: records.VolumeType,
           of_project: quotas.Limits, own_status: volume_lifecycle.OwnStatus = _Own.CREATING,
           **values: Any) -> Mapping[str, Any]:
    """Insert a new volume, and check the quotas of its project.

    The transaction must not have read anything without a lock before. The function locks the
    project if its usage is near a limit, and takes a shared lock on the volume type.

    :param kind: volume type for which the request was authorized
    :param of_project: limits of the project, as read before the transaction
    :param values: columns of the volume, except those that depend on its type or own status
    :returns: inserted columns
    :raises VolumeTypeNotFound: the type is deleted
    :raises VolumeTypeChanged: the type has changed since the request was authorized
    :raises QuotaExceeded, VolumeSizeExceedsLimit: the volume exceeds a quota of the project
    """
    addition = quota_rules.volume(kind.id, values['size_gb'])
    # The project is locked before the type, as in the lock order of `quotas`.
    near = quotas.lock_if_near(connection, database, of_project, addition)
    volume_types.hold(connection, kind)
    derived = volume_lifecycle.derive_status(own_status, None)
    row = {
        'bootable': False, **values, 'own_status': own_status.value, **derived._asdict(),
        **volume_types.columns_of(kind), 'shared_targets': True,
        'generation': 1, 'created_at': database.clock.utcnow()}
    statements.insert(connection, _volumes, row)
    if near:
        # The usage is counted after the type is locked. Otherwise MariaDB would show the type as
        # it was at the time of the count.
        quotas.count(connection, database, of_project, addition, written=True)
    return row


def store_rank(connection: sa.Connection, database: storage_db.Database, row: Any,
               lowest_rank: int | None, announced: int | None = None,
               **metadata: Any) -> volume_lifecycle.Derived:
    """Store the lowest attachment rank of a locked volume, and the derived status columns.

    Nothing is written if all values are unchanged and ``metadata`` is empty.

    :param lowest_rank: lowest rank of the live attachments; None if there are no live attachments
    :param announced: new number of announced detaches; None to leave the number unchanged
    :param metadata: further columns of the volume
    :returns: new values of the status columns
    """
    announced = row.detach_announced if announced is None else max(announced, 0)
    derived = volume_lifecycle.derive_status(
        row.own_status, lowest_rank, announced > 0)
    now = (lowest_rank, announced, *derived)
    if metadata or \
            (row.lowest_rank, row.detach_announced, row.status, row.attach_status) != now:
        statements.update(connection, _volumes, {'id': row.id}, {
            'lowest_rank': lowest_rank, 'detach_announced': announced, **derived._asdict(),
            'updated_at': database.clock.utcnow(), **metadata})
    return derived


def move(connection: sa.Connection, database: storage_db.Database, row: Any,
         event: volume_lifecycle.Event, chosen: volume_lifecycle.OwnStatus | None = None,
         **values: Any) -> volume_lifecycle.OwnStatus:
    """Apply an event to a locked volume.

    The event determines the new own status. The generation is incremented, and the derived status
    columns are updated. Claimed space is released if the new own status is not in
    `volume_lifecycle.CLAIMING`, unless ``values`` contain ``claimed_pool``.

    :param row: row of the volume as read under the lock
    :param chosen: see `volume_lifecycle.next_status`
    :param values: further columns of the volume
    :returns: new own status
    :raises InvalidVolume: the own status does not allow the event
    :raises RetryRequest: the row has changed since it was read
    """
    own_status = volume_lifecycle.next_status(row.own_status, event, chosen)
    if own_status not in volume_lifecycle.CLAIMING and 'claimed_pool' not in values:
        values |= claims.withdraw(connection, database, row)
    derived = volume_lifecycle.derive_status(
        own_status, row.lowest_rank, row.detach_announced > 0)
    rows.advance(connection, _volumes, row, **{
        'own_status': own_status.value, **derived._asdict(),
        'updated_at': database.clock.utcnow(), **values})
    return own_status


def update(connection: sa.Connection, row: Any, **values: Any) -> None:
    """Update columns of a locked volume that do not affect its lifecycle.

    :raises RetryRequest: the row has changed since it was read
    """
    rows.update(connection, _volumes, row, **values)


def claim(connection: sa.Connection, row: Any) -> None:
    """Claim a locked volume for a transaction that relies on the volume without changing it.

    A concurrent transaction that changes the volume then conflicts, on any node of the database.

    :raises RetryRequest: the row has changed since it was read
    """
    # This is an update, because a locking read does not block other nodes of a multi-writer
    # database. The generation is kept, because other work on the volume may be in progress.
    update(connection, row, attachment_moves=row.attachment_moves + 1)


def remove(connection: sa.Connection, database: storage_db.Database, row: Any,
           event: volume_lifecycle.Event) -> None:
    """Apply an event that deletes a locked volume, and delete the grants of the volume.

    The row of the volume is kept as history.
    """
    move(connection, database, row, event, **bury(connection, database, row))


def bury(connection: sa.Connection, database: storage_db.Database, row: Any) -> dict[str, Any]:
    """Delete the grants of a locked volume that is being deleted.

    :returns: columns with which the caller marks the volume as deleted
    """
    _NO_GRANTS.change(connection, volume_id=row.id)
    return {'deleted': True, 'deleted_at': database.clock.utcnow()}


def release(connection: sa.Connection, row: Any) -> None:
    """Release the space that a volume occupies on its pool, if the volume has a pool."""
    if row.pool is not None:
        claims.release(connection, row.pool, row.size_gb)


def is_frozen(connection: sa.Connection, pool: str) -> bool:
    """Return True if the backend of a pool is frozen.

    On a frozen backend, no volume may be created or deleted.
    """
    return services.is_frozen(connection, str(records.host_of(pool)))


def attached_count(connection: sa.Connection, volume_id: str) -> int:
    """Return the number of attachments of a volume in the state attached."""
    return connection.execute(
        sa.select(sa.func.count()).where(
            _attachments.c.volume_id == volume_id,
            _attachments.c.rank == volume_lifecycle.ATTACHED_RANK)).scalar_one()
