"""User messages about operations that failed after their requests were answered."""
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
# As in Cinder (``message_ttl``).
SECONDS_TO_LIVE = 30 * 24 * 3600

SORT_COLUMNS = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'event_id': _rows.c.event_id,
    'resource_type': _rows.c.resource_type, 'resource_uuid': _rows.c.resource_id,
    'request_id': _rows.c.request_id, 'message_level': _rows.c.message_level,
}
"""Columns by which message lists can be sorted and filtered, by their names in the API."""


@storage_db.retried
def create(database: storage_db.Database, project_id: str, request_id: str | None,
           text: domain_messages.Text, resource_id: str, detail: str = '', *,
           words: str = '', once: bool = False) -> None:
    """Create a user message for a project.

    :param text: kind of the message, with its constant sentence
    :param detail: reason of the failure for administrators. Other users cannot read the detail
    :param words: reason of the failure for the user, which is appended to the constant sentence.
        The reason must not contain a host, a pool or a capacity
    :param once: True to replace an existing message of the same kind about the same resource
    """
    message_id = name_of(text, resource_id) if once else database.new_id()
    said = _said(text, detail, words)
    # The insertion comes first. On MariaDB, an update that matches no row would lock the gap into
    # which other processes insert.
    try:
        with database.writer(storage_db.inserted(_rows.c.id, message_id)) as connection:
            _insert(connection, database, message_id, project_id, request_id, text, resource_id,
                    said)
    except db_exception.DBDuplicateEntry:
        with database.writer() as connection:
            connection.execute(_rows.update().where(_rows.c.id == message_id).values(
                updated_at=database.clock.utcnow(), **said))


def of_failure(database: storage_db.Database, ended: records.Work | None, request_id: str | None,
               text: domain_messages.Text | None, reason: Exception | None = None) -> work.Say:
    """Return a function that creates a user message in the transaction that ends the work.

    The returned function does nothing if ``ended`` or ``text`` is None, or if the work belongs to
    no project.

    :param ended: the work that ends; None if the work item was not found
    :param text: kind of the message; None to create no message
    :param reason: error of the work; None if the work was cancelled
    """
    if text is None or ended is None or ended.project_id is None:
        return work.silent
    return functools.partial(
        _insert, database=database, message_id=database.new_id(), project_id=ended.project_id,
        request_id=request_id, text=text, resource_id=ended.resource_id,
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
    """Create the user message that no pool is suitable for a volume, or for work on the volume.

    An existing message of the same kind about the volume is replaced.

    :param reasons: reason why each pool is not suitable, by the name of the pool
    :param detail: see `create`
    :param text: kind of the message
    """
    create(database, project_id, request_id, text, volume_id, detail,
           words=f'Reasons: {placement.in_words(reasons)}.', once=True)


def is_there(name: sa.BindParameter[str]) -> sa.Exists:
    """Return the condition that a message exists, as part of a larger query.

    :param name: placeholder for the id of the message, see `name_of`
    """
    return sa.exists().where(_rows.c.id == name)


def get(database: storage_db.Database, message_id: str) -> records.Message:
    """Return a user message by its id.

    :raises MessageNotFound: there is no such message
    """
    with database.reader() as connection:
        row = connection.execute(
            _rows.select().where(_rows.c.id == message_id)).one_or_none()
    if row is None:
        raise errors.MessageNotFound(message_id=message_id)
    return _record(row)


def list_page(database: storage_db.Database, project_id: str | None, equal: Mapping[str, Any],
              page: paging.Page, like: Mapping[str, str] | None = None) -> list[records.Message]:
    """Return a page of user messages.

    :param project_id: project of the messages; None for every project
    :param equal: value that each column must have, by the keys of `SORT_COLUMNS`
    :param like: text that each column must contain, by the keys of `SORT_COLUMNS`
    :raises MessageNotFound: the marker is not the id of a message
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
    """Delete a user message. Nothing happens if the message does not exist."""
    with database.writer() as connection:
        connection.execute(_rows.delete().where(_rows.c.id == message_id))


@storage_db.retried
def purge(database: storage_db.Database) -> int:
    """Delete expired user messages, and return their number."""
    with database.writer() as connection:
        return connection.execute(
            _rows.delete().where(_rows.c.expires_at <= database.clock.utcnow())).rowcount


def name_of(text: domain_messages.Text, resource_id: str) -> str:
    """Return the id for a message that is the only one of its kind about a resource.

    :param text: kind of the message
    """
    # The id depends only on the kind and the resource, so that the primary key prevents a second
    # message.
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f'blockattach:{text.event_id}:{resource_id}'))


def _record(row: sa.Row[Any]) -> records.Message:
    return rows.record(records.Message, row, guaranteed_until=row.expires_at)
