"""Migrations and retypes of volumes.

Each function that writes does so in one transaction under the lock of the volume. A scheduler
claims the space on the destination pool, and the volume service of that pool copies the data. The
former pool has the complete volume until the column ``pool`` contains the destination pool. Data
that remain on either pool at the end are removed by separate work. For a retype without a
migration, no volume service is called.
"""
import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import move_rules
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event
_MOVING = (_Own.MIGRATING, _Own.MIGRATING_LOCKED, _Own.RETYPING)


@dataclasses.dataclass(frozen=True, slots=True)
class Retyping:
    """Requested retype of a volume.

    :ivar kind: new volume type, for which the request was authorized
    :ivar may_move: True to allow a migration if the present pool does not meet the requirements of
        the new type
    """

    kind: records.VolumeType
    may_move: bool


@storage_db.retried
def migrate(database: storage_db.Database, volume: records.Judged, destination: str, lock: bool,
            lease_seconds: float, request_id: str | None = None) -> int:
    """Start the migration of a volume. No backend is called yet.

    :param destination: ``host@backend``, or ``host@backend#pool``
    :param lock: True to show the status ``maintenance`` during the migration (``lock_volume``)
    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :returns: new generation of the volume
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the status, the attachments, the snapshots or the backend of the volume
        do not allow the migration
    """
    volume_id = volume.id
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, row.generation, migration_status='starting')(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        move_rules.check_migration(connection, row, destination)
        volume_rows.move(connection, database, row,
                         _Event.MIGRATE_LOCKED if lock else _Event.MIGRATE,
                         migration_status='starting')
        work.begin(connection, database, act(volume_id, 'migrate', row.generation + 1),
                   lease_seconds, request_id=request_id, project_id=row.project_id,
                   progress={'destination': destination})
    log.step(LOG, 'Migrating volume', volume_id=volume_id, pool=row.pool)
    return int(row.generation) + 1


@storage_db.retried
def retype(database: storage_db.Database, volume: records.Judged, retyping: Retyping,
           lease_seconds: float, request_id: str | None = None) -> int:
    """Start the retype of a volume. The volume has its present type until the retype ends.

    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :returns: new generation of the volume
    :raises InvalidVolume: the status or the attachments of the volume do not allow the retype
    :raises VolumeTypeNotFound, VolumeTypeChanged: the new type was deleted or has changed since
        the request was authorized
    :raises QuotaExceeded: the project has reached a quota of the new type
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    """
    volume_id = volume.id
    limits = quotas.limits(database, volume.project_id)
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, row.generation, own_status=_Own.RETYPING)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        # The project is locked before the first plain read. After such a read, MariaDB shows no
        # more commits of other transactions.
        quotas.lock(connection, row.project_id)
        volume_types.hold(connection, retyping.kind)
        quotas.check_retype(connection, database, limits, row, retyping.kind.id)
        move_rules.check_retype(connection, row, retyping.kind)
        volume_rows.move(connection, database, row, _Event.RETYPE)
        work.begin(connection, database, act(volume_id, 'retype', row.generation + 1),
                   lease_seconds, request_id=request_id, project_id=row.project_id, progress={
                       'type_id': retyping.kind.id, 'specs': dict(retyping.kind.extra_specs),
                       'encrypted': retyping.kind.encryption is not None,
                       'moves': retyping.may_move and move_rules.may_leave(connection, row)})
    log.step(LOG, 'Retyping volume', volume_id=volume_id,
             volume_type_id=retyping.kind.id)
    return int(row.generation) + 1


@storage_db.retried
def claim(database: storage_db.Database, volume_id: str, generation: int, pool: str,
          service_uuid: str | None) -> int | None:
    """Claim space for the whole volume on the destination pool of a migration or retype.

    :param pool: destination pool
    :param service_uuid: UUID of the volume service of the destination pool; None if unknown
    :returns: new generation of the volume; None if the pool has not enough space
    :raises StaleGeneration: the volume is not waiting for a pool
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, claimed_pool=pool)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, *_MOVING)
        # Another scheduler has claimed space on a pool already.
        if row.claimed_pool is not None:
            raise errors.StaleGeneration(noun='volume', id=volume_id, generation=generation)
        claimed = claims.take(connection, pool, row.size_gb)
        if claimed is None:
            connection.rollback()
            return None
        found = act(volume_id, _verb(row), generation)
        progress = rows.from_json(work.read(connection, found).progress)
        work.change(connection, found, progress=rows.to_json(
            {**progress, 'service_uuid': service_uuid}))
        volume_rows.move(connection, database, row, _Event.MOVE_CLAIMED,
                         migration_status='migrating', **claimed)
    return generation + 1


@storage_db.retried
def unclaim(database: storage_db.Database, volume_id: str, generation: int, lease_seconds: float,
            held: records.Claim | None = None, tried: bool = True,
            say: work.Say = work.silent) -> int:
    """Release the space on the destination pool, so that the volume waits for another pool.

    Data that the volume service may have created on the pool are removed by separate work.

    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :param held: claim on the migration or retype that must be valid; None for any owner
    :param tried: True to exclude the pool from further scheduling. If False, the pool is excluded
        only if a volume service has claimed the work
    :returns: new generation of the volume, or the unchanged one if no space was claimed
    :raises StaleGeneration: another process has continued the work
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, claimed_pool=None)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, *_MOVING)
        mine = held or act(volume_id, _verb(row), generation)
        now = work.read(connection, mine)
        if row.claimed_pool is None:
            return generation
        progress = rows.from_json(now.progress)
        if tried or now.host is not None:
            progress['tried'] = [*progress.get('tried', ()), row.claimed_pool]
        volume_rows.move(connection, database, row, _Event.MOVE_UNCLAIMED,
                         **claims.withdraw(connection, database, row))
        work.place_again(connection, mine, lease_seconds, progress)
        say(connection)
    if mine.verb == 'retype':
        LOG.warning('Rescheduling volume retype%s', log.fields(
            volume_id=volume_id, pool=row.claimed_pool))
    else:
        LOG.warning('Rescheduling volume migration%s', log.fields(
            volume_id=volume_id, pool=row.claimed_pool))
    return generation + 1


