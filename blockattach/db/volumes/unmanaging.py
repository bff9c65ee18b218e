"""Volumes that are left to their backend: each verb is one transaction under the volume's lock."""
from typing import Any

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import rows
from blockattach.db import work
from blockattach.db.engine import engine
from blockattach.db.volumes import snapshot_rows
from blockattach.db.volumes import sources
from blockattach.db.volumes import volume_rows
from blockattach.db.volumes import volumes
from blockattach.domain import records
from blockattach.domain import volume_lifecycle

LOG = oslo_log.getLogger(__name__)

_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event


@engine.retried
def start(database: engine.Database, volume_id: str, lease_seconds: float,
                   request_id: str | None = None) -> records.Claim | None:
    """Begin to leave a volume to its backend.

    :returns: the work; None: no backend has it, and it is gone
    :raises InvalidVolume: its status, its attachments or its snapshots do not allow it
    """
    with database.writer(lambda again: _stepped(
            volume_id, row.generation, own_status=own_status)(again)) as connection:
        row = volume_rows.lock(connection, volume_id)
        own_status = _Own.GONE if row.pool is None else _Own.UNMANAGING
        if row.encrypted:
            raise errors.InvalidInput('Unmanaging encrypted volumes is not supported.')
        if row.own_status not in volume_lifecycle.UNMANAGEABLE or row.lowest_rank is not None \
                or row.migration_status in volume_lifecycle.MOVING \
                or snapshot_rows.are_there(connection, volume_id) \
                or sources.is_copied(connection, volume_id):
            raise errors.InvalidVolume(reason=volumes.NOT_DELETABLE)
        if row.pool is None:
            _remove(connection, database, row, _Event.DISCARD)
            return None
        volume_rows.move(connection, database, row, _Event.UNMANAGE)
        wanted = unmanagement(volume_id, row.generation + 1)
        work.begin(connection, database, wanted, lease_seconds, records.host_of(row.pool),
                   request_id=request_id, project_id=row.project_id,
                   progress={'was': row.own_status})
    LOG.info('Volume is to be left to its backend%s',
             log.fields(volume_id=volume_id, pool=row.pool))
    return wanted


@engine.retried
def unmanaged(database: engine.Database, held: records.Claim) -> None:
    """No host can reach it any more: the row becomes history, and the bytes stay where they are.

    :raises StaleGeneration: another process went on with it
    """
    volume_id, generation = held.resource_id, held.generation
    with database.writer(_stepped(volume_id, generation, own_status=_Own.GONE)) as connection:
        row = _lock(connection, volume_id, generation)
        work.end(connection, held)
        volume_rows.GIVE.change(connection, pool=row.pool, size_gb=row.size_gb)
        _remove(connection, database, row, _Event.UNMANAGED)
    LOG.info('Volume is left to its backend%s', log.fields(volume_id=volume_id, pool=row.pool))


@engine.retried
def failed(database: engine.Database, held: records.Claim) -> None:
    """The target refused for good to let it go: it is what it was.

    :raises StaleGeneration: another process went on with it
    """
    _keep(database, held)
    LOG.error('Cannot leave a volume to its backend%s', log.fields(volume_id=held.resource_id))


@engine.retried
def cancelled(database: engine.Database, found: records.Work) -> None:
    """Let a volume be what it was.

    :raises Conflict: its backend may have begun
    """
    if found.attempts:
        raise errors.Conflict(reason='cannot cancel volume.unmanage: it has begun')
    _keep(database, found.claim)


def unmanagement(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """The act of leaving it to its backend."""
    return records.Claim('volume', volume_id, 'unmanage', generation, owner)


def _keep(database: engine.Database, held: records.Claim) -> None:
    volume_id, generation = held.resource_id, held.generation
    with database.writer(_stepped(volume_id, generation)) as connection:
        row = _lock(connection, volume_id, generation)
        was = rows.from_json(work.read(connection, held).progress)['was']
        work.end(connection, held)
        volume_rows.move(connection, database, row, _Event.UNMANAGE_FAILED, _Own(was))


def _remove(connection: sa.Connection, database: engine.Database, row: Any,
            event: _Event) -> None:
    volume_rows.move(connection, database, row, event, deleted=True,
                     deleted_at=database.clock.utcnow())
    volume_rows.NO_GRANTS.change(connection, volume_id=row.id)


def _stepped(volume_id: str, generation: int, **values: Any) -> engine.Happened:
    """Whether the volume has gone from a generation to the next one, in this way."""
    return lambda connection: rows.holds(volume_rows.await_others(connection, volume_id),
                                         {'generation': generation + 1, **values})


def _lock(connection: sa.Connection, volume_id: str, generation: int) -> Any:
    row = volume_rows.lock(connection, volume_id)
    if row.generation != generation or row.own_status != _Own.UNMANAGING:
        raise errors.StaleGeneration(noun='volume', id=volume_id, generation=generation)
    return row
