"""Rows of asynchronous work: claim, renewal, handover and end.

A work item is an operation that continues after the response. The table ``work`` contains the work
on volumes and snapshots. The work on an attachment is part of the row of the attachment. Deadlines
are compared with the time of the database.

If a resource and its work change together, both change in one transaction, which locks the row of
the resource first. Functions for such transactions have a connection as their first argument. Any
other function that writes executes a transaction of its own.
"""
import datetime
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

_work = models.work
_attachments = models.attachments
_volumes = models.volumes
_State = attachment_lifecycle.State
VERBS = {_State.CONNECTING: 'connect', _State.DISCONNECTING: 'disconnect'}
"""Verbs of the work on attachments, by the transitional state of the attachment."""
NOUNS = ('attachment', 'snapshot', 'volume')
"""Kinds of resources that can have work."""
Say = Callable[[sa.Connection], None]
"""Function that creates a user message in the transaction that ends the work, so that either both
are stored or neither.
"""
PASSED = -0.001
"""Seconds until the deadline of work that is due at once. Work is due when its deadline is earlier
than the current time. With zero seconds, it would not be due within the same millisecond.
"""
_OF_RESOURCE = (_work.c.noun == statements.value('noun'),
                _work.c.resource_id == statements.value('resource_id'))
_OWNED = (*_OF_RESOURCE, _work.c.verb == statements.value('verb'),
          _work.c.generation == statements.value('generation'),
          _work.c.owner == statements.value('owner'))
# A message with an older generation changes nothing, because the row no longer exists or has a
# later generation.
_CLAIM = statements.Statement(lambda dialect: _work.update().where(
    *_OF_RESOURCE, _work.c.verb == statements.value('verb'),
    sa.or_(_work.c.generation < statements.value('generation'), sa.and_(
        _work.c.generation == statements.value('generation'),
        sa.or_(_work.c.owner.is_(None), _work.c.owner == statements.value('owner')))),
).values(owner=statements.value('owner'), host=statements.value('host'),
         generation=statements.value('generation'), attempts=_work.c.attempts + 1,
         deadline=clock.now(statements.value('seconds', sa.Float()))))
_RENEW = statements.Statement(lambda dialect: _work.update().where(*_OWNED).values(
    deadline=clock.now(statements.value('seconds', sa.Float()))))
_END = statements.Statement(lambda dialect: _work.delete().where(*_OF_RESOURCE))
_END_OWNED = statements.Statement(lambda dialect: _work.delete().where(*_OWNED))


class Overview(NamedTuple):
    """Numbers of attachments and of work items.

    :ivar attachments: number of live attachments by state
    :ivar oldest: age in seconds of the oldest attachment with a deadline, by state. The age is the
        time since the last change of the attachment
    :ivar work: number of work items by noun, verb and phase. The phase is ``waiting``, ``running``
        or ``overdue``
    """

    attachments: dict[str, int]
    oldest: dict[str, float]
    work: dict[tuple[str, str, str], int]

    @property
    def overdue(self) -> dict[str, int]:
        """Number of work items whose deadline has passed, by noun."""
        counts = dict.fromkeys(NOUNS, 0)
        for (noun, _, phase), number in self.work.items():
            counts[noun] = counts.get(noun, 0) + (number if phase == 'overdue' else 0)
        return counts


def silent(connection: sa.Connection) -> None:
    """Create no user message. This is the default of parameters of type `Say`."""


def begin(connection: sa.Connection, database: storage_db.Database, claim: records.Claim,
          seconds: float | datetime.datetime, host: str | None = None, **values: Any) -> None:
    """Insert a work item in the transaction that changes its resource.

    :param seconds: seconds until the deadline, or the deadline itself. Until then, other processes
        leave the work to the owner, or to the process that receives the message about the work.
        With negative seconds, the deadline has passed already
    :param host: ``host@backend`` that executes the work; None for any scheduler
    :param values: other columns; ``progress`` is a dictionary
    """
    statements.insert(connection, _work, {
        **values, 'id': database.new_id(), **claim._asdict(), 'host': host, 'attempts': 0,
        'progress': rows.to_json(values.get('progress') or {}),
        'deadline': seconds if isinstance(seconds, datetime.datetime) else clock.Later(seconds),
        'created_at': database.clock.utcnow()})


def replace(connection: sa.Connection, database: storage_db.Database, claim: records.Claim,
            seconds: float | datetime.datetime, host: str | None, **values: Any) -> None:
    """Delete the work item of a resource, if there is any, and insert a new work item.

    For the parameters see `begin`.
    """
    _END.change(connection, noun=claim.noun, resource_id=claim.resource_id)
    begin(connection, database, claim, seconds, host, **values)


