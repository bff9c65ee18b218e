"""Messages to users about failures that came after the answer."""
import datetime
import uuid
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach import errors
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import paging
from blockattach.db import rows
from blockattach.domain import messages as domain_messages
from blockattach.domain import records

_rows = models.messages
SECONDS_TO_LIVE = 30 * 24 * 3600

SORT_COLUMNS = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'event_id': _rows.c.event_id,
    'resource_type': _rows.c.resource_type, 'resource_uuid': _rows.c.resource_id,
    'request_id': _rows.c.request_id, 'message_level': _rows.c.message_level,
}
"""Sort keys and filters of a message list, by the API's names."""


@engine.retried
def create(database: engine.Database, project_id: str, request_id: str | None,
           text: domain_messages.Text, resource_id: str, detail: str = '') -> None:
    """Write a message down for a project.

    :param detail: what went wrong in this case, behind the constant sentence
    """
    message_id = database.new_id()
    with database.writer(engine.inserted(_rows.c.id, message_id)) as connection:
        _insert(connection, database, message_id, project_id, request_id, text, resource_id,
                detail)


@engine.retried
def create_once(database: engine.Database, project_id: str, request_id: str | None,
                text: domain_messages.Text, resource_id: str, detail: str = '') -> None:
    """Write a message that a resource has at most once: a later one replaces it."""
    name = name_of(text, resource_id)
    # Not an update first: one that finds nothing would lock the gap that others insert into.
    try:
        with database.writer() as connection:
            _insert(connection, database, name, project_id, request_id, text, resource_id, detail)
    except db_exception.DBDuplicateEntry:
        with database.writer() as connection:
            connection.execute(_rows.update().where(_rows.c.id == name).values(
                user_message=_sentence(text, detail), updated_at=database.clock.utcnow()))


@engine.retried
def withdraw(database: engine.Database, text: domain_messages.Text, resource_id: str) -> None:
    """Forget what `create_once` wrote: it turned out otherwise. None is a success."""
    name = name_of(text, resource_id)
    with database.reader() as connection:
        if connection.execute(sa.select(_rows.c.id).where(_rows.c.id == name)).first() is None:
            return
    with database.writer() as connection:
        connection.execute(_rows.delete().where(_rows.c.id == name))


def is_there(name: sa.BindParameter[str]) -> sa.Exists:
    """Whether `create_once` has written what has this `name_of`, for a query that is made anyway.
    """
    return sa.exists().where(_rows.c.id == name)


def get(database: engine.Database, message_id: str) -> records.Message:
    """One message.

    :raises MessageNotFound: there is none
    """
    with database.reader() as connection:
        row = connection.execute(
            _rows.select().where(_rows.c.id == message_id)).one_or_none()
    if row is None:
        raise errors.MessageNotFound(message_id=message_id)
    return _record(row)


def list_page(database: engine.Database, project_id: str | None, equal: dict[str, Any],
              page: paging.Page) -> list[records.Message]:
    """One page of a project's messages (None: every project's).

    :param equal: a key of `SORT_COLUMNS` to the value it must have
    :raises MessageNotFound: the marker is none
    """
    query = _rows.select()
    if project_id is not None:
        query = query.where(_rows.c.project_id == project_id)
    for key, value in equal.items():
        query = query.where(SORT_COLUMNS[key] == value)
    with database.reader() as connection:
        found = paging.fetch(connection, query, SORT_COLUMNS, page, sa.true(),
                             lambda marker: errors.MessageNotFound(message_id=marker))
    return [_record(row) for row in found]


@engine.retried
def delete(database: engine.Database, message_id: str) -> None:
    """Forget a message. One that is not there is a success."""
    with database.writer() as connection:
        connection.execute(_rows.delete().where(_rows.c.id == message_id))


@engine.retried
def purge(database: engine.Database) -> int:
    """Remove expired messages; returns how many."""
    with database.writer() as connection:
        return connection.execute(
            _rows.delete().where(_rows.c.expires_at <= database.clock.utcnow())).rowcount


def _insert(connection: sa.Connection, database: engine.Database, message_id: str,
            project_id: str, request_id: str | None, text: domain_messages.Text,
            resource_id: str, detail: str) -> None:
    now = database.clock.utcnow()
    connection.execute(_rows.insert().values(
        id=message_id, project_id=project_id, request_id=request_id, event_id=text.event_id,
        user_message=_sentence(text, detail), message_level='ERROR',
        resource_type=text.resource_type, resource_id=resource_id, created_at=now,
        expires_at=now + datetime.timedelta(seconds=SECONDS_TO_LIVE)))


def _sentence(text: domain_messages.Text, detail: str) -> str:
    return f'{text.user_message} {detail}' if detail else text.user_message


def name_of(text: domain_messages.Text, resource_id: str) -> str:
    """The id of the only message of its kind on a thing: the key itself keeps a second out."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f'blockattach:{text.event_id}:{resource_id}'))


def _record(row: sa.Row[Any]) -> records.Message:
    return rows.record(records.Message, row, guaranteed_until=row.expires_at)
