"""History of attachments: an event for each state change, kept for a configured period.

An event is inserted in the transaction of its state change. Transactions may commit in another
order than that of the event ids. A reader that remembers the last id would therefore miss events.
Instead, a reader that follows the history assigns consecutive positions to the committed events
(`number`), and remembers the last position. Events that are committed later get higher positions.
"""
import datetime

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.domain import records

_attachments = models.attachments
_events = models.attachment_events
_PART = 1000
"""Maximum number of events that are numbered, or deleted, in one transaction."""

_OF_ATTACHMENT = statements.Statement(lambda dialect: _events.select().where(
    _events.c.attachment_id == statements.value('attachment_id'),
    _events.c.generation > statements.value('after')).order_by(_events.c.generation).limit(
        statements.value('most', sa.Integer())))
_LAST_OF_ATTACHMENT = statements.Statement(lambda dialect: _events.select().where(
    _events.c.attachment_id == statements.value('attachment_id')).order_by(
        _events.c.generation.desc()).limit(1))
# These are two statements, because SQLite would read the whole index for a statement that selects
# both the minimum and the maximum.
_FIRST = statements.Statement(lambda dialect: sa.select(
    sa.func.min(_events.c.position).label('position')))
_LAST = statements.Statement(lambda dialect: sa.select(
    sa.func.max(_events.c.position).label('position')))
_AFTER = statements.Statement(lambda dialect: _events.select().where(
    _events.c.position > statements.value('position')).order_by(
        _events.c.position).limit(_PART))
_NOT_NUMBERED = statements.Statement(lambda dialect: sa.select(_events.c.id).where(
    _events.c.position.is_(None)).order_by(_events.c.id).limit(_PART))


def of_attachment(database: storage_db.Database, attachment_id: str, after: int = 0,
                  most: int = _PART) -> list[records.AttachmentEvent]:
    """Return the events of a live or deleted attachment, ordered by generation.

    :param after: generation of the attachment; only events with a higher generation are returned
    :param most: maximum number of events
    """
    return [rows.attachment_event(row) for row in _OF_ATTACHMENT.rows(
        database, attachment_id=attachment_id, after=after, most=most)]


def of_volume(database: storage_db.Database, volume_id: str, project_id: str | None, after: int,
              most: int) -> list[records.AttachmentEvent]:
    """Return the events of all attachments of a volume, live or deleted, ordered by event id.

    Events of legacy reservations and of purged attachments are left out.

    :param project_id: project of the events; None for events of all projects that have owned the
        volume
    :param after: event id; only events with a higher id are returned
    :param most: maximum number of events
    """
    # The events are selected by attachment id, because no index of the table contains the volume.
    listed = sa.select(_attachments.c.id).where(
        _attachments.c.volume_id == volume_id, _attachments.c.legacy_reservation == sa.false())
    query = _events.select().where(
        _events.c.attachment_id.in_(listed), _events.c.id > after).order_by(_events.c.id)
    if project_id is not None:
        query = query.where(_events.c.project_id == project_id)
    with database.reader() as connection:
        return [rows.attachment_event(row) for row in connection.execute(query.limit(most))]


def last_of_attachment(database: storage_db.Database,
                       attachment_id: str) -> records.AttachmentEvent | None:
    """Return the last event of an attachment, or None if no event of the attachment is stored."""
    row = _LAST_OF_ATTACHMENT.first(database, attachment_id=attachment_id)
    return None if row is None else rows.attachment_event(row)


def positions(database: storage_db.Database) -> tuple[int, int]:
    """Return the lowest and the highest position of the stored events.

    Both are 0 if no event has a position.
    """
    return _FIRST.rows(database)[0].position or 0, _LAST.rows(database)[0].position or 0


def after(database: storage_db.Database, position: int) -> list[records.AttachmentEvent]:
    """Return up to a thousand events after a position, ordered by position."""
    return [rows.attachment_event(row) for row in _AFTER.rows(database, position=position)]


def number(database: storage_db.Database) -> int:
    """Assign the next positions to up to a thousand events without a position.

    :returns: number of events that got a position. If another process assigns positions at the
        same moment, the number may be 0 although further events have no position yet
    """
    # The read avoids a write transaction if there are no new events.
    if not _NOT_NUMBERED.first(database):
        return 0
    try:
        return _number(database)
    except db_exception.DBDuplicateEntry:
        # Another process has assigned the same positions. The next call finds the events that
        # still have no position.
        return 0


@storage_db.retried
def _number(database: storage_db.Database) -> int:
    with database.writer() as connection:
        last = _LAST.rows(connection)[0].position or 0
        numbered = [{'which': row.id, 'next': last + place}
                    for place, row in enumerate(_NOT_NUMBERED.rows(connection), 1)]
        if numbered:
            connection.execute(_events.update().where(
                _events.c.id == sa.bindparam('which')).values(
                    position=sa.bindparam('next')), numbered)
    return len(numbered)


@storage_db.retried
def purge(database: storage_db.Database) -> int:
    """Delete events that are older than ``history_days``, and return the number of deleted events.

    The event with the highest position is kept, because the next position is derived from it.
    """
    before = database.clock.utcnow() - datetime.timedelta(days=database.history_days)
    oldest = sa.select(_events.c.id, _events.c.created_at, _events.c.position).order_by(
        _events.c.id).limit(_PART)
    removed = 0
    while True:
        with database.writer() as connection:
            last = _LAST.rows(connection)[0].position
            found = [row.id for row in connection.execute(oldest)
                     if row.created_at < before and (last is None or row.position != last)]
            if found:
                connection.execute(_events.delete().where(_events.c.id.in_(found)))
        removed += len(found)
        # Of a full part, all events or all except the event with the highest position are deleted.
        if len(found) < _PART - 1:
            return removed
