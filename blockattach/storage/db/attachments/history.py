"""History of attachments: an event for each state change, kept for a configured period.

A state change inserts its event in its own transaction. Events therefore become visible in another
order than that of their ids, and a reader that remembers an id would miss late events. A reader
that follows the history first assigns positions to the new events (`number`). A late event gets a
late position, and positions have no gap that could be filled later.
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
# Two statements, because SQLite reads the whole index for a minimum and a maximum at once.
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
    """Return the history of an attachment, live or deleted, oldest event first.

    :param after: return only events with a greater generation
    :param most: maximum number of events
    """
    return [rows.attachment_event(row) for row in _OF_ATTACHMENT.rows(
        database, attachment_id=attachment_id, after=after, most=most)]


def of_volume(database: storage_db.Database, volume_id: str, project_id: str | None, after: int,
              most: int) -> list[records.AttachmentEvent]:
    """Return the history of the attachments of a volume, live or deleted, oldest first.

    Attachments that lists do not show are left out.

    :param project_id: return only events while this project owned the volume; None for all
    :param after: return only events with a greater id
    :param most: maximum number of events
    """
    # Selected by attachment id, because no index of the events contains the volume.
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
    """Return the last event of an attachment, or None if none is kept."""
    row = _LAST_OF_ATTACHMENT.first(database, attachment_id=attachment_id)
    return None if row is None else rows.attachment_event(row)


def positions(database: storage_db.Database) -> tuple[int, int]:
    """Return the lowest and the highest position of the kept events; 0 if there are none."""
    return _FIRST.rows(database)[0].position or 0, _LAST.rows(database)[0].position or 0


def after(database: storage_db.Database, position: int) -> list[records.AttachmentEvent]:
    """Return up to a thousand events after a position, in the order of their positions."""
    return [rows.attachment_event(row) for row in _AFTER.rows(database, position=position)]


def number(database: storage_db.Database) -> int:
    """Assign the next positions to up to a thousand events without a position.

    :returns: number of events that got a position. The number may be 0 although there are events
        without a position, if another process assigns positions at the same moment
    """
    # Read first, so that a pass without new events opens no write transaction.
    if not _NOT_NUMBERED.first(database):
        return 0
    try:
        return _number(database)
    except db_exception.DBDuplicateEntry:
        # Another process has assigned the same positions. The next call finds the events that it
        # has left.
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
    """Delete the events that are older than the configured period, and return their number.

    The event with the last position is kept, because the next position is derived from it.
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
        # A full part may contain the event that is kept.
        if len(found) < _PART - 1:
            return removed