def end(connection: sa.Connection, claim: records.Claim) -> None:
    """Delete a work item that has ended, in the transaction that changes its resource.

    :param claim: claim on the work. If it has no owner, work of any owner and verb is deleted
    :raises StaleGeneration: another process owns the work, or the work has ended already
    """
    # A caller without a claim holds the lock of the resource and has checked its status. There may
    # be no work.
    if not _end(connection, claim) and claim.owner is not None:
        raise _stale(claim)


def end_unbegun(connection: sa.Connection, claim: records.Claim) -> None:
    """Delete a work item that no manager has accepted yet.

    The transaction also changes the resource of the work item.

    :raises StaleGeneration: a manager has accepted the work, or the work has ended
    """
    if connection.execute(_work.delete().where(
            _work.c.noun == claim.noun, _work.c.resource_id == claim.resource_id,
            _work.c.verb == claim.verb, _work.c.host.is_(None))).rowcount != 1:
        raise _stale(claim)


def change(connection: sa.Connection, claim: records.Claim, seconds: float | None = None,
           **values: Any) -> None:
    """Update columns of the work item of a locked resource.

    :param claim: claim on the work; its verb, owner and generation are not compared with the row
    :param seconds: seconds until the new deadline; None to keep the deadline
    """
    if seconds is not None:
        values['deadline'] = clock.now(seconds)
    connection.execute(_work.update().where(
        _work.c.noun == claim.noun, _work.c.resource_id == claim.resource_id,
    ).values(**values))


def place_again(connection: sa.Connection, claim: records.Claim, seconds: float,
                progress: dict[str, Any]) -> None:
    """Return a work item to the schedulers, and increment its generation.

    The caller increments the generation of the resource, which is locked.

    :param seconds: seconds until the new deadline
    :param progress: new progress of the work
    """
    change(connection, claim, generation=claim.generation + 1, host=None, owner=None,
           progress=rows.to_json(progress), deadline=clock.now(seconds))


def find(connection: sa.Connection, noun: str, resource_id: str,
         locked: bool = False) -> sa.Row[Any] | None:
    """Return the row of the work on a resource.

    :param locked: True to lock the row until the transaction ends
    :returns: row of the work item; None if there is no work on the resource
    """
    query = _work.select().where(_work.c.noun == noun, _work.c.resource_id == resource_id)
    return connection.execute(query.with_for_update() if locked else query).one_or_none()


def read(connection: sa.Connection, claim: records.Claim, locked: bool = False) -> sa.Row[Any]:
    """Return the row of the work item of a resource.

    :param claim: claim on the work. If it has no owner, work of any owner is returned
    :param locked: True to lock the row of the work item until the transaction ends
    :raises StaleGeneration: there is no work on the resource, or another process owns the work
    """
    row = find(connection, claim.noun, claim.resource_id, locked)
    if row is None or claim.owner not in (None, row.owner):
        raise _stale(claim)
    return row


def remains(volume_id: str, pool: str, owner: str | None = None) -> records.Claim:
    """Return the claim on removing data that a volume has left on another pool.

    :param pool: ``host@backend#pool`` with the data
    """
    return records.Claim('volume', f'{volume_id}@{pool}', 'cleanup', 0, owner)


@storage_db.retried
def claim(database: storage_db.Database, new_claim: records.Claim, host: str | None,
          seconds: float) -> bool:
    """Claim work for a process instance that has received a message about the work.

    If the process instance has the claim already, it gets the claim again.

    :param new_claim: claim with the process instance as its owner, and the generation of the
        message
    :param host: ``host@backend`` that executes the work
    :param seconds: seconds until the deadline
    :returns: False if the work has ended or has a later generation, or if another process instance
        has claimed the work
    """
    with database.writer() as connection:
        return _CLAIM.change(connection, **new_claim._asdict(), host=host, seconds=seconds) == 1


