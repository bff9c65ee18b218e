"""Waits of attachments for their consumers, from which the expiry of attachments is computed.

The timestamps of an attachment come from the clock of the process that wrote them. Therefore the
task that expires attachments (`blockattach.storage.volume.expiry`) records the database time at
which it first found the attachment waiting. Requests do no additional work for the expiry. A wait
belongs to one generation of the attachment, so that any state change ends the wait.
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
"""Maximum wait in seconds, by state of the attachment. A state that is absent has no limit."""


def note(database: storage_db.Database, host: str, limits: Limits, most: int) -> int:
    """Record the waits of attachments that are not recorded yet, and return their number.

    :param host: ``host@backend`` of the volumes
    :param limits: an attachment is waiting if its state is in ``limits``
    :param most: maximum number of waits to record in this call
    """
    query = (
        sa.select(_rows.c.id, _rows.c.generation)
        .join(_volumes, _volumes.c.id == _rows.c.volume_id).outerjoin(_waits, _SAME)
        .where(pairs.LIVE, _rows.c.state.in_(_states(limits)), services.on_host(host),
               _waits.c.attachment_id.is_(None)).limit(most))
    with database.reader() as connection:
        found = connection.execute(query).all()
    return sum(_begin(database, row.id, row.generation) for row in found)


def overdue(database: storage_db.Database, host: str, limits: Limits, most: int,
            ) -> list[records.Attachment]:
    """Return the attachments whose wait exceeds its limit, the longest wait first.

    :param host: ``host@backend`` of the volumes
    :param most: maximum number of attachments
    """
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
    """Claim an attachment whose wait exceeds its limit, by restarting the wait.

    :returns: False if another process has claimed the attachment, or its state has changed
    """
    with database.writer() as connection:
        return connection.execute(_waits.update().where(
            *_of(row), _waits.c.since <= clock.now(-limits[row.state])).values(
            since=clock.now())).rowcount == 1


@storage_db.retried
def put_off(database: storage_db.Database, row: records.Attachment, limits: Limits,
            seconds: float) -> None:
    """Shorten the restarted wait of an attachment whose expiry could not be determined.

    :param seconds: time after which the wait exceeds its limit again, unless the limit is shorter
    """
    # A wait with a start in the future would last longer than its limit.
    with database.writer() as connection:
        connection.execute(_waits.update().where(*_of(row)).values(
            since=clock.now(min(seconds - limits[row.state], 0))))


def _of(row: records.Attachment) -> tuple[sa.ColumnElement[bool], ...]:
    return _waits.c.attachment_id == row.id, _waits.c.generation == row.generation


def forget(database: storage_db.Database, limits: Limits, most: int) -> int:
    """Delete the records of waits that have ended, and return their number.

    Only waits that started longer ago than the shortest limit are examined.

    :param most: maximum number of waits to delete in this call
    """
    query = sa.select(_waits.c.attachment_id).outerjoin(
        _rows, sa.and_(_SAME, pairs.LIVE, _rows.c.state.in_(_states(limits)))).where(
        _shortest(limits), _rows.c.id.is_(None)).limit(most)
    with database.reader() as connection:
        over = list(connection.execute(query).scalars())
    return _remove(database, over, limits) if over else 0


@storage_db.retried
def _remove(database: storage_db.Database, attachment_ids: list[str], limits: Limits) -> int:
    with database.writer() as connection:
        # The condition keeps waits that have restarted since they were read.
        return connection.execute(_waits.delete().where(
            _waits.c.attachment_id.in_(attachment_ids), _shortest(limits))).rowcount


@storage_db.retried
def _begin(database: storage_db.Database, attachment_id: str, generation: int) -> bool:
    # The insertion comes first. On MariaDB, an update that matches no row would lock the gap into
    # which other processes insert.
    try:
        with database.writer() as connection:
            connection.execute(_waits.insert().values(
                attachment_id=attachment_id, generation=generation, since=clock.now()))
        return True
    except db_exception.DBDuplicateEntry:
        # The row is the wait of an earlier generation, or the same wait. The same wait may come
        # from another process, or from an attempt of this process whose commit was not confirmed.
        with database.writer() as connection:
            return connection.execute(_waits.update().where(
                _waits.c.attachment_id == attachment_id, _waits.c.generation < generation).values(
                generation=generation, since=clock.now())).rowcount == 1


def _states(limits: Limits) -> list[str]:
    return [state.value for state in limits]


def _shortest(limits: Limits) -> sa.ColumnElement[bool]:
    # A single comparison can use the index. The limits of the states are additional conditions.
    return _waits.c.since <= clock.now(-min(limits.values()))
