"""What is under way: the rows of `work`, and attachments, whose own rows are their work."""
import datetime
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import clock
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records

_work = models.work
_attachments = models.attachments
_volumes = models.volumes
_State = attachment_lifecycle.State
VERBS = {_State.CONNECTING: 'connect', _State.DISCONNECTING: 'disconnect'}
"""What an attachment in a transitional state is in the middle of."""


def due(database: engine.Database, host: str | None, owner: str | None = None,
        shared: bool = False) -> list[records.Work]:
    """Work of one ``host@backend`` (None: of schedulers) whose deadline has passed.

    :param owner: at start: the process instance that asks; what no other one has, or another one
        had, is due too
    :param shared: others run that do the same: of other instances only earlier ones of its own
    """
    is_due: sa.ColumnElement[bool] = _work.c.deadline < clock.now()
    if owner is not None:
        other = _work.c.owner != owner
        if shared:
            other = sa.and_(other, volume_rows.of_service(_work.c.owner, owner))
        is_due = sa.or_(is_due, _work.c.owner.is_(None), other)
    return _read(database, _work.select().where(_work.c.host == host, is_due))


def get(database: engine.Database, work_id: str) -> records.Work:
    """One row of `work`.

    :raises WorkNotFound: there is none: it has ended, or there never was one
    """
    found = _read(database, _work.select().where(_work.c.id == work_id))
    if not found:
        raise errors.WorkNotFound(work_id=work_id)
    return found[0]


def of_resource(database: engine.Database, noun: str, resource_id: str) -> records.Work | None:
    """The work on one resource."""
    found = _read(database, _work.select().where(
        _work.c.noun == noun, _work.c.resource_id == resource_id))
    return found[0] if found else None


def list_all(database: engine.Database, host: str | None = None) -> list[records.Work]:
    """All that is under way, attachments included; the oldest first.

    :param host: only that of one ``host@backend``
    """
    acts = _work.select()
    moves = sa.select(_attachments, _volumes.c.pool).outerjoin(
        _volumes, _volumes.c.id == _attachments.c.volume_id).where(
        models.live(_attachments), _attachments.c.deadline.is_not(None))
    if host is not None:
        acts, moves = acts.where(_work.c.host == host), moves.where(volume_rows.on_host(host))
    with database.reader() as connection:
        now = connection.execute(sa.select(clock.now())).scalar_one()
        found = [_record(row, now) for row in connection.execute(acts)]
        found += [_attachment(row, now) for row in connection.execute(moves)]
    return sorted(found, key=lambda one: (one.created_at, one.id))


def _read(database: engine.Database, query: sa.Select[Any]) -> list[records.Work]:
    with database.reader() as connection:
        found = connection.execute(
            query.add_columns(clock.now().label('now')).order_by(_work.c.created_at, _work.c.id),
        ).all()
    return [_record(row, row.now) for row in found]


def _record(row: Any, now: datetime.datetime) -> records.Work:
    return records.Work(
        row.id, row.noun, row.resource_id, row.verb, row.generation, row.host, row.owner,
        row.deadline, (now - row.deadline).total_seconds(), row.attempts,
        rows.from_json(row.progress), row.error, row.request_id, row.project_id, row.created_at)


def _attachment(row: Any, now: datetime.datetime) -> records.Work:
    return records.Work(
        row.id, 'attachment', row.id, VERBS[_State(row.state)], row.generation,
        volume_rows.host_of(row.pool), row.owner, row.deadline,
        (now - row.deadline).total_seconds(), 1, {'volume_id': row.volume_id}, row.last_error,
        None, row.project_id, row.updated_at or row.created_at)
