"""Asynchronous acts: taken on, renewed, handed over, ended. One statement each, in database time.

Where a resource and its work change together, both do in one transaction, the resource first:
those functions take a connection. The others are a verb of their own. What is under way are the
rows of `work`, and attachments, whose own rows are their work.
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
"""What an attachment in a transitional state is in the middle of."""
NOUNS = ('attachment', 'snapshot', 'volume')
"""What can be worked on."""
Say = Callable[[sa.Connection], None]
"""Writes what the user reads of a failure, in the transaction that ends the work: so no end of the
process comes between.
"""
PASSED = -0.001
"""Seconds until the deadline of work that is due at once. With zero, work would not be due in the
millisecond in which it was written.
"""
_OF_RESOURCE = (_work.c.noun == statements.value('noun'),
                _work.c.resource_id == statements.value('resource_id'))
_OWNED = (*_OF_RESOURCE, _work.c.verb == statements.value('verb'),
          _work.c.generation == statements.value('generation'),
          _work.c.owner == statements.value('owner'))
# A message of an older generation finds a later one here, or no row.
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
        found = dict.fromkeys(NOUNS, 0)
        for (noun, _, state), number in self.work.items():
            found[noun] = found.get(noun, 0) + (number if state == 'overdue' else 0)
        return found


def silent(connection: sa.Connection) -> None:
    """No user reads of it."""


def begin(connection: sa.Connection, database: storage_db.Database, claim: records.Claim,
          seconds: float | datetime.datetime, host: str | None = None, **values: Any) -> None:
    """Write down work that shall be done, within the transaction that moves its resource.

    :param seconds: until which others leave it to the owner, or to the process that was sent a
        message; negative ones are over; or its deadline itself
    :param host: the ``host@backend`` that shall do it; None: any scheduler
    :param values: other columns; ``progress`` is a dictionary
    """
    statements.insert(connection, _work, {
        **values, 'id': database.new_id(), **claim._asdict(), 'host': host, 'attempts': 0,
        'progress': rows.to_json(values.get('progress') or {}),
        'deadline': seconds if isinstance(seconds, datetime.datetime) else clock.Later(seconds),
        'created_at': database.clock.utcnow()})


def replace(connection: sa.Connection, database: storage_db.Database, claim: records.Claim,
            seconds: float | datetime.datetime, host: str | None, **values: Any) -> None:
    """Write work down in the place of earlier work on the same resource, within a transaction."""
    _END.change(connection, noun=claim.noun, resource_id=claim.resource_id)
    begin(connection, database, claim, seconds, host, **values)


def end(connection: sa.Connection, claim: records.Claim) -> None:
    """The act has ended, within the transaction that says so in its resource.

    :raises StaleGeneration: it is another owner's by now
    """
    if not _end(connection, claim) and claim.owner is not None:
        raise _stale(claim)


def end_unbegun(connection: sa.Connection, claim: records.Claim) -> None:
    """It will not be done, within the transaction that says so in its resource.

    :raises StaleGeneration: a manager has it, or it has ended
    """
    if connection.execute(_work.delete().where(
            _work.c.noun == claim.noun, _work.c.resource_id == claim.resource_id,
            _work.c.verb == claim.verb, _work.c.host.is_(None))).rowcount != 1:
        raise _stale(claim)


def change(connection: sa.Connection, claim: records.Claim, seconds: float | None = None,
           **values: Any) -> None:
    """Write columns of work whose resource is locked; ``owner`` None stands for any.

    :param seconds: until its deadline; None: it stays
    """
    if seconds is not None:
        values['deadline'] = clock.now(seconds)
    connection.execute(_work.update().where(
        _work.c.noun == claim.noun, _work.c.resource_id == claim.resource_id,
    ).values(**values))


def place_again(connection: sa.Connection, claim: records.Claim, seconds: float,
                progress: dict[str, Any]) -> None:
    """Let work, whose resource is locked and takes its next generation, be any scheduler's."""
    change(connection, claim, generation=claim.generation + 1, host=None, owner=None,
           progress=rows.to_json(progress), deadline=clock.now(seconds))


def find(connection: sa.Connection, noun: str, resource_id: str,
         locked: bool = False) -> sa.Row[Any] | None:
    """Return the row of the work on a resource.

    :param locked: whether to lock the row until the transaction ends
    """
    query = _work.select().where(_work.c.noun == noun, _work.c.resource_id == resource_id)
    return connection.execute(query.with_for_update() if locked else query).one_or_none()


def read(connection: sa.Connection, claim: records.Claim, locked: bool = False) -> sa.Row[Any]:
    """Return the row of work whose resource is locked.

    :param locked: whether to lock the row as well
    :raises StaleGeneration: there is none, or it is another owner's by now
    """
    row = find(connection, claim.noun, claim.resource_id, locked)
    if row is None or claim.owner not in (None, row.owner):
        raise _stale(claim)
    return row


