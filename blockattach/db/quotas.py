"""Limits on what a project may have, checked in the transaction that makes a row.

Usage is counted, not stored: with the project's row locked, so that new rows of one project wait
for each other. A process that has found a project far from its limit makes a number of rows
without a count.
"""
import collections
import threading
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach import errors
from blockattach.db import models

UNLIMITED = -1
ATTACHMENTS = 'attachments'
MARGIN = 1024
"""How far from its limit a project is counted each time."""
UNCOUNTED = 16
"""How many rows one process makes between two counts: ``MARGIN`` is enough for 64 processes."""
_MOST_PROJECTS = 4096

_quotas = models.quotas
_attachments = models.attachments


class AttachmentQuota:
    """How many live attachments one project may have, unless it has a limit of its own."""

    def __init__(self, default: int = UNLIMITED) -> None:
        self.default = default
        self._mutex = threading.Lock()
        # What projects had when they were counted, and how many may follow uncounted.
        self._counted: collections.OrderedDict[str, tuple[int, int]] = collections.OrderedDict()

    def limit(self, hard_limit: int | None) -> int:
        """Of a project with this limit of its own; None: it has none."""
        return self.default if hard_limit is None else hard_limit

    def check(self, connection: sa.Connection, project_id: str, hard_limit: int | None) -> None:
        """Check one more, before it is written. The caller is `engine.retried`.

        :param hard_limit: the project's own, as it was read just before
        :raises QuotaExceeded: the project has as many as it may
        """
        if self.limit(hard_limit) == UNLIMITED or self._is_far(project_id, hard_limit):
            return
        limit = self.limit(self.lock(connection, project_id))
        in_use = count(connection, project_id)
        if limit != UNLIMITED and in_use >= limit:
            raise errors.QuotaExceeded(kind='Attachment', limit=limit, resource=ATTACHMENTS)
        with self._mutex:
            self._counted[project_id] = in_use, UNCOUNTED
            if len(self._counted) > _MOST_PROJECTS:
                self._counted.popitem(last=False)

    def lock(self, connection: sa.Connection, project_id: str) -> int | None:
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

    def _is_far(self, project_id: str, hard_limit: int | None) -> bool:
        with self._mutex:
            in_use, uncounted = self._counted.get(project_id, (0, 0))
            if not uncounted or in_use + MARGIN >= self.limit(hard_limit):
                return False
            self._counted[project_id] = in_use, uncounted - 1
            return True


def hard_limit_of(project_id: sa.ColumnElement[str]) -> sa.Select[Any]:
    """A project's own limit; no row, or NULL: the default."""
    return sa.select(_quotas.c.hard_limit).where(
        _quotas.c.project_id == project_id, _quotas.c.resource == ATTACHMENTS)


def count(connection: sa.Connection, project_id: str) -> int:
    """How many live attachments a project has."""
    return connection.execute(sa.select(sa.func.count()).where(
        _attachments.c.deleted == sa.false(), _attachments.c.project_id == project_id,
    )).scalar_one()
