"""How many attachments a project may have, checked in the transaction that makes a row.

Usage is counted, not stored: with the project's row locked, so that new rows of one project wait
for each other. A process that has found a project far from its limit makes a number of rows
without a count. A project's own limit is read and changed by an administrator.
"""
import itertools
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach import errors
from blockattach.db import models
from blockattach.db.engine import engine
from blockattach.domain import records

UNLIMITED = -1
ATTACHMENTS = 'attachments'
MARGIN = 1024
"""How far from its limit a project is counted each time."""
UNCOUNTED = 16
"""How many rows one process makes between two counts: ``MARGIN`` is enough for 64 processes."""
_MOST_PROJECTS = 4096

_quotas = models.quotas
_attachments = models.attachments


def check(connection: sa.Connection, database: engine.Database, project_id: str,
          hard_limit: int | None) -> None:
    """Check one more, before it is written. The caller is `engine.retried`.

    :param hard_limit: the project's own, as it was read just before; None: the default
    :raises QuotaExceeded: the project has as many as it may
    """
    limit = _limit(database, hard_limit)
    if limit == UNLIMITED:
        return
    in_use, uncounted = database.counted.get(project_id, (0, iter(())))
    if in_use + MARGIN < limit and next(uncounted, False):
        return
    limit = _limit(database, lock(connection, project_id))
    in_use = _count(connection, project_id)
    if limit != UNLIMITED and in_use >= limit:
        raise errors.QuotaExceeded(kind='Attachment', limit=limit, resource=ATTACHMENTS)
    if len(database.counted) >= _MOST_PROJECTS:
        database.counted.clear()
    database.counted[project_id] = in_use, itertools.repeat(True, UNCOUNTED)


def lock(connection: sa.Connection, project_id: str) -> int | None:
    """Hold the row of a project until the transaction ends; its own limit.

    Before the transaction reads anything: MariaDB shows it ever after what was there then. The
    caller is `engine.retried`.
    """
    found = connection.execute(
        hard_limit_of(sa.literal(project_id)).with_for_update()).one_or_none()
    if found is not None:
        return found.hard_limit
    try:
        connection.execute(_quotas.insert().values(
            project_id=project_id, resource=ATTACHMENTS, hard_limit=None))
    except db_exception.DBDuplicateEntry as exc:
        # Another process was faster: the whole verb again, which finds the row.
        raise db_exception.RetryRequest(exc) from exc
    return None


def hard_limit_of(project_id: sa.ColumnElement[str]) -> sa.Select[Any]:
    """A project's own limit; no row, or NULL: the default."""
    return sa.select(_quotas.c.hard_limit).where(
        _quotas.c.project_id == project_id, _quotas.c.resource == ATTACHMENTS)


def get(database: engine.Database, project_id: str) -> records.QuotaSet:
    """The limit of a project, its own or the default, and what it has."""
    with database.reader() as connection:
        own = connection.execute(hard_limit_of(sa.literal(project_id))).scalars().first()
        in_use = _count(connection, project_id)
    return records.QuotaSet(project_id, _limit(database, own), in_use)


@engine.retried
def change(database: engine.Database, project_id: str, limit: int | None) -> None:
    """Give a project a limit of its own; None: the default again. It may be less than it has."""
    with database.writer() as connection:
        lock(connection, project_id)
        connection.execute(_quotas.update().where(
            _quotas.c.project_id == project_id, _quotas.c.resource == ATTACHMENTS,
        ).values(hard_limit=limit))


def _limit(database: engine.Database, hard_limit: int | None) -> int:
    return database.attachment_limit if hard_limit is None else hard_limit


def _count(connection: sa.Connection, project_id: str) -> int:
    """How many live attachments a project has."""
    return connection.execute(sa.select(sa.func.count()).where(
        models.live(_attachments), _attachments.c.project_id == project_id)).scalar_one()
