"""Space on a pool that the work on a volume has claimed in addition to the size of the volume.

Claimed space counts as allocated on the pool, like the size of each volume. When the work ends,
the claimed space is released, or becomes the space of the volume itself. Functions with a
connection are called within a transaction that has locked the volume.
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
"""Pairs of columns of a live volume. Each pair contains a pool, and the space in GiB that the
volume allocates there.
"""
NONE: dict[str, Any] = {'claimed_pool': None, 'claimed_gb': None}
"""Values of the columns of a volume without claimed space."""
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

    :param gb: space in GiB
    :returns: columns with the claim, which the caller writes to the volume; None if the pool is
        unknown or has not enough space
    """
    if _TAKE.change(connection, pool=pool, gb=gb) != 1:
        return None
    return {'claimed_pool': pool, 'claimed_gb': gb}


def hold(connection: sa.Connection, pool: str, gb: int) -> dict[str, Any]:
    """Claim space for existing data on a pool, even beyond the limit of the pool.

    :param gb: space in GiB
    :returns: columns with the claim, which the caller writes to the volume
    """
    # Unlike `_TAKE`, this statement has no condition. The data exist even if the pool is full.
    _GIVE.change(connection, pool=pool, gb=-gb)
    return {'claimed_pool': pool, 'claimed_gb': gb}


def give_back(connection: sa.Connection, row: Any) -> dict[str, Any]:
    """Release the space that the work on a volume has claimed, if there is any.

    :returns: columns that the caller writes to the volume; empty if no space was claimed
    """
    if row.claimed_gb is None:
        return {}
    # An extension first claims its size for the quota of the project, and later for a pool.
    if row.claimed_pool is not None:
        _GIVE.change(connection, pool=row.claimed_pool, gb=row.claimed_gb)
    return NONE


def release(connection: sa.Connection, pool: str, gb: int) -> None:
    """Release the space of a volume on a pool to which the volume no longer belongs.

    :param gb: size of the volume in GiB
    """
    _GIVE.change(connection, pool=pool, gb=gb)


def withdraw(connection: sa.Connection, database: storage_db.Database, row: Any) -> dict[str, Any]:
    """Release claimed space like `give_back`, and schedule the removal of data from the pool.

    Called before the work on the volume ends or changes. If the claimed pool is not the pool of
    the volume, a volume service may have created data there.

    :returns: columns that the caller writes to the volume; empty if no space was claimed
    """
    if row.claimed_pool not in (None, row.pool):
        now = work.find(connection, 'volume', row.id)
        if now is None or now.owner is None:
            leave(connection, database, row.id, row.claimed_pool)
        else:
            # The owner of the work may still be writing to the pool. Until the deadline of the
            # work, the removal belongs to the same owner, so that no other process removes data at
            # the same time.
            work.replace(connection, database, work.remains(row.id, row.claimed_pool, now.owner),
                         now.deadline, records.host_of(row.claimed_pool))
    return give_back(connection, row)


def leave(connection: sa.Connection, database: storage_db.Database, volume_id: str,
          pool: str) -> None:
    """Schedule the removal of data from a pool to which a volume does not belong.

    The pool may have no such data.
    """
    work.replace(connection, database, work.remains(volume_id, pool), work.PASSED,
                 records.host_of(pool))


def pool_of(database: storage_db.Database, volume_id: str) -> str | None:
    """Return the pool on which the work on a volume has claimed space.

    For a migration, this is the destination pool.

    :returns: ``host@backend#pool``; None if no space is claimed, or if there is no such volume
    """
    with database.reader() as connection:
        return connection.execute(sa.select(_volumes.c.claimed_pool).where(
            _volumes.c.id == volume_id)).scalar_one_or_none()
