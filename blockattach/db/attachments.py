"""Attachments: `reserve` makes one, `move` is the one writer of its state afterwards.

Both read their precondition in one statement, decide by it, and then write the row and what
follows for its volume where the precondition still holds. On a conflict they read and decide
again, at last under the volume's lock. Lock order: volume, project, attachments.
"""
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Callable
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from typing import Self
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach import errors
from blockattach import log
from blockattach.db import attachment_values
from blockattach.db import engine
from blockattach.db import grants
from blockattach.db import models
from blockattach.db import pairs
from blockattach.db import preconditions
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records

LOG = logging.getLogger(__name__)

Attached = attachment_values.Attached
Facts = attachment_values.Facts
Lease = attachment_values.Lease
Wish = attachment_values.Wish
connected = attachment_values.connected

_rows = models.attachments
_State = attachment_lifecycle.State
_Event = attachment_lifecycle.Event
_Expected = TypeVar('_Expected')
_Done = TypeVar('_Done')

# After so many conflicts the volume is locked before it is read, which excludes another one.
_TRIES = 2
_NO_FACTS = attachment_values.Facts()


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """The attachment before and after, and its volume's status after."""

    old: records.Attachment
    new: records.Attachment
    volume_status: str
    volume_attach_status: str


class _Conflict(Exception):
    """The precondition no longer holds; nothing was written."""


@engine.retried
def reserve(database: engine.Database, wish: Wish, lease_seconds: float,
            within: Callable[[sa.Connection, str], None] | None = None) -> records.Attachment:
    """Hold the volume for a new attachment, or refuse it.

    :param within: called in the same transaction with the new row's id: all of it or nothing
    :raises VolumeNotFound: no such live volume
    :raises InvalidVolume: `blockattach.domain.multiattach.admit` refuses; nothing was changed
    :raises NotAuthorized: `blockattach.domain.multiattach.admit` refuses; nothing was changed
    :raises ConnectorUnusable: a connector without an initiator
    :raises QuotaExceeded: the project has as many as it may
    """
    made = _retry(database, wish.expected, lambda expected, lock: _reserve(
        database, wish, lease_seconds, within, expected, lock))
    LOG.info('Attachment is reserved%s', log.fields(
        attachment_id=made.id, volume_id=made.volume_id, instance_uuid=made.instance_uuid,
        state=made.state))
    return made


@engine.retried
def move(database: engine.Database, volume_id: str, attachment_id: str, event: _Event,
         facts: Facts = _NO_FACTS, generation: int | None = None,
         within: Callable[[sa.Connection], None] | None = None,
         expected: records.Attachment | None = None) -> Moved:
    """Apply an event to an attachment.

    :param generation: the one that the caller has read; None: any
    :param within: called in the same transaction: all of it or nothing
    :param expected: the row as it was read just before, with its volume
    :raises AttachmentNotFound: it is deleted, or never existed
    :raises StaleGeneration: it has moved since; nothing was changed
    :raises InvalidTransition: not from its state; nothing was changed
    """
    if expected is not None and expected.volume is None:
        expected = None
    moved = _retry(database, expected, lambda known, lock: _move(
        database, _Move(volume_id, attachment_id, event, facts, generation), within, known, lock))
    LOG.info('Attachment has moved%s', log.fields(
        attachment_id=attachment_id, volume_id=volume_id, event=event, old=moved.old.state,
        new=moved.new.state, generation=moved.new.generation, volume_status=moved.volume_status))
    return moved


def _retry(database: engine.Database, expected: _Expected | None,
           act: Callable[[_Expected | None, bool], _Done]) -> _Done:
    """Act on what was read already, then on a new read, then under the lock."""
    for tried in itertools.count():
        lock = tried >= _TRIES
        try:
            return act(None if lock else expected, lock)
        except _Conflict:
            expected = None
        except db_exception.DBDuplicateEntry:
            # A slot, or a grant's name, that another transaction has taken meanwhile.
            if lock:
                raise
            expected = None
    raise AssertionError


def _reserve(database: engine.Database, wish: Wish, lease_seconds: float,
             within: Callable[[sa.Connection, str], None] | None,
             expected: preconditions.Precondition | None, lock: bool) -> records.Attachment:
    values: dict[str, Any] = {}
    with _Transaction(database, lambda again: _holds(
            again, wish.volume_id, {'id': values['id']})) as transaction:
        read = expected
        if lock:
            connection = transaction.begin()
            locked = volume_rows.lock(connection, wish.volume_id)
            database.attachment_quota.lock(connection, locked.project_id)
            read = preconditions.read(connection, wish.volume_id, *_named(wish))
        elif read is None:
            read = preconditions.get(database, wish.volume_id, *_named(wish))
        try:
            change = attachment_values.insert_values(
                read, wish, lease_seconds, database.clock.utcnow(), database.new_id())
        except errors.BlockattachError as exc:
            _check_again(exc, expected)
            raise
        values |= change.values
        if not lock:
            connection = transaction.begin()
        if not pairs.write_volume(connection, pairs.Unchanged(read.facts, change.reads_others),
                                  change.of_volume):
            raise _Conflict
        database.attachment_quota.check(connection, read.facts.project_id, read.hard_limit)
        sealed = None
        if wish.connector is not None:
            known = None if lock or values['initiator'] != read.initiator else grants.Known(
                read.credential, {''} if read.granted else set())
            sealed = grants.ensure(connection, database, wish.volume_id, values['initiator'],
                                   known)
        pairs.insert(connection, values)
        if within is not None:
            within(connection, values['id'])
    return rows.made_attachment(values, sealed)


