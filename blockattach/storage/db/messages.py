"""Messages to users about failures that came after the answer."""
import datetime
import functools
import uuid
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.domain import messages as domain_messages
from blockattach.storage.domain import placement
from blockattach.storage.domain import records

_rows = models.messages
SECONDS_TO_LIVE = 30 * 24 * 3600

SORT_COLUMNS = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'event_id': _rows.c.event_id,
    'resource_type': _rows.c.resource_type, 'resource_uuid': _rows.c.resource_id,
    'request_id': _rows.c.request_id, 'message_level': _rows.c.message_level,
}
"""Sort keys and filters of a message list, by the API's names."""


@storage_db.retried
def create(database: storage_db.Database, project_id: str, request_id: str | None,
           text: domain_messages.Text, resource_id: str, detail: str = '', *,
           words: str = '', once: bool = False) -> None:
    """Write a message down for a project.

    :param detail: what went wrong in this case: only administrators read it
    :param words: what the user reads of it, behind the constant sentence: it names no host, no
        pool and no capacity
    :param once: a resource has at most one such message: a later one replaces it
    """
    message_id = name_of(text, resource_id) if once else database.new_id()
    said = _said(text, detail, words)
    # Not an update first: one that finds nothing would lock the gap that others insert into.
    try:
        with database.writer(storage_db.inserted(_rows.c.id, message_id)) as connection:
            _insert(connection, database, message_id, project_id, request_id, text, resource_id,
                    said)
    except db_exception.DBDuplicateEntry:
        with database.writer() as connection:
            connection.execute(_rows.update().where(_rows.c.id == message_id).values(
                updated_at=database.clock.utcnow(), **said))


def of_failure(database: storage_db.Database, found: records.Work | None, request_id: str | None,
               text: domain_messages.Text | None, reason: Exception | None = None) -> work.Say:
    """Writes down why work has failed, in the transaction that ends it.

    :param text: None, as where the work is of no project: nobody is to read of it
    :param reason: None: it was cancelled, and the text says so
    """
    if text is None or found is None or found.project_id is None:
        return work.silent
    return functools.partial(
        _insert, database=database, message_id=database.new_id(), project_id=found.project_id,
        request_id=request_id, text=text, resource_id=found.resource_id,
        said=_said(text, '', '') if reason is None else
        _said(text, str(reason), errors.in_words(reason)))


def _said(text: domain_messages.Text, detail: str, words: str) -> dict[str, str | None]:
    return {'user_message': f'{text.user_message} {words}' if words else text.user_message,
            'detail': detail or None}


def _insert(connection: sa.Connection, database: storage_db.Database, message_id: str,
            project_id: str, request_id: str | None, text: domain_messages.Text,
            resource_id: str, said: Mapping[str, str | None]) -> None:
    now = database.clock.utcnow()
    connection.execute(_rows.insert().values(
        id=message_id, project_id=project_id, request_id=request_id, event_id=text.event_id,
        message_level='ERROR', resource_type=text.resource_type, resource_id=resource_id,
        created_at=now, expires_at=now + datetime.timedelta(seconds=SECONDS_TO_LIVE), **said))


def no_valid_pool(database: storage_db.Database, project_id: str, request_id: str | None,
                  volume_id: str, reasons: Mapping[str, str], detail: str,
                  text: domain_messages.Text = domain_messages.NO_VALID_POOL) -> None:
    """Write the only message that no pool will do for a volume, or for the work on it.

    :param reasons: why not, by the pools' names
    """
    create(database, project_id, request_id, text, volume_id, detail,
           words=f'Reasons: {placement.in_words(reasons)}.', once=True)


def is_there(name: sa.BindParameter[str]) -> sa.Exists:
    """Whether the only message of this `name_of` is there, for a query that is made anyway."""
    return sa.exists().where(_rows.c.id == name)


def get(database: storage_db.Database, message_id: str) -> records.Message:
    """One message.

    :raises MessageNotFound: there is none
    """
    with database.reader() as connection:
        row = connection.execute(
            _rows.select().where(_rows.c.id == message_id)).one_or_none()
    if row is None:
        raise errors.MessageNotFound(message_id=message_id)
    return _record(row)


def list_page(database: storage_db.Database, project_id: str | None, equal: Mapping[str, Any],
              page: paging.Page, like: Mapping[str, str] | None = None) -> list[records.Message]:
    """One page of a project's messages (None: every project's).

    :param equal: a key of `SORT_COLUMNS` to the value it must have
    :param like: such a key to a part of its value
    :raises MessageNotFound: the marker is none
    """
    query = _rows.select().where(
        *(SORT_COLUMNS[key] == value for key, value in equal.items()),
        *(SORT_COLUMNS[key].contains(text, autoescape=True)
          for key, text in (like or {}).items()))
    if project_id is not None:
        query = query.where(_rows.c.project_id == project_id)
    with database.reader() as connection:
        found = paging.fetch(connection, query, SORT_COLUMNS, page, sa.true(),
                             lambda marker: errors.MessageNotFound(message_id=marker))
    return [_record(row) for row in found]


@storage_db.retried
def delete(database: storage_db.Database, message_id: str) -> None:
    """Forget a message. One that is not there is a success."""
    with database.writer() as connection:
        connection.execute(_rows.delete().where(_rows.c.id == message_id))


@storage_db.retried
def purge(database: storage_db.Database) -> int:
    """Remove expired messages; returns how many."""
    with database.writer() as connection:
        return connection.execute(
            _rows.delete().where(_rows.c.expires_at <= database.clock.utcnow())).rowcount


def name_of(text: domain_messages.Text, resource_id: str) -> str:
    """The id of the only message of its kind on a thing: the key itself keeps a second out."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f'blockattach:{text.event_id}:{resource_id}'))


def _record(row: sa.Row[Any]) -> records.Message:
    return rows.record(records.Message, row, guaranteed_until=row.expires_at)
