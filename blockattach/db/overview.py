"""Counts of rows, and what takes too long: for monitoring."""
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.db import clock
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import work

_attachments = models.attachments
_work = models.work


class Overview(NamedTuple):
    """All attachments by state; for states that are worked on, the age of the oldest in seconds;
    and how much work is under way, by noun, verb and whether it is ``waiting``, ``running`` or
    ``overdue``.
    """

    attachments: dict[str, int]
    oldest: dict[str, float]
    work: dict[tuple[str, str, str], int]

    @property
    def overdue(self) -> dict[str, int]:
        """How much work of each noun has passed its deadline."""
        found = {'attachment': 0, 'volume': 0}
        for (noun, _, state), number in self.work.items():
            found[noun] = found.get(noun, 0) + (number if state == 'overdue' else 0)
        return found


def read(database: engine.Database) -> Overview:
    """The present state. Counts come from an index; the rest reads only rows with a deadline."""
    counts = sa.select(_attachments.c.state, sa.func.count()).where(
        models.live(_attachments)).group_by(_attachments.c.state)
    since = sa.func.min(sa.func.coalesce(_attachments.c.updated_at, _attachments.c.created_at))
    worked_on = sa.select(_attachments.c.state, since.label('since')).where(
        _attachments.c.deadline.is_not(None)).group_by(_attachments.c.state)
    with database.reader() as connection:
        attachments = {row.state: row[1] for row in connection.execute(counts)}
        now = database.clock.utcnow()
        oldest = {row.state: max((now - row.since).total_seconds(), 0.0)
                  for row in connection.execute(worked_on)}
        found = {(row.noun, row.verb, row.phase): row.number
                for query in (_acts(), _moves()) for row in connection.execute(query)}
    return Overview(attachments, oldest, found)


def _acts() -> sa.Select[Any]:
    query = sa.select(
        _work.c.noun, _work.c.verb, _phase(_work), sa.func.count().label('number'))
    return query.group_by(_work.c.noun, _work.c.verb, sa.text('phase'))


def _moves() -> sa.Select[Any]:
    verb = sa.case(*((_attachments.c.state == state.value, verb)
                     for state, verb in work.VERBS.items()))
    query = sa.select(sa.literal('attachment').label('noun'), verb.label('verb'),
                      _phase(_attachments), sa.func.count().label('number'))
    return query.where(models.live(_attachments), _attachments.c.state.in_(
        [state.value for state in work.VERBS])).group_by(
        sa.text('verb'), sa.text('phase'))


def _phase(table: sa.Table) -> sa.ColumnElement[str]:
    return sa.case((table.c.deadline < clock.now(), 'overdue'),
                   (table.c.owner.is_(None), 'waiting'), else_='running').label('phase')