def remains(volume_id: str, pool: str, owner: str | None = None) -> records.Claim:
    """The removal of what may remain of a volume on a pool that it is not on."""
    return records.Claim('volume', f'{volume_id}@{pool}', 'cleanup', 0, owner)


@storage_db.retried
def claim(database: storage_db.Database, wanted: records.Claim, host: str | None,
          seconds: float) -> bool:
    """Take work on by a message, which names the generation; False: it has moved on since, or
    another process instance has it. A repeat by the same one is taken on again.
    """
    with database.writer() as connection:
        return _CLAIM.change(connection, **wanted._asdict(), host=host, seconds=seconds) == 1


@storage_db.retried
def take(database: storage_db.Database, found: records.Work, owner: str,
         seconds: float) -> records.Claim | None:
    """Go on with work that was found; None: it has changed since.

    An earlier owner that still runs finds at its end that it has lost it.
    """
    with database.writer(lambda again: again.execute(sa.select(_work.c.id).where(
            _work.c.id == found.id, _work.c.owner == owner,
            _work.c.attempts == found.attempts + 1).with_for_update(),
            ).first() is not None) as connection:
        done = connection.execute(_work.update().where(
            _work.c.id == found.id, _work.c.generation == found.generation,
            _work.c.attempts == found.attempts,
            # One that was put off since is being done.
            sa.or_(_work.c.deadline == found.deadline, _work.c.deadline < clock.now()))
            .values(owner=owner, attempts=found.attempts + 1, deadline=clock.now(seconds)))
        if done.rowcount != 1:
            return None
    return found.claim._replace(owner=owner)


@storage_db.retried
def renew(database: storage_db.Database, held: records.Claim, seconds: float) -> bool:
    """Put the deadline off while the work runs; False: it was lost."""
    with database.writer() as connection:
        return _RENEW.change(connection, **held._asdict(), seconds=seconds) == 1


@storage_db.retried
def note(database: storage_db.Database, held: records.Claim, **facts: Any) -> None:
    """Remember how far the work has come, within its progress.

    :raises StaleGeneration: it was lost
    """
    with database.writer() as connection:
        row = read(connection, held)
        if (row.verb, row.generation) != (held.verb, held.generation):
            raise _stale(held)
        _update(connection, held, progress=rows.to_json({**rows.from_json(row.progress), **facts}))


@storage_db.retried
def interrupt(database: storage_db.Database, held: records.Claim, error: str) -> None:
    """An attempt has ended without saying what it has done: no process is at it, and the next one
    is made at the deadline.
    """
    with database.writer() as connection:
        _update(connection, held, owner=None, error=error)


@storage_db.retried
def hand_over(database: storage_db.Database, owner: str) -> int:
    """Let others go on at once with all that a process instance has; returns how many acts."""
    with database.writer() as connection:
        return connection.execute(_work.update().where(_work.c.owner == owner).values(
            owner=None, deadline=clock.now(PASSED))).rowcount


@storage_db.retried
def hasten(database: storage_db.Database, waiting: records.Claim) -> None:
    """No message was sent of new work: it is found by the next look, not at its deadline."""
    with database.writer() as connection:
        _update(connection, waiting._replace(owner=None), deadline=clock.now(PASSED))


@storage_db.retried
def forget(database: storage_db.Database, claim: records.Claim, say: Say = silent) -> None:
    """End work that no resource depends on; that of another owner stays."""
    with database.writer() as connection:
        _end(connection, claim)
        say(connection)


def due(database: storage_db.Database, host: str | None, owner: str | None = None,
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
            other = sa.and_(other, services.of_service(_work.c.owner, owner))
        is_due = sa.or_(is_due, _work.c.owner.is_(None), other)
    return _read(database, _work.select().where(_work.c.host == host, is_due))


def get(database: storage_db.Database, work_id: str) -> records.Work:
    """One row of `work`.

    :raises WorkNotFound: there is none: it has ended, or there never was one
    """
    found = _read(database, _work.select().where(_work.c.id == work_id))
    if not found:
        raise errors.WorkNotFound(work_id=work_id)
    return found[0]


def of_resource(database: storage_db.Database, noun: str, resource_id: str) -> records.Work | None:
    """The work on one resource."""
    found = _read(database, _work.select().where(
        _work.c.noun == noun, _work.c.resource_id == resource_id))
    return found[0] if found else None


def list_all(database: storage_db.Database, host: str | None = None) -> list[records.Work]:
    """All that is under way, attachments included; the oldest first.

    :param host: only that of one ``host@backend``
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
    return sorted(found, key=lambda one: (one.created_at, one.id))


def overview(database: storage_db.Database) -> Overview:
    """The present state. Counts come from an index; the rest reads only rows with a deadline."""
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
    """Write columns of work that is this owner's still; of None, that no process has."""
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