@dataclasses.dataclass(frozen=True, slots=True)
class _Move:
    volume_id: str
    attachment_id: str
    event: _Event
    facts: Facts
    generation: int | None


def _move(database: engine.Database, what: _Move,
          within: Callable[[sa.Connection], None] | None,
          expected: records.Attachment | None, lock: bool) -> Moved:
    values: dict[str, Any] = {'id': what.attachment_id}
    with _Transaction(database, lambda again: (
            _holds(again, what.volume_id, values))) as transaction:
        old = expected
        if lock:
            connection = transaction.begin()
            old = _locked(connection, what)
        elif old is None:
            with database.reader() as reading:
                old = _found(reading, what)
        try:
            if what.generation not in (None, old.generation):
                raise errors.StaleGeneration(noun='attachment', id=old.id,
                                             generation=what.generation)
            change = attachment_values.update_values(
                old, what.event, what.facts, database.clock.utcnow())
        except errors.BlockattachError as exc:
            _check_again(exc, expected)
            raise
        values |= change.values
        new = rows.attachment_with(old, change.values)
        if not lock:
            connection = transaction.begin()
        new = _write(connection, database, what.event, old, new, change)
        if within is not None:
            within(connection)
    return Moved(old, new, change.derived.status, change.derived.attach_status)


def _write(connection: sa.Connection, database: engine.Database, event: _Event,
           old: records.Attachment, new: records.Attachment,
           change: attachment_values.Change) -> records.Attachment:
    """Write the change, and add or drop grants.

    :raises _Conflict: its precondition no longer holds
    """
    assert old.volume is not None
    unneeded = _needed_by(old) - _needed_by(new)
    if event is _Event.CONNECTED and not change.of_volume and not unneeded:
        # No other decision depends on it, so hosts that are connected at once do not conflict.
        done = pairs.write_row(connection, old, change.values)
    else:
        done = pairs.write(connection, old, change.values,
                           pairs.Unchanged(old.volume, change.reads_others), change.of_volume)
    if not done:
        raise _Conflict
    sealed = old.sealed
    if event is _Event.CONNECT:
        assert new.initiator is not None
        if sealed is None or new.initiator != (old.previous_initiator or old.initiator):
            sealed = grants.ensure(connection, database, old.volume_id, new.initiator)
    grants.drop_unused(connection, old.volume_id, unneeded)
    return new if sealed is old.sealed else dataclasses.replace(new, sealed=sealed)


def _check_again(refusal: errors.BlockattachError, expected: object) -> None:
    """A refusal that is based on an early read is decided once more, on a new one."""
    if expected is not None:
        raise _Conflict from refusal


class _Transaction:
    """A transaction that begins with `begin`, and ends with the block."""

    def __init__(self, database: engine.Database, happened: engine.Happened) -> None:
        self._database = database
        self._happened = happened
        self._begun: contextlib.AbstractContextManager[sa.Connection] | None = None

    def begin(self) -> sa.Connection:
        """Its connection: what it writes is committed as a whole or not at all."""
        writer = self._database.writer(self._happened)
        connection = writer.__enter__()
        self._begun = writer
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> bool | None:
        return None if self._begun is None else self._begun.__exit__(kind, error, trace)


def _named(wish: Wish) -> tuple[str | None, str | None]:
    """The instance and the initiator of a wish."""
    initiator = (wish.connector or {}).get('initiator')
    return (wish.attached.instance_uuid if wish.attached else wish.instance_uuid,
            initiator if isinstance(initiator, str) else None)


def _needed_by(row: records.Attachment) -> set[str]:
    """The initiators whose grants a row needs."""
    if row.state is _State.GONE:
        return set()
    return {name for name in (row.initiator, row.previous_initiator) if name}


def _locked(connection: sa.Connection, what: _Move) -> records.Attachment:
    """Lock the volume's row, then read the attachment."""
    with contextlib.suppress(errors.VolumeNotFound):
        volume_rows.lock(connection, what.volume_id)
    return _found(connection, what)


def _found(connection: sa.Connection, what: _Move) -> records.Attachment:
    """The attachment with its volume.

    :raises AttachmentNotFound: either is deleted
    """
    found = pairs.read(connection, what.attachment_id)
    if found is None or found.volume_id != what.volume_id:
        raise errors.AttachmentNotFound(attachment_id=what.attachment_id)
    return found


def _holds(connection: sa.Connection, volume_id: str, values: Mapping[str, Any]) -> bool:
    """Whether a row is as its writer, whose commit was not confirmed, wanted it."""
    volume_rows.await_others(connection, volume_id)
    return rows.holds(connection.execute(_rows.select().where(
        _rows.c.id == values['id']).with_for_update()).one_or_none(), values)
