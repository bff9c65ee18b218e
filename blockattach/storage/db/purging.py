"""Purge of rows that were deleted long ago and are kept only as history, and of expired rows.

All tables with a column ``deleted`` or ``expires_at`` are purged. A table is purged after the
tables whose foreign keys refer to it. A row is kept as long as another row refers to the row. Rows
that depend on a purged row (metadata, extra specs) are deleted by the foreign key (ON DELETE
CASCADE).

A table is scanned once by its primary key, one part at a time. Hence the cost of a run depends on
the number of rows, even if few of them can be purged. Each batch is deleted in a transaction of
its own, so that other transactions do not wait long.
"""
import datetime
import sys
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform.db import clock
from blockattach.storage.db import idempotency
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import history

LOG = oslo_log.getLogger(__name__)

# The batch is small, because its rows are locked until the commit.
BATCH = 200
PART = 1000
_CASCADE = 'CASCADE'


class Purged(NamedTuple):
    """Number of rows of a table that were purged, or would be purged without ``dry_run``."""

    table: str
    rows: int


def tables() -> list[sa.Table]:
    """Return the tables with deleted or expiring rows, in the order in which they are purged.

    A table comes before the tables to which its foreign keys refer.
    """
    return [table for table in reversed(models.metadata.sorted_tables)
            if 'deleted' in table.c or 'expires_at' in table.c]


def purge(database: storage_db.Database, older_than: datetime.timedelta, most: int | None = None,
          dry_run: bool = False, batch: int = BATCH) -> list[Purged]:
    """Purge rows that were deleted, or have expired, longer ago than a period.

    :param older_than: the period
    :param most: maximum number of purged rows of all tables together; None for no maximum
    :param dry_run: True to count the rows without purging them
    :param batch: maximum number of rows that are deleted in one transaction
    :returns: number of purged rows for each table with purged rows
    """
    remaining = sys.maxsize if most is None else most
    found = []
    for table in tables():
        which = _past(database, table, older_than, dry_run)
        if dry_run:
            [number] = _scalars(
                database, sa.select(sa.func.count()).select_from(table).where(which))
            number = min(number, remaining)
        else:
            number = sum(_batches(database, table, which, remaining, batch))
        remaining -= number
        if number:
            found.append(Purged(table.name, number))
    if not dry_run:
        for one in found:
            LOG.info('Database rows purged%s', log.fields(table=one.table, rows=one.rows))
    return found


def _past(database: storage_db.Database, table: sa.Table, older_than: datetime.timedelta,
          counting: bool) -> sa.ColumnElement[bool]:
    """Return the condition that a row can be purged.

    The row was deleted, or has expired, longer ago than ``older_than``, and no row of another
    table refers to the row.

    :param counting: True for a dry run
    """
    if 'deleted' in table.c:
        expired = sa.and_(table.c.deleted == sa.true(),
                          table.c.deleted_at < database.clock.utcnow() - older_than)
    else:
        expired = table.c.expires_at < clock.now(-older_than.total_seconds())
    for other, key in _references(table):
        refers = sa.exists().where(key.parent == key.column)
        # In a dry run, rows of other tables that would have been purged before still exist. Their
        # references are ignored.
        if counting and other in tables():
            refers = refers.where(~_past(database, other, older_than, counting))
        expired = sa.and_(expired, ~refers)
    return expired


def _references(table: sa.Table) -> Iterator[tuple[sa.Table, sa.ForeignKey]]:
    # Foreign keys with ON DELETE CASCADE are left out. They do not prevent the deletion of a row.
    for other in models.metadata.sorted_tables:
        for key in other.foreign_keys:
            if key.column.table is table and key.ondelete != _CASCADE:
                yield other, key


def _batches(database: storage_db.Database, table: sa.Table, which: sa.ColumnElement[bool],
             remaining: int, batch: int) -> Iterator[int]:
    [key] = table.primary_key.columns
    for part in _parts(database, key):
        if not remaining:
            return
        # The rows are selected without a lock. So the deletion checks the condition again.
        chosen = _scalars(database, sa.select(key).where(part, which))[:remaining]
        for start in range(0, len(chosen), batch):
            yield _remove(database, table, which, chosen[start:start + batch])
        remaining -= len(chosen)


def _parts(database: storage_db.Database,
           key: sa.Column[Any]) -> Iterator[sa.ColumnElement[bool]]:
    # Each part is found by its key. The cost of OFFSET would grow with each part.
    after: sa.ColumnElement[bool] = sa.true()
    while True:
        last = _scalars(database, sa.select(key).where(after).order_by(key).offset(
            PART - 1).limit(1))
        if not last:
            yield after
            return
        yield sa.and_(after, key <= last[0])
        after = key > last[0]


def _scalars(database: storage_db.Database, query: sa.Select[Any]) -> list[Any]:
    with database.reader() as connection:
        return list(connection.scalars(query))


@storage_db.retried
def _remove(database: storage_db.Database, table: sa.Table, which: sa.ColumnElement[bool],
            chosen: list[Any]) -> int:
    [key] = table.primary_key.columns
    with database.writer() as connection:
        return connection.execute(table.delete().where(key.in_(chosen), which)).rowcount


def purge_expired(database: storage_db.Database) -> None:
    """Delete expired user messages, idempotency keys and history events.

    Several processes may call this function at the same time.
    """
    messages.purge(database)
    idempotency.purge(database)
    history.purge(database)
