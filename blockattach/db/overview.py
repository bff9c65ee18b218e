"""Counts of rows, and what takes too long: for monitoring."""
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.db import clock
from blockattach.db import engine
from blockattach.db.models import attachment
from blockattach.db.models import base
from blockattach.db.models import volume

_attachments = attachment.attachments
_volumes = volume.volumes


class Overview(NamedTuple):
    """All attachments by state; for states that are worked on, the age of the oldest in seconds;
    and how many rows of each noun have passed their deadline.
    """

    attachments: dict[str, int]
    oldest: dict[str, float]
    overdue: dict[str, int]


def read(database: engine.Database) -> Overview:
    """The present state. Counts come from an index; the rest reads only rows with a deadline."""
    counts = sa.select(_attachments.c.state, sa.func.count()).where(
        base.live(_attachments)).group_by(_attachments.c.state)
    since = sa.func.min(sa.func.coalesce(_attachments.c.updated_at, _attachments.c.created_at))
    worked_on = sa.select(_attachments.c.state, since.label('since')).where(
        _attachments.c.deadline.is_not(None)).group_by(_attachments.c.state)
    with database.reader() as connection:
        attachments = {row.state: row[1] for row in connection.execute(counts)}
        now = database.clock.utcnow()
        oldest = {row.state: max((now - row.since).total_seconds(), 0.0)
                  for row in connection.execute(worked_on)}
        overdue = {noun: connection.execute(
                       sa.select(sa.func.count()).select_from(table)
                       .where(table.c.deadline < clock.now())).scalar_one()
                   for noun, table in (('attachment', _attachments), ('volume', _volumes))}
    return Overview(attachments, oldest, overdue)
