"""Removes for good what was deleted long ago: rows that are kept as history only.

Which tables, and in which order, follows from the tables themselves: whatever has ``deleted``, a
table after all that refer to it. A row that another one refers to stays until that one is purged;
what cannot be without it (its metadata, its extra specs) goes with it.

A table is walked once, by its key, a part at a time: what a run costs follows from how many rows
there are, also where hardly any may go. Each batch is a transaction of its own, so that nobody
waits long.
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
from blockattach.storage.db import models
from blockattach.storage.db import storage_db

LOG = oslo_log.getLogger(__name__)

BATCH = 200
PART = 1000
_CASCADE = 'CASCADE'


class Purged(NamedTuple):
    """How many rows of a table, in the order in which they were removed."""

    table: str
    rows: int


def tables() -> list[sa.Table]:
    """Those with history or an end, children before what they refer to."""
    return [table for table in reversed(models.metadata.sorted_tables)
            if 'deleted' in table.c or 'expires_at' in table.c]


def purge(database: storage_db.Database, older_than: datetime.timedelta, most: int | None = None,
          dry_run: bool = False, batch: int = BATCH) -> list[Purged]:
    """Remove rows that were deleted longer ago than this.

    :param most: how many rows at most, in all
    :param dry_run: only count them
    :param batch: how many rows a transaction removes at most
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
    """Rows that were deleted so long ago, and to which no row of another table refers.

    :param counting: rows that would have been removed before do not refer to anything
    """
    if 'deleted' in table.c:
        expired = sa.and_(table.c.deleted == sa.true(),
                          table.c.deleted_at < database.clock.utcnow() - older_than)
    else:
        expired = table.c.expires_at < clock.now(-older_than.total_seconds())
    for other, key in _references(table):
        refers = sa.exists().where(key.parent == key.column)
        if counting and other in tables():
            refers = refers.where(~_past(database, other, older_than, counting))
        expired = sa.and_(expired, ~refers)
    return expired


def _references(table: sa.Table) -> Iterator[tuple[sa.Table, sa.ForeignKey]]:
    """The tables that refer to this one, and their keys; not those whose rows go with its own."""
    for other in models.metadata.sorted_tables:
        for key in other.foreign_keys:
            if key.column.table is table and key.ondelete != _CASCADE:
                yield other, key


def _batches(database: storage_db.Database, table: sa.Table, which: sa.ColumnElement[bool],
             remaining: int, batch: int) -> Iterator[int]:
    """The number of rows that each transaction has removed."""
    [key] = table.primary_key.columns
    for part in _parts(database, key):
        if not remaining:
            return
        # Found without a lock, and checked once more under it.
        chosen = _scalars(database, sa.select(key).where(part, which))[:remaining]
        for start in range(0, len(chosen), batch):
            yield _remove(database, table, which, chosen[start:start + batch])
        remaining -= len(chosen)


def _parts(database: storage_db.Database,
           key: sa.Column[Any]) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions that cut a table into pieces of about so many rows, by its key."""
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
