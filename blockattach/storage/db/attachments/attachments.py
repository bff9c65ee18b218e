"""Creation and state changes of attachments.

`reserve` creates an attachment, and `move` is the only function that changes its state afterwards.
Each function reads its precondition with one statement, and decides by that precondition. It then
writes the attachment and the derived columns of the volume, on condition that the precondition
still holds. Otherwise nothing is written.

Therefore no decision needs the lock of the volume. Changes to the attachments of one volume wait
for each other only from the write to the end of the transaction. After a conflict, the function
reads and decides again. After several conflicts, it locks the volume before it reads.

Lock order: volume, project, attachments.
"""
import contextlib
import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import log
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_values
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import pairs
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)

Attached = attachment_values.Attached
Facts = attachment_values.Facts
Wish = attachment_values.Wish
Caller = attachment_values.Caller
connected = attachment_values.connected

_rows = models.attachments
_volumes = models.volumes
_State = attachment_lifecycle.State
_Event = attachment_lifecycle.Event
_Expected = TypeVar('_Expected')
_Done = TypeVar('_Done')

# After so many conflicts the volume is locked before it is read, which rules out another conflict.
_TRIES = 2
_NO_FACTS = attachment_values.Facts()

# Columns of an attachment and of its volume that must not have changed since they were read. Any
# change of the own status, the deletion or the type of the volume increments its generation. The
# project and the bootable flag are included because the policy check depends on them.
_SAME_ROW = ('id', 'generation')
_SAME = ('id', 'project_id', 'generation', 'bootable', 'detach_announced')
_SAME_OR_NULL = ('lowest_rank', 'readonly')
_MOVES = ('attachment_moves',)
_ROW, _VOLUME, _EXPECTED, _EXPECTED_ROW = 'row_', 'volume_', 'expected_', 'expected_row_'


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """Attachment before and after a state change, and the status of its volume afterwards."""

    old: records.Attachment
    new: records.Attachment
    volume_status: str
    volume_attach_status: str

    @property
    def was_last(self) -> bool:
        """True if the volume has no live attachment any more."""
        return self.volume_attach_status == attachment_values.DETACHED


class _Writing(NamedTuple):
    """Writes of a state change of an attachment.

    :ivar of_volume: True if the volume is updated together with the attachment
    :ivar also: steps that are executed after the update of the attachment
    :ivar made: columns of the grant that a step in ``also`` inserts; None if no step inserts a
        grant. The sealing key of the grant must be checked before the commit
    :ivar initiator: initiator that needs a grant, and may have a grant already; None if a step in
        ``also`` inserts the grant, or no further grant is needed
    :ivar unneeded: initiators whose grants are deleted unless other attachments need them
    """

    of_volume: bool
    also: list[statements.Step]
    made: dict[str, Any] | None
    initiator: str | None
    unneeded: set[str]

    @property
    def is_one(self) -> bool:
        """True if the writes consist of steps only, so that they can be sent as one statement."""
        return self.initiator is None and not self.unneeded


class _Conflict(Exception):
    """Write whose precondition no longer holds. Nothing was written."""


@storage_db.retried
def reserve(database: storage_db.Database, wish: Wish, lease_seconds: float,
            within: Callable[[sa.Connection, str], None] | None = None,
            caller: Caller = None) -> records.Attachment:
    """Create an attachment, which reserves its volume.

    If this function raises an error, nothing is written.

    :param wish: requested properties of the attachment
    :param lease_seconds: seconds until the deadline for connecting the host, if the attachment
        has a connector
    :param within: called in the same transaction with the id of the new attachment
    :raises VolumeNotFound: the volume is deleted, or does not belong to the project
        ``wish.project_id``
    :raises InvalidVolume, NotAuthorized, ConnectorUnusable, InvalidInput: see
        `attachment_values.insert_values`
    :raises QuotaExceeded: the project has reached its quota of attachments
    """
    made = _retry(wish.expected, functools.partial(
        _reserve, database, wish, lease_seconds, within, caller))
    log.step(LOG, 'Attachment reserved', attachment_id=made.id, volume_id=made.volume_id,
             instance_uuid=made.instance_uuid, state=made.state)
    return made


