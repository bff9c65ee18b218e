"""Limits on what a project may have, counted where things are born and end, in their transaction.

Not limited means not counted: no row is read or locked then. A project's row is made, with what
the project has at that moment, when it is first needed.
"""
import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach import errors
from blockattach.db.models import attachment
from blockattach.db.models import quota

UNLIMITED = -1
ATTACHMENTS = 'attachments'

_usages = quota.usages
_attachments = attachment.attachments


class AttachmentQuota:
    """How many live attachments one project may have; -1: any number."""

    def __init__(self, limit: int = UNLIMITED) -> None:
        self._limit = limit

    def change(self, connection: sa.Connection, project_id: str, by: int) -> None:
        """Count one more before it is written (by 1), or one less after it has gone (by -1).

        The caller is `engine.retried` and holds its volume's lock; this takes the project's, in
        that order everywhere.

        :raises QuotaExceeded: the project has as many as it may
        """
        if self._limit == UNLIMITED:
            return
        in_use = self._lock(connection, project_id)
        if in_use is None:
            in_use = self._begin(connection, project_id, 0 if by > 0 else 1)
        if by > 0 and in_use + by > self._limit:
            raise errors.QuotaExceeded(kind='Attachment', limit=self._limit,
                                       resource=ATTACHMENTS)
        connection.execute(_usages.update().where(*_of(project_id)).values(
            in_use=_usages.c.in_use + by))

    def forget(self, connection: sa.Connection) -> None:
        """At start: counts of a time with a limit say nothing once there was none."""
        if self._limit == UNLIMITED:
            connection.execute(_usages.delete().where(_usages.c.resource == ATTACHMENTS))

    def _lock(self, connection: sa.Connection, project_id: str) -> int | None:
        mine = sa.select(_usages.c.in_use).where(*_of(project_id))
        # Looked for first: a lock on what is not there is one on the gap that others insert into.
        if connection.execute(mine).first() is None:
            return None
        return connection.execute(mine.with_for_update()).scalar_one_or_none()

    def _begin(self, connection: sa.Connection, project_id: str, just_gone: int) -> int:
        live = connection.execute(sa.select(sa.func.count()).where(
            _attachments.c.project_id == project_id, _attachments.c.deleted == sa.false()),
        ).scalar_one() + just_gone
        try:
            connection.execute(_usages.insert().values(
                project_id=project_id, resource=ATTACHMENTS, in_use=live))
        except db_exception.DBDuplicateEntry as exc:
            # Another process was faster: the whole verb again, which finds the row.
            raise db_exception.RetryRequest(exc) from exc
        return live


def _of(project_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _usages.c.project_id == project_id, _usages.c.resource == ATTACHMENTS
