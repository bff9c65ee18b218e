"""Ends of work: done, failed, refused or cancelled, according to the table in `work_verbs`.

`finish`, `fail`, `refuse` and `cancel` change the resource and delete the work item in one
transaction, under the lock of the resource. The transaction also creates the user message, if
there is one, and can be repeated. If the connection is lost during the commit, a query determines
whether the changes are stored. `forget` does not change the resource.

Failpoints of an outcome: ``db.<noun>.<verb>.<outcome>.before`` and ``.after``.
"""
import logging
from typing import Any
from typing import NamedTuple
from typing import Protocol

import sqlalchemy as sa

from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db import work_verbs
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)

OUTCOMES = ('done', 'failed', 'refused', 'cancelled')
_BEGUN = {
    work_verbs.Cancels.UNPLACED: lambda at_work: at_work.host is not None,
    work_verbs.Cancels.UNBEGUN: lambda at_work: at_work.attempts > 0,
    work_verbs.Cancels.ALWAYS: lambda at_work: False,
}


class _Move(Protocol):
    def __call__(self, connection: sa.Connection, database: storage_db.Database, row: Any,
                 event: Any, chosen: Any, **values: Any) -> str: ...


class _Noun(NamedTuple):
    """Functions for one kind of resource, volumes or snapshots.

    :ivar table: module with the functions that lock a row of the resource
    :ivar status: name of the column that an event changes
    :ivar move: applies an event to a locked row
    """

    table: Any
    status: str
    move: _Move


_NOUNS = {'volume': _Noun(volume_rows, 'own_status', volume_rows.move),
          'snapshot': _Noun(snapshot_rows, 'status', snapshot_rows.move)}


def finish(database: storage_db.Database, held: records.Claim) -> None:
    """End work that the backend has completed.

    :raises StaleGeneration: another process has claimed the work, or the work has ended already
    """
    verb, row = _end(database, 'done', held)
    assert verb.done is not None
    volume_id, snapshot_id = _ids(verb, row)
    log.step(LOG, verb.done.sentence, volume_id=volume_id, snapshot_id=snapshot_id, pool=row.pool)


def fail(database: storage_db.Database, held: records.Claim,
         say: work.Say = work.silent, reason: Exception | None = None) -> None:
    """End work that the backend has refused permanently.

    :param reason: error to log; None if unknown
    :raises StaleGeneration: another process has claimed the work, or the work has ended already
    """
    _log('failed', *_end(database, 'failed', held, say), reason)


def refuse(database: storage_db.Database, verb: str, volume_id: str, generation: int,
           say: work.Say = work.silent) -> None:
    """End work on a volume for which the scheduler has found no pool.

    :param verb: name of the operation without the noun, such as ``extend``
    :param generation: generation that the volume must have
    :raises StaleGeneration: a volume service has accepted the work, or the work has ended already
    """
    waiting = records.Claim('volume', volume_id, verb, generation, None)
    _log('refused', *_end(database, 'refused', waiting, say), 'no valid pool')


def cancel(database: storage_db.Database, at_work: records.Work,
           say: work.Say = work.silent) -> None:
    """Cancel work at the request of an administrator.

    :raises Conflict: the work can no longer be cancelled, see `work_verbs.Cancels`
    :raises StaleGeneration: another process has claimed the work, or the work has ended already
    """
    _log('cancelled', *_end(database, 'cancelled', at_work.claim, say))


def forget(database: storage_db.Database, at_work: records.Work,
           say: work.Say = work.silent) -> None:
    """Cancel work on which the status of its resource does not depend, such as a notification."""
    work.forget(database, at_work.claim, say)


def _end(database: storage_db.Database, outcome: str, claim: records.Claim,
         say: work.Say = work.silent) -> tuple[work_verbs.Verb, Any]:
    verb = work_verbs.VERBS[claim.name]
    failpoints.point(f'db.{claim.name}.{outcome}.before')
    row = _write(database, verb, outcome, claim, say)
    failpoints.point(f'db.{claim.name}.{outcome}.after')
    return verb, row


@storage_db.retried
def _write(database: storage_db.Database, verb: work_verbs.Verb, outcome: str,
           claim: records.Claim, say: work.Say) -> Any:
    ending: work_verbs.Ending = getattr(verb, outcome)
    noun, wrote = _NOUNS[verb.noun], dict[str, Any]()

    def stepped(again: sa.Connection) -> bool:
        return rows.holds(noun.table.await_others(again, claim.resource_id), wrote)

    # When a scheduler claims a pool, it increments the generation of the volume, but not the
    # generation of the work.
    is_any = outcome == 'cancelled' and verb.cancels is work_verbs.Cancels.UNPLACED
    with database.writer(stepped) as connection:
        row = noun.table.lock_at(connection, claim.resource_id,
                                 None if is_any else claim.generation, *verb.at)
        progress = _end_work(connection, verb, outcome, claim)
        chosen = None if ending.chosen is None else ending.chosen(progress)
        values = ending.values(work_verbs.Ended(connection, database, row, progress))
        status = noun.move(connection, database, row, ending.event, chosen, **values)
        # `stepped` compares these values if the connection is lost during the commit.
        wrote |= {'generation': row.generation + 1, noun.status: status}
        say(connection)
    return row


def _end_work(connection: sa.Connection, verb: work_verbs.Verb, outcome: str,
              claim: records.Claim) -> dict[str, Any]:
    """Delete the work item within the transaction.

    :returns: progress of the work; empty if the outcome does not need the progress
    """
    if outcome == 'refused':
        # The scheduler has no claim. A work item has a host when a volume service has accepted it.
        work.end_unbegun(connection, claim)
        return {}
    progress: dict[str, Any] = {}
    if outcome == 'cancelled' or getattr(verb, outcome).reads:
        # A cancellation locks the work item, because a volume service accepts work without the
        # lock of the resource.
        at_work = work.read(connection, claim, locked=outcome == 'cancelled')
        if outcome == 'cancelled' and _BEGUN[verb.cancels](at_work):
            place = '' if at_work.host is None else f' on {at_work.host}'
            raise errors.Conflict(
                reason=f'cannot cancel {claim.name}: the operation has started{place}')
        progress = rows.from_json(at_work.progress)
    work.end(connection, claim)
    return progress


def _ids(verb: work_verbs.Verb, row: Any) -> tuple[str, str | None]:
    return (row.id, None) if verb.noun == 'volume' else (row.volume_id, row.id)


def _log(outcome: str, verb: work_verbs.Verb, row: Any, reason: object = None) -> None:
    ending: work_verbs.Ending = getattr(verb, outcome)
    volume_id, snapshot_id = _ids(verb, row)
    LOG.log(ending.level, '%s%s', ending.sentence, log.fields(
        volume_id=volume_id, snapshot_id=snapshot_id, pool=row.pool, reason=reason))