@storage_db.retried
def move(database: storage_db.Database, volume_id: str, attachment_id: str, event: _Event,
         facts: Facts = _NO_FACTS, generation: int | None = None,
         within: Callable[[sa.Connection], None] | None = None,
         expected: records.Attachment | None = None,
         caller: Caller = None) -> Moved:
    """Apply an event to an attachment.

    If this function raises an error, nothing is written.

    :param facts: arguments of the event
    :param generation: generation that the attachment must have; None for any generation
    :param within: called in the same transaction
    :param expected: the attachment and the facts of its volume, if the caller has just read them;
        None to read the attachment now
    :raises AttachmentNotFound: the volume has no live attachment with this id
    :raises StaleGeneration: the attachment has another generation than ``generation``
    :raises InvalidTransition: the state of the attachment does not allow the event
    :raises InvalidVolume, ConnectorUnusable, InvalidInput: see `attachment_values.update_values`
    """
    if expected is not None and expected.volume is None:
        expected = None
    moved = _retry(expected, functools.partial(
        _move, database, volume_id, attachment_id, event, facts, generation, within, caller))
    log.step(LOG, 'Attachment state changed', attachment_id=attachment_id, volume_id=volume_id,
             event=event, old=moved.old.state, new=moved.new.state,
             generation=moved.new.generation, volume_status=moved.volume_status)
    return moved


def _retry(expected: _Expected | None,
           act: Callable[[_Expected | None, bool], _Done]) -> _Done:
    # The first call gets the precondition that the caller has read. The second call reads the
    # precondition again. All later calls lock the volume before they read.
    for tried in itertools.count():
        lock = tried >= _TRIES
        try:
            return act(None if lock else expected, lock)
        except _Conflict:
            expected = None
        except db_exception.DBDuplicateEntry:
            # Another transaction has inserted the same slot or alias of a grant. This cannot
            # happen while this transaction holds the lock of the volume.
            if lock:
                raise
            expected = None
    raise AssertionError


def _reserve(database: storage_db.Database, wish: Wish, lease_seconds: float,
             within: Callable[[sa.Connection, str], None] | None,
             caller: Caller,
             expected: pairs.Precondition | None, lock: bool) -> records.Attachment:
    new_id = database.new_id()
    wanted = (wish.volume_id, wish.attached.instance_uuid if wish.attached else wish.instance_uuid,
              wish.connector)
    writer = database.writer(lambda again: _holds(again, wish.volume_id, {'id': new_id}))
    with contextlib.ExitStack() as stack:
        if lock:
            connection = stack.enter_context(writer)
            read = pairs.locked_precondition(connection, *wanted)
        else:
            read = expected or pairs.precondition(database, *wanted)
        if read.volume.project_id != wish.project_id:
            raise errors.VolumeNotFound(volume_id=wish.volume_id)
        try:
            change = attachment_values.insert_values(
                read, wish, lease_seconds, database.clock.utcnow(), new_id, caller)
        except errors.BlockattachError as exc:
            _check_again(exc, expected)
            raise
        # The limits may come from Keystone. So they are read before the transaction begins, unless
        # the volume is locked.
        limits = quotas.attachment_limits(database, read.volume.project_id, read.own_limit,
                                          read.class_limit)
        if not lock:
            connection = stack.enter_context(writer)
        sealed = _insert(connection, database, read, change, lock)
        quotas.check_attachment(connection, database, limits)
        if within is not None:
            within(connection, new_id)
    return rows.made_attachment(change.values, sealed)


def _insert(connection: sa.Connection, database: storage_db.Database, read: pairs.Precondition,
            change: attachment_values.Change, lock: bool) -> records.SealedCredential | None:
    """Update a volume, insert a new attachment, and insert its grant if the grant is missing.

    :param read: precondition of the attachment
    :param lock: True if the transaction holds the lock of the volume
    :returns: credential of the grant; None if the attachment has no connector
    :raises _Conflict: the precondition no longer holds
    """
    steps = [_counting(read.volume, change)]
    initiator, sealed, made = change.values.get('initiator'), None, None
    if initiator is not None:
        if lock:
            sealed, taken = grants.look(connection, read.volume.id, initiator)
        elif initiator == read.initiator:
            # Aliases other than '' are not part of the precondition. The unique constraint refuses
            # an alias of another grant, and `_retry` then repeats the decision.
            sealed, taken = read.credential, {''} if read.granted else set()
        else:
            # The precondition contains the grant of another initiator.
            raise _Conflict
        if sealed is None:
            made = grants.new(database, read.volume.id, initiator, taken)
            sealed = grants.credential_of(made)
            steps.append(statements.inserting(models.grants, made))
    steps += [statements.inserting(_rows, change.values), *_recording(database, change)]
    if not statements.together(connection, *steps):
        raise _Conflict
    if made is not None:
        grants.check_sealed_by(database, made['key_id'])
    return sealed


