"""Room on a pool that a volume's work has claimed beyond what the volume has: given away like the
sizes of the volumes there, and given back when the work ends.

Inside the transactions that move a volume only, under its lock.
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
"""What a live volume takes: on which pool, and how many GiB."""
NONE: dict[str, Any] = {'claimed_pool': None, 'claimed_gb': None}
"""The columns of a volume whose work has ended; the room is then the volume's, or given back."""
_TAKE = statements.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == statements.value('pool'), sa.or_(
        _pools.c.limit_gb.is_(None),
        _pools.c.allocated_gb + statements.value('gb', sa.Integer()) <= _pools.c.limit_gb),
).values(allocated_gb=_pools.c.allocated_gb + statements.value('gb', sa.Integer())))
_GIVE = statements.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == statements.value('pool')).values(
        allocated_gb=_pools.c.allocated_gb - statements.value('gb', sa.Integer())))


def take(connection: sa.Connection, pool: str, gb: int) -> dict[str, Any] | None:
    """Claim room on a pool; the columns that say so, or None: it has no room left."""
    if _TAKE.change(connection, pool=pool, gb=gb) != 1:
        return None
    return {'claimed_pool': pool, 'claimed_gb': gb}


def hold(connection: sa.Connection, pool: str, gb: int) -> dict[str, Any]:
    """Count what lies on a pool already as claimed, whatever is left there; the columns that say
    so.
    """
    _GIVE.change(connection, pool=pool, gb=-gb)
    return {'claimed_pool': pool, 'claimed_gb': gb}


def give_back(connection: sa.Connection, row: Any) -> dict[str, Any]:
    """Give back what a volume has claimed, if anything; the columns that say so."""
    if row.claimed_gb is None:
        return {}
    if row.claimed_pool is not None:
        _GIVE.change(connection, pool=row.claimed_pool, gb=row.claimed_gb)
    return NONE


def release(connection: sa.Connection, pool: str, gb: int) -> None:
    """Give back the room of a volume that has left a pool."""
    _GIVE.change(connection, pool=pool, gb=gb)


def withdraw(connection: sa.Connection, database: storage_db.Database, row: Any) -> dict[str, Any]:
    """The same as `give_back`, before the volume's work ends or changes: what a manager may have
    made on another pool is removed, as work.
    """
    if row.claimed_pool not in (None, row.pool):
        now = work.find(connection, 'volume', row.id)
        if now is None or now.owner is None:
            leave(connection, database, row.id, row.claimed_pool)
        else:
            # As long as that manager may be at it, the work is that manager's.
            work.replace(connection, database, work.remains(row.id, row.claimed_pool, now.owner),
                         now.deadline, records.host_of(row.claimed_pool))
    return give_back(connection, row)


def leave(connection: sa.Connection, database: storage_db.Database, volume_id: str,
          pool: str) -> None:
    """Let what may be left of a volume on a pool be removed, as work."""
    work.replace(connection, database, work.remains(volume_id, pool), work.PASSED,
                 records.host_of(pool))


def pool_of(database: storage_db.Database, volume_id: str) -> str | None:
    """The pool that has given a volume room besides, as one to which it moves; None: none has."""
    with database.reader() as connection:
        return connection.execute(sa.select(_volumes.c.claimed_pool).where(
            _volumes.c.id == volume_id)).scalar_one_or_none()