@storage_db.retried
def take(database: storage_db.Database, item: records.Work, owner: str,
         seconds: float) -> records.Claim | None:
    """Claim a work item whose former owner no longer works on it.

    If the former owner is still running, it loses its claim, and fails when it ends the work.

    :param item: the work item as it was read
    :param owner: process instance that gets the claim
    :param seconds: seconds until the new deadline
    :returns: claim of the new owner; None if the work item has changed since it was read
    """
    # The generation does not change. If the connection is lost during the commit, the owner and
    # the number of attempts show whether this call has claimed the work.
    with database.writer(lambda again: again.execute(sa.select(_work.c.id).where(
            _work.c.id == item.id, _work.c.owner == owner,
            _work.c.attempts == item.attempts + 1).with_for_update(),
            ).first() is not None) as connection:
        done = connection.execute(_work.update().where(
            _work.c.id == item.id, _work.c.generation == item.generation,
            _work.c.attempts == item.attempts,
            # If the deadline was extended in the meantime, the owner is still running.
            sa.or_(_work.c.deadline == item.deadline, _work.c.deadline < clock.now()))
            .values(owner=owner, attempts=item.attempts + 1, deadline=clock.now(seconds)))
        if done.rowcount != 1:
            return None
    return item.claim._replace(owner=owner)


@storage_db.retried
def renew(database: storage_db.Database, held: records.Claim, seconds: float) -> bool:
    """Extend the deadline of claimed work.

    :param seconds: seconds until the new deadline
    :returns: False if another process has claimed the work, or if the work has ended
    """
    with database.writer() as connection:
        return _RENEW.change(connection, **held._asdict(), seconds=seconds) == 1


@storage_db.retried
def note(database: storage_db.Database, held: records.Claim, **facts: Any) -> None:
    """Add entries to the progress of claimed work.

    :param facts: the entries
    :raises StaleGeneration: another process has claimed the work, or the work has ended
    """
    with database.writer() as connection:
        row = read(connection, held)
        if (row.verb, row.generation) != (held.verb, held.generation):
            raise _stale(held)
        _update(connection, held, progress=rows.to_json({**rows.from_json(row.progress), **facts}))


@storage_db.retried
def interrupt(database: storage_db.Database, held: records.Claim, error: str) -> None:
    """Release the claim on work after an attempt with an unknown outcome.

    The deadline is kept. After the deadline, the work is attempted again.

    :param error: error of the attempt, for operators
    """
    with database.writer() as connection:
        _update(connection, held, owner=None, error=error)


@storage_db.retried
def hand_over(database: storage_db.Database, owner: str) -> int:
    """Release all claims of a process instance, so that other processes resume the work at once.

    :returns: number of work items whose claim was released
    """
    with database.writer() as connection:
        return connection.execute(_work.update().where(_work.c.owner == owner).values(
            owner=None, deadline=clock.now(PASSED))).rowcount


@storage_db.retried
def hasten(database: storage_db.Database, waiting: records.Claim) -> None:
    """Make new work due at once, because the message about the work could not be sent.

    The next pass of the recovery then finds the work, although its original deadline has not
    passed yet.
    """
    with database.writer() as connection:
        _update(connection, waiting._replace(owner=None), deadline=clock.now(PASSED))


@storage_db.retried
def forget(database: storage_db.Database, claim: records.Claim, say: Say = silent) -> None:
    """Delete a work item on which the status of its resource does not depend.

    :param claim: claim on the work. If it has no owner, work of any owner is deleted. Otherwise
        nothing is deleted if another process owns the work
    """
    with database.writer() as connection:
        # The result is ignored. The work may have ended already.
        _end(connection, claim)
        say(connection)


def due(database: storage_db.Database, host: str | None, owner: str | None = None,
        shared: bool = False) -> list[records.Work]:
    """Return work items whose deadline has passed.

    At the start of a process, work that no running process executes is also returned before its
    deadline. This is work without an owner, and work of other process instances.

    :param host: ``host@backend`` of the work; None for the work of schedulers
    :param owner: owner name of the process instance that is starting; None for a process that has
        started already
    :param shared: True if several processes execute the work of ``host``. Work of another process
        instance is then returned before its deadline only if the other instance is an earlier
        instance of the same service
    """
    is_due: sa.ColumnElement[bool] = _work.c.deadline < clock.now()
    if owner is not None:
        other = _work.c.owner != owner
        if shared:
            other = sa.and_(other, services.of_service(_work.c.owner, owner))
        is_due = sa.or_(is_due, _work.c.owner.is_(None), other)
    return _read(database, _work.select().where(_work.c.host == host, is_due))


def get(database: storage_db.Database, work_id: str) -> records.Work:
    """Return a work item by its id.

    :raises WorkNotFound: the work item has never existed or has ended
    """
    found = _read(database, _work.select().where(_work.c.id == work_id))
    if not found:
        raise errors.WorkNotFound(work_id=work_id)
    return found[0]


def of_resource(database: storage_db.Database, noun: str, resource_id: str) -> records.Work | None:
    """Return the work item of a resource, or None if there is no work on the resource."""
    found = _read(database, _work.select().where(
        _work.c.noun == noun, _work.c.resource_id == resource_id))
    return found[0] if found else None


