"""Space on a pool that the work on a volume has claimed in addition to the size of the volume.

Claimed space counts as allocated on the pool, like the sizes of volumes, and is released when the
work ends. Used only within transactions that change a volume, under the lock of the volume.
"""
from typing import Any

import sqlalchemy as sa

from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.domain import records

_volumes = models.volumes
_pools = models.pools
GIVEN = ((_volumes.c.pool, _volumes.c.size_gb), (_volumes.c.claimed_pool, _volumes.c.claimed_gb))
"""Pairs of columns of a live volume: a pool, and the space allocated there in GiB."""
NONE: dict[str, Any] = {'claimed_pool': None, 'claimed_gb': None}
"""Columns of a volume without claimed space."""
_TAKE = statements.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == statements.value('pool'), sa.or_(
        _pools.c.limit_gb.is_(None),
        _pools.c.allocated_gb + statements.value('gb', sa.Integer()) <= _pools.c.limit_gb),
).values(allocated_gb=_pools.c.allocated_gb + statements.value('gb', sa.Integer())))
_GIVE = statements.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == statements.value('pool')).values(
        allocated_gb=_pools.c.allocated_gb - statements.value('gb', sa.Integer())))


def take(connection: sa.Connection, pool: str, gb: int) -> dict[str, Any] | None:
    """Claim space on a pool.

    :returns: columns of the volume; None if the pool has not enough space
    """
    if _TAKE.change(connection, pool=pool, gb=gb) != 1:
        return None
    return {'claimed_pool': pool, 'claimed_gb': gb}


def hold(connection: sa.Connection, pool: str, gb: int) -> dict[str, Any]:
    """Claim space for existing data on a pool, even beyond the limit of the pool.

    :returns: columns of the volume
    """
    # Without the condition of `_TAKE`: the data exist, whether or not the pool is full.
    _GIVE.change(connection, pool=pool, gb=-gb)
    return {'claimed_pool': pool, 'claimed_gb': gb}


def give_back(connection: sa.Connection, row: Any) -> dict[str, Any]:
    """Release the space that the work on a volume has claimed, if any.

    :returns: columns of the volume to write
    """
    if row.claimed_gb is None:
        return {}
    # An extension claims its size for the quota before it claims a pool.
    if row.claimed_pool is not None:
        _GIVE.change(connection, pool=row.claimed_pool, gb=row.claimed_gb)
    return NONE


def release(connection: sa.Connection, pool: str, gb: int) -> None:
    """Release the space of a volume that has left a pool."""
    _GIVE.change(connection, pool=pool, gb=gb)


def withdraw(connection: sa.Connection, database: storage_db.Database, row: Any) -> dict[str, Any]:
    """Release claimed space as `give_back` does, and schedule the removal of data on that pool.

    Called before the work on the volume ends or changes. A volume service may have created data on
    the claimed pool, if that is not the pool of the volume.

    :returns: columns of the volume to write
    """
    if row.claimed_pool not in (None, row.pool):
        now = work.find(connection, 'volume', row.id)
        if now is None or now.owner is None:
            leave(connection, database, row.id, row.claimed_pool)
        else:
            # The owner may still be writing to the pool. The removal is assigned to the owner
            # until its deadline, so that no other process removes data at the same time.
            work.replace(connection, database, work.remains(row.id, row.claimed_pool, now.owner),
                         now.deadline, records.host_of(row.claimed_pool))
    return give_back(connection, row)


def leave(connection: sa.Connection, database: storage_db.Database, volume_id: str,
          pool: str) -> None:
    """Schedule the removal of data that a volume may have left on a pool."""
    work.replace(connection, database, work.remains(volume_id, pool), work.PASSED,
                 records.host_of(pool))


def pool_of(database: storage_db.Database, volume_id: str) -> str | None:
    """Return the pool on which the work on a volume has claimed space, or None if there is none.

    For a migration this is the destination pool.
    """
    with database.reader() as connection:
        return connection.execute(sa.select(_volumes.c.claimed_pool).where(
            _volumes.c.id == volume_id)).scalar_one_or_none()