def _move(database: storage_db.Database, volume_id: str, attachment_id: str, event: _Event,
          facts: Facts, generation: int | None, within: Callable[[sa.Connection], None] | None,
          caller: Caller, expected: records.Attachment | None, lock: bool) -> Moved:
    values: dict[str, Any] = {'id': attachment_id}

    def happened(again: sa.Connection) -> bool:
        return _holds(again, volume_id, values)
    with contextlib.ExitStack() as stack:
        if lock:
            connection = stack.enter_context(database.writer(happened))
            old = pairs.locked(connection, volume_id, attachment_id)
        else:
            old = expected or pairs.read(database, attachment_id)
        if old.volume_id != volume_id:
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        try:
            if generation not in (None, old.generation):
                raise errors.StaleGeneration(noun='attachment', id=old.id, generation=generation)
            change = attachment_values.update_values(old, event, facts, database.clock.utcnow(),
                                                     caller)
        except errors.BlockattachError as exc:
            _check_again(exc, expected)
            raise
        # `happened` compares these values after a lost commit.
        values |= change.values
        new = rows.attachment_with(old, change.values)
        writing = _plan(database, event, old, new, change)
        # One round trip is possible only if nothing is executed between the writes and the commit.
        # The sealing key of a new grant has to be checked there.
        if writing.is_one and database.takes_as_one and not lock and within is None:
            if not database.change(happened, _first(writing, old, change), *writing.also):
                raise _Conflict
        else:
            if not lock:
                connection = stack.enter_context(database.writer(happened))
            new = _write(connection, database, old, new, change, writing)
            if within is not None:
                within(connection)
    return Moved(old, new, change.derived.status, change.derived.attach_status)


def _plan(database: storage_db.Database, event: _Event, old: records.Attachment,
          new: records.Attachment, change: attachment_values.Change) -> _Writing:
    made, also = None, []
    unneeded = _needed_by(old) - _needed_by(new)
    initiator = new.initiator if event is _Event.CONNECT and (
        old.sealed is None or new.initiator != (old.previous_initiator or old.initiator)) else None
    if initiator is not None and _is_bare(old):
        made = grants.new(database, old.volume_id, initiator, set())
        also.append(statements.inserting(models.grants, made))
    if len(unneeded) == 1 and change.reads_others:
        # The write fails if another attachment that needs the grant was added in the meantime.
        assert old.volume is not None
        dropped = unneeded.pop()
        also.append(grants.dropping_sole(old.volume_id, dropped)
                    if old.volume.others_lowest is None
                    else grants.dropping(old.volume_id, dropped, old.id))
    # Decisions about other attachments do not depend on this event. Because the volume is not
    # updated, several hosts can be connected to one volume at the same time without a conflict.
    alone = event is _Event.CONNECTED and not (change.of_volume or unneeded or also)
    return _Writing(not alone, also + _recording(database, change), made, initiator, unneeded)


def _write(connection: sa.Connection, database: storage_db.Database, old: records.Attachment,
           new: records.Attachment, change: attachment_values.Change,
           writing: _Writing) -> records.Attachment:
    """Write a state change, and add or delete grants.

    :returns: the new attachment, with the credential of its connection
    :raises _Conflict: the precondition no longer holds
    """
    # SQLite cannot change two tables in one statement. Its writers exclude each other, so no
    # other transaction can write between the two statements.
    if writing.of_volume and connection.dialect.name == 'sqlite':
        assert old.volume is not None
        done = (statements.together(connection, _counting(old.volume, change)) > 0
                and statements.together(connection, _changing(old, change), *writing.also) > 0)
    else:
        done = statements.together(connection, _first(writing, old, change), *writing.also) > 0
    if not done:
        raise _Conflict
    sealed = old.sealed
    if writing.made is not None:
        grants.check_sealed_by(database, writing.made['key_id'])
        sealed = grants.credential_of(writing.made)
    elif writing.initiator is not None:
        sealed = grants.ensure(connection, database, old.volume_id, writing.initiator)
    if writing.unneeded:
        grants.drop_unused(connection, old.volume_id, writing.unneeded)
    return new if sealed is old.sealed else dataclasses.replace(new, sealed=sealed)


def _recording(database: storage_db.Database, change: attachment_values.Change,
               ) -> list[statements.Step]:
    return [statements.inserting(models.attachment_events, change.event)
            ] if database.history_days else []


def _check_again(refusal: errors.BlockattachError, expected: object) -> None:
    """Raise _Conflict if a refusal is based on a precondition that the caller had read earlier.

    The decision is then repeated with a new precondition.

    :param expected: the earlier precondition; None if the precondition was read just now
    """
    if expected is not None:
        raise _Conflict from refusal


def _is_bare(row: records.Attachment) -> bool:
    """Return True if no attachment of the volume needed a grant when the attachment was read.

    If another transaction has inserted a grant in the meantime, the database refuses a second
    grant with the same alias.
    """
    assert row.volume is not None
    return row.volume.others_lowest is None and not _needed_by(row)