@storage_db.retried
def moved(database: storage_db.Database, held: records.Claim) -> None:
    """Record the end of a migration, or of a retype with a migration.

    The volume now belongs to the destination pool, and has the new type of a retype. The data on
    the former pool are removed by separate work.

    :param held: claim on the migration or retype
    :raises StaleGeneration: another process has continued the work; the caller must remove the
        copied data
    :raises VolumeTypeNotFound, VolumeTypeChanged: the new type has changed since the request
    """
    volume_id, generation = held.resource_id, held.generation
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.AVAILABLE)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, *_MOVING)
        progress, kind = _hold_type(connection, held)
        work.read(connection, held)
        work.end(connection, held)
        values = {} if kind is None else volume_types.columns_of(kind)
        volume_rows.release(connection, row)
        _end(connection, database, row, **values, **claims.NONE, pool=row.claimed_pool,
             service_uuid=progress.get('service_uuid'), migration_status='success')
        claims.leave(connection, database, volume_id, row.pool)
    if kind is None:
        log.step(LOG, 'Volume migrated', volume_id=volume_id, pool=row.claimed_pool)
    else:
        log.step(LOG, 'Volume retyped', volume_id=volume_id, pool=row.claimed_pool,
                 volume_type_id=kind.id)


@storage_db.retried
def retyped(database: storage_db.Database, volume_id: str, generation: int) -> int:
    """Record the end of a retype without a migration. The volume now has its new type.

    :returns: new generation of the volume
    :raises StaleGeneration: the volume is not being retyped, or a volume service has accepted the
        work
    :raises VolumeTypeNotFound, VolumeTypeChanged: the new type has changed since the request
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.AVAILABLE)) as connection:
        mine = act(volume_id, 'retype', generation)
        row = volume_rows.lock_at(connection, volume_id, generation, *_MOVING)
        _, kind = _hold_type(connection, mine)
        # If a volume service has accepted the work, it may be copying the volume to another pool.
        work.end_unbegun(connection, mine)
        assert kind is not None
        _end(connection, database, row, **volume_types.columns_of(kind))
    log.step(LOG, 'Volume retyped', volume_id=volume_id, volume_type_id=kind.id)
    return generation + 1


def act(volume_id: str, verb: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the migration or the retype of a volume.

    :param verb: ``migrate`` or ``retype``
    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', volume_id, verb, generation, owner)


def _hold_type(connection: sa.Connection, held: records.Claim,
               ) -> tuple[Mapping[str, Any], records.VolumeType | None]:
    """Lock the new type of a retype until the transaction ends.

    :param held: claim on the migration or retype
    :returns: progress of the work, and the new type; None in place of the type for a migration
    """
    # This is a locking read. After a plain read, MariaDB would show the type as it was at the time
    # of the plain read.
    found = work.find(connection, held.noun, held.resource_id, locked=True)
    progress = {} if found is None else rows.from_json(found.progress)
    if 'type_id' not in progress:
        return progress, None
    volume_types.lock(connection, progress['type_id'])
    # The pool was chosen by the extra specs that the type had at the time of the request.
    kind = volume_types.read(connection, progress['type_id'])
    if (dict(kind.extra_specs), kind.encryption is not None) != (
            progress['specs'], progress['encrypted']):
        raise errors.VolumeTypeChanged(volume_type_id=kind.id)
    return progress, kind


def _end(connection: sa.Connection, database: storage_db.Database, row: Any,
         **values: Any) -> None:
    volume_rows.move(connection, database, row, _Event.RETYPED if row.own_status == _Own.RETYPING
                     else _Event.MIGRATED, **values)


def _verb(row: Any) -> str:
    return 'retype' if row.own_status == _Own.RETYPING else 'migrate'