def list_all(database: storage_db.Database, host: str | None = None) -> list[records.Work]:
    """Return all work that has not ended, including the work on attachments, oldest first.

    :param host: ``host@backend`` of the work; None for the work of all hosts
    """
    acts = _work.select()
    moves = sa.select(_attachments, _volumes.c.pool).outerjoin(
        _volumes, _volumes.c.id == _attachments.c.volume_id).where(
        models.live(_attachments), _attachments.c.deadline.is_not(None))
    if host is not None:
        acts, moves = acts.where(_work.c.host == host), moves.where(services.on_host(host))
    with database.reader() as connection:
        now = connection.execute(sa.select(clock.now())).scalar_one()
        found = [_record(row, now) for row in connection.execute(acts)]
        found += [_attachment(row, now) for row in connection.execute(moves)]
    return sorted(found, key=lambda item: (item.created_at, item.id))


def overview(database: storage_db.Database) -> Overview:
    """Return the present numbers of attachments and of work items."""
    # The query for the numbers of attachments reads only an index. The other queries read only
    # rows that have a deadline.
    counts = sa.select(_attachments.c.state, sa.func.count()).where(
        models.live(_attachments)).group_by(_attachments.c.state)
    since = sa.func.min(sa.func.coalesce(_attachments.c.updated_at, _attachments.c.created_at))
    worked_on = sa.select(_attachments.c.state, since.label('since')).where(
        _attachments.c.deadline.is_not(None)).group_by(_attachments.c.state)
    acts = sa.select(
        _work.c.noun, _work.c.verb, _phase(_work), sa.func.count().label('number'),
    ).group_by(_work.c.noun, _work.c.verb, sa.text('phase'))
    with database.reader() as connection:
        attachments = {row.state: row[1] for row in connection.execute(counts)}
        now = database.clock.utcnow()
        oldest = {row.state: max((now - row.since).total_seconds(), 0.0)
                  for row in connection.execute(worked_on)}
        found = {(row.noun, row.verb, row.phase): row.number
                 for query in (acts, _moves()) for row in connection.execute(query)}
    return Overview(attachments, oldest, found)


def _update(connection: sa.Connection, claim: records.Claim, **values: Any) -> None:
    # SQLAlchemy renders an owner of None as IS NULL, so that only unclaimed work is updated.
    connection.execute(_work.update().where(
        _work.c.noun == claim.noun, _work.c.resource_id == claim.resource_id,
        _work.c.generation == claim.generation, _work.c.owner == claim.owner).values(**values))


def _end(connection: sa.Connection, claim: records.Claim) -> int:
    if claim.owner is None:
        return _END.change(connection, noun=claim.noun, resource_id=claim.resource_id)
    return _END_OWNED.change(connection, **claim._asdict())


def _stale(claim: records.Claim) -> errors.StaleGeneration:
    return errors.StaleGeneration(noun=claim.noun, id=claim.resource_id,
                                  generation=claim.generation)


def _read(database: storage_db.Database, query: sa.Select[Any]) -> list[records.Work]:
    with database.reader() as connection:
        found = connection.execute(
            query.add_columns(clock.now().label('now')).order_by(_work.c.created_at, _work.c.id),
        ).all()
    return [_record(row, row.now) for row in found]


def _record(row: Any, now: datetime.datetime) -> records.Work:
    return rows.record(records.Work, row, overdue=(now - row.deadline).total_seconds(),
                       progress=rows.from_json(row.progress))


def _attachment(row: Any, now: datetime.datetime) -> records.Work:
    return records.Work(
        row.id, 'attachment', row.id, VERBS[_State(row.state)], row.generation,
        records.host_of(row.pool), row.owner, row.deadline,
        (now - row.deadline).total_seconds(), 1, {'volume_id': row.volume_id}, row.last_error,
        None, row.project_id, row.updated_at or row.created_at)


def _moves() -> sa.Select[Any]:
    verb = sa.case(*((_attachments.c.state == state.value, verb)
                     for state, verb in VERBS.items()))
    query = sa.select(sa.literal('attachment').label('noun'), verb.label('verb'),
                      _phase(_attachments), sa.func.count().label('number'))
    return query.where(models.live(_attachments), _attachments.c.state.in_(
        [state.value for state in VERBS])).group_by(
        sa.text('verb'), sa.text('phase'))


def _phase(table: sa.Table) -> sa.ColumnElement[str]:
    return sa.case((table.c.deadline < clock.now(), 'overdue'),
                   (table.c.owner.is_(None), 'waiting'), else_='running').label('phase')