def _needed_by(row: records.Attachment) -> set[str]:
    """Return the initiators whose grants an attachment needs."""
    if row.state is _State.GONE:
        return set()
    return {name for name in (row.initiator, row.previous_initiator) if name}


def _holds(connection: sa.Connection, volume_id: str, values: Mapping[str, Any]) -> bool:
    # The transaction of the lost connection may still hold the lock of the volume. Wait for it.
    connection.execute(sa.select(_volumes.c.id).where(
        _volumes.c.id == volume_id).with_for_update())
    return rows.holds(connection.execute(_rows.select().where(
        _rows.c.id == values['id']).with_for_update()).one_or_none(), values)


def _counting(expected: records.VolumeFacts, change: attachment_values.Change) -> statements.Step:
    # This step is the first of the transaction, so that the volume is locked before any
    # attachment. It changes nothing if there is a conflict.
    return statements.Step(
        _volume_update(change.reads_others, statements.shape(change.of_volume)),
        statements.values_of(change.of_volume, _VOLUME) | _expected(expected))


def _changing(old: records.Attachment, change: attachment_values.Change) -> statements.Step:
    return statements.updating(_rows, _as_read(old, _SAME_ROW), change.values)


def _first(writing: _Writing, old: records.Attachment,
           change: attachment_values.Change) -> statements.Step:
    """Return the step that updates the attachment, and its volume if ``writing`` requires that.

    The step changes nothing if the attachment or the volume has changed since it was read.
    """
    # Callers test the number of changed rows only for zero, because MariaDB counts the rows of
    # both tables.
    if not writing.of_volume:
        return _changing(old, change)
    assert old.volume is not None
    return statements.Step(
        _pair_update(change.reads_others, statements.shape(change.of_volume),
                     statements.shape(change.values)),
        statements.values_of(change.of_volume, _VOLUME) | statements.values_of(change.values, _ROW)
        | _expected(old.volume) | _as_read(old, _SAME_ROW, _EXPECTED_ROW))


def _expected(volume: records.VolumeFacts) -> dict[str, Any]:
    return _as_read(volume, (*_SAME, *_SAME_OR_NULL, *_MOVES), _EXPECTED)


def _as_read(record: object, names: Iterable[str], prefix: str = '') -> dict[str, Any]:
    return {f'{prefix}{name}': getattr(record, name) for name in names}


def _counted(reads_others: bool, shape: statements.Shape, *which: sa.ColumnElement[bool],
             also: Mapping[Any, Any] | None = None) -> sa.Update:
    """Return the update of a volume that belongs to a change of an attachment.

    :param reads_others: True if the change depends on the rows of other attachments of the volume,
        and not only on the lowest rank in the row of the volume
    :param which: additional conditions
    :param also: values of additional columns
    """
    # The condition has no indexed column except the primary key. Otherwise MariaDB might use, and
    # lock, another index first.
    same = _SAME + reads_others * _MOVES
    return _volumes.update().where(
        *(_volumes.c[name] == statements.column_value(_volumes.c[name], _EXPECTED)
          for name in same),
        # The statement is compiled once for all values, so a NULL cannot become IS NULL.
        *(_volumes.c[name].is_not_distinct_from(
            statements.column_value(_volumes.c[name], _EXPECTED)) for name in _SAME_OR_NULL),
        *which,
    ).values({**statements.values(_volumes, shape, _VOLUME),
              _volumes.c.attachment_moves: _volumes.c.attachment_moves + 1, **(also or {})})


@functools.cache
def _volume_update(reads_others: bool, shape: statements.Shape) -> statements.Statement:
    return statements.Statement(lambda dialect: _counted(reads_others, shape))


@functools.cache
def _pair_update(reads_others: bool, of_volume: statements.Shape,
                 of_row: statements.Shape) -> statements.Statement:
    def build(dialect: sa.Dialect) -> sa.Update:
        same = [_rows.c[name] == statements.column_value(_rows.c[name], _EXPECTED_ROW)
                for name in _SAME_ROW]
        values = statements.values(_rows, of_row, _ROW)
        # MariaDB updates two tables in one statement, PostgreSQL only by a WITH.
        if dialect.name == 'mysql':
            return _counted(reads_others, of_volume, *same, _rows.c.volume_id == _volumes.c.id,
                            also=values)
        counted = _counted(reads_others, of_volume).returning(_volumes.c.id).cte('counted')
        return _rows.update().where(
            *same, _rows.c.volume_id == counted.c.id).values(values)
    return statements.Statement(build)
