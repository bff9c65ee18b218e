"""Attachments that wait for their consumers, and for how long they have: in database time.

An attachment's own times are by the clock of the process that wrote them. So the expirer notes
when it first found each one waiting, by the database's clock; that costs requests nothing. A note
is of one generation: any move of an attachment ends its wait.
"""
from collections.abc import Mapping

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.services import services
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

_rows = models.attachments
_volumes = models.volumes
_waits = models.waits
_SAME = sa.and_(_rows.c.id == _waits.c.attachment_id, _rows.c.generation == _waits.c.generation)

Limits = Mapping[attachment_lifecycle.State, float]
"""How many seconds an attachment may wait in a state; one that is not named has no limit."""


def note(database: storage_db.Database, host: str, limits: Limits, most: int) -> int:
    """Note those of one ``host@backend`` that wait and are not noted yet; returns how many.

    :param most: how many at one time
    """
    query = (
        sa.select(_rows.c.id, _rows.c.generation)
        .join(_volumes, _volumes.c.id == _rows.c.volume_id).outerjoin(_waits, _SAME)
        .where(pairs.LIVE, _rows.c.state.in_(_states(limits)), services.on_host(host),
               _waits.c.attachment_id.is_(None)).limit(most))
    with database.reader() as connection:
        found = connection.execute(query).all()
    return sum(_begin(database, one.id, one.generation) for one in found)


def overdue(database: storage_db.Database, host: str, limits: Limits, most: int,
            ) -> list[records.Attachment]:
    """Those of one ``host@backend`` that have waited for too long, the longest first."""
    query = (
        sa.select(_rows).select_from(_waits).join(_rows, _SAME)
        .join(_volumes, _volumes.c.id == _rows.c.volume_id)
        .where(pairs.LIVE, services.on_host(host),
               _shortest(limits),
               sa.or_(*(sa.and_(_rows.c.state == state.value, _waits.c.since <= clock.now(-limit))
                        for state, limit in limits.items())))
        .order_by(_waits.c.since).limit(most))
    with database.reader() as connection:
        return [rows.attachment(row) for row in connection.execute(query)]


@storage_db.retried
def take(database: storage_db.Database, row: records.Attachment, limits: Limits) -> bool:
    """Claim one: its wait begins anew. False: another process did, or it has moved."""
    with database.writer() as connection:
        return connection.execute(_waits.update().where(
            *_of(row), _waits.c.since <= clock.now(-limits[row.state])).values(
            since=clock.now())).rowcount == 1


@storage_db.retried
def put_off(database: storage_db.Database, row: records.Attachment, limits: Limits,
            seconds: float) -> None:
    """No decision was possible: check it again after so many seconds."""
    with database.writer() as connection:
        connection.execute(_waits.update().where(*_of(row)).values(
            since=clock.now(min(seconds - limits[row.state], 0))))


def _of(row: records.Attachment) -> tuple[sa.ColumnElement[bool], ...]:
    return _waits.c.attachment_id == row.id, _waits.c.generation == row.generation


def forget(database: storage_db.Database, limits: Limits, most: int) -> int:
    """Forget waits that have ended; returns how many. They are found when they would be too long.

    :param most: how many at one time
    """
    query = sa.select(_waits.c.attachment_id).outerjoin(
        _rows, sa.and_(_SAME, pairs.LIVE, _rows.c.state.in_(_states(limits)))).where(
        _shortest(limits), _rows.c.id.is_(None)).limit(most)
    with database.reader() as connection:
        over = list(connection.execute(query).scalars())
    return _remove(database, over, limits) if over else 0


@storage_db.retried
def _remove(database: storage_db.Database, attachment_ids: list[str], limits: Limits) -> int:
    """Unless they have begun anew."""
    with database.writer() as connection:
        return connection.execute(_waits.delete().where(
            _waits.c.attachment_id.in_(attachment_ids), _shortest(limits))).rowcount


@storage_db.retried
def _begin(database: storage_db.Database, attachment_id: str, generation: int) -> bool:
    """False: another process was faster, or an earlier try was."""
    # Not an update first: one that finds nothing would lock the gap that others insert into.
    try:
        with database.writer() as connection:
            connection.execute(_waits.insert().values(
                attachment_id=attachment_id, generation=generation, since=clock.now()))
        return True
    except db_exception.DBDuplicateEntry:
        with database.writer() as connection:
            return connection.execute(_waits.update().where(
                _waits.c.attachment_id == attachment_id, _waits.c.generation < generation).values(
                generation=generation, since=clock.now())).rowcount == 1


def _states(limits: Limits) -> list[str]:
    return [state.value for state in limits]


def _shortest(limits: Limits) -> sa.ColumnElement[bool]:
    """What an index is good for, beside what each state is allowed."""
    return _waits.c.since <= clock.now(-min(limits.values()))
