"""Lock of a volume, and the only code that writes the status of a volume.

Used only within the transactions of `blockattach.storage.db.attachments` and
`blockattach.storage.db.volumes`.
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


# The steps of the lifecycle that every volume takes have one statement each.
def _at(own_status: volume_lifecycle.OwnStatus) -> tuple[sa.ColumnElement[bool], ...]:
    # The only indexed column is the primary key. With another one MariaDB may use, and lock, the
    # other index first.
    return (_volumes.c.id == statements.value('volume_id'),
            _volumes.c.generation == statements.value('generation'),
            _volumes.c.own_status == own_status.value)


_NEXT = {'generation': _volumes.c.generation + 1, 'updated_at': statements.value('now')}
# The status columns stay as they are, because the volume is still being created.
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
    """Extend a query for volumes and their types by the QoS specs of the types.

    `blockattach.storage.db.rows.limits` needs these columns. The join saves a second statement.
    """
    specs = models.qos_specs
    return query.add_columns(
        specs.c.consumer.label('qos_consumer'), specs.c.specs.label('qos_specs'),
    ).outerjoin(specs, specs.c.id == models.volume_types.c.qos_specs_id)


def lock(connection: sa.Connection, volume_id: str) -> Any:
    """Lock the row of a live volume, as the first statement of the transaction.

    :raises VolumeNotFound: there is no such live volume
    """
    row = _LOCK.first(connection, volume_id=volume_id)
    if row is None:
        raise errors.VolumeNotFound(volume_id=volume_id)
    return row


def lock_judged(connection: sa.Connection, judged: records.Judged) -> Any:
    """Lock the live volume for which a request was authorized, as `lock` does.

    :raises VolumeNotFound: the volume is deleted, or belongs to another project now
    """
    row = _LOCK.first(connection, volume_id=judged.id)
    rows.check_judged(row, judged, errors.VolumeNotFound(volume_id=judged.id))
    return row


def lock_at(connection: sa.Connection, volume_id: str, generation: int | None,
            *own_statuses: volume_lifecycle.OwnStatus) -> Any:
    """Lock a live volume that has not changed since a generation.

    :param generation: None for any generation
    :param own_statuses: own statuses of which the volume must have one
    :raises VolumeNotFound: there is no such live volume
    :raises StaleGeneration: another process has changed the volume
    """
    row = lock(connection, volume_id)
    if generation not in (None, row.generation) or row.own_status not in own_statuses:
        raise errors.StaleGeneration(noun='volume', id=volume_id,
                                     generation=generation or row.generation)
    return row


def stepped(volume_id: str, generation: int, **values: Any) -> storage_db.Happened:
    """Return a callback that checks if a change has incremented the generation of a volume.

    :param generation: generation before the change
    :param values: columns that the change has written
    """
    return lambda connection: rows.holds(await_others(connection, volume_id),
                                         {'generation': generation + 1, **values})


def await_others(connection: sa.Connection, volume_id: str) -> sa.Row[Any] | None:
    """Lock the row of a volume, live or deleted, and return it, or None if there is no row.

    The call waits for other holders of the lock. One of them may be the transaction of the caller
    itself, if the caller has lost its connection during the commit.
    """
    return connection.execute(
        _volumes.select().where(_volumes.c.id == volume_id).with_for_update()).one_or_none()


def limits(database: storage_db.Database, project_id: str) -> quotas.Limits:
    """Return the quotas of a project for `insert`, to be read before the transaction."""
    return quotas.limits(database, project_id)


def insert(connection: sa.Connection, database: storage_db.Database, kind: records.VolumeType,
           of_project: quotas.Limits, own_status: volume_lifecycle.OwnStatus = _Own.CREATING,
           **values: Any) -> Mapping[str, Any]:
    """Insert a new volume, with the columns that are copied from its type.

    The transaction must not have read anything without a lock before. The function locks the
    project if it is near its quotas, and takes a shared lock on the type.

    :returns: all columns that are not NULL
    :raises VolumeTypeNotFound: the type is deleted
    :raises VolumeTypeChanged: the type has changed since the request was authorized
    :raises QuotaExceeded: the project has reached a quota
    """
    addition = quota_rules.volume(kind.id, values['size_gb'])
    # The project before the type, as in the lock order of `quotas`.
    near = quotas.lock_if_near(connection, database, of_project, addition)
    volume_types.hold(connection, kind)
    derived = volume_lifecycle.derive_status(own_status, None)
    row = {
        'bootable': False, **values, 'own_status': own_status.value, **derived._asdict(),
        **volume_types.columns_of(kind), 'shared_targets': True,
        'generation': 1, 'created_at': database.clock.utcnow()}
    statements.insert(connection, _volumes, row)
    if near:
        # Counted only after the type is locked. MariaDB would otherwise show the type as it was
        # at the time of the count.
        quotas.count(connection, database, of_project, addition, written=True)
    return row


def store_rank(connection: sa.Connection, database: storage_db.Database, row: Any,
               lowest_rank: int | None, announced: int | None = None,
               **metadata: Any) -> volume_lifecycle.Derived:
    """Store the lowest rank of a locked volume, and the status columns derived from it.

    Nothing is written if nothing differs and ``metadata`` is empty.

    :param announced: number of announced detaches from now on; None to leave the number unchanged
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
    """Apply an event to a locked volume: change its own status and increment its generation.

    The status columns are derived from the new own status. Space that the work on the volume has
    claimed is released when the work ends, unless ``values`` contain the columns of the claim.

    :param chosen: see `volume_lifecycle.next_status`
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
    """Claim a locked volume for a transaction that relies on it without changing it.

    A concurrent transaction that changes the volume, on any node of the database, conflicts.

    :raises RetryRequest: the row has changed since it was read
    """
    # An update, because a locking read does not block other nodes of a multi-writer database. The
    # generation is not raised, because other work on the volume may be in progress.
    update(connection, row, attachment_moves=row.attachment_moves + 1)


def remove(connection: sa.Connection, database: storage_db.Database, row: Any,
           event: volume_lifecycle.Event) -> None:
    """Apply an event that deletes a volume, and delete its credentials.

    The row is kept as history.
    """
    move(connection, database, row, event, **bury(connection, database, row))


def bury(connection: sa.Connection, database: storage_db.Database, row: Any) -> dict[str, Any]:
    """Delete the credentials of a locked volume, and return the columns of a deleted volume."""
    _NO_GRANTS.change(connection, volume_id=row.id)
    return {'deleted': True, 'deleted_at': database.clock.utcnow()}


def release(connection: sa.Connection, row: Any) -> None:
    """Release the space of a volume on its pool, if the volume has a pool."""
    if row.pool is not None:
        claims.release(connection, row.pool, row.size_gb)


def is_frozen(connection: sa.Connection, pool: str) -> bool:
    """Return True if the backend of a pool is frozen: no volume may be created or deleted."""
    return services.is_frozen(connection, str(records.host_of(pool)))


def attached_count(connection: sa.Connection, volume_id: str) -> int:
    """Return the number of attached attachments of a volume, by an index lookup."""
    return connection.execute(
        sa.select(sa.func.count()).where(
            _attachments.c.volume_id == volume_id,
            _attachments.c.rank == volume_lifecycle.ATTACHED_RANK)).scalar_one()
