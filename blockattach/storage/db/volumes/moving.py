"""Volumes that go to another backend, or get another type: each verb is one transaction under the
volume's lock.

A scheduler claims the room on a pool, the manager there copies the bytes; until the row names that
pool, the volume is where it was, whole. What is then left on either pool is removed as work of its
own. A type for which the volume may stay where it is needs no manager.
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
    """The type that a volume shall have, as it was judged.

    :ivar may_move: whether another backend may take the volume, if its own one cannot
    """

    kind: records.VolumeType
    may_move: bool


@storage_db.retried
def migrate(database: storage_db.Database, volume: records.Judged, destination: str, lock: bool,
            lease_seconds: float, request_id: str | None = None) -> int:
    """Write down that a volume shall go to another backend; nothing has been asked of any yet.

    :param destination: ``host@backend``, or the name of a pool
    :param lock: clients see it in maintenance meanwhile
    :returns: the volume's new generation
    :raises VolumeNotFound: the volume is gone, or of another project
    :raises InvalidVolume: its status, its attachments, its snapshots or its place do not allow it
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
def retype(database: storage_db.Database, volume: records.Judged, wanted: Retyping,
           lease_seconds: float, request_id: str | None = None) -> int:
    """Write down that a volume shall have another type; it has the one that it had until then.

    :returns: the volume's new generation
    :raises InvalidVolume: its status or its attachments do not allow it
    :raises VolumeTypeNotFound, VolumeTypeChanged: the type is not what was judged
    :raises QuotaExceeded: the project may not have so much of the type
    :raises VolumeNotFound: the volume is gone, or of another project
    """
    volume_id = volume.id
    limits = quotas.limits(database, volume.project_id)
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, row.generation, own_status=_Own.RETYPING)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        # Before the first plain read, after which MariaDB shows no commit of others.
        quotas.lock(connection, row.project_id)
        volume_types.hold(connection, wanted.kind)
        quotas.check_retype(connection, database, limits, row, wanted.kind.id)
        move_rules.check_retype(connection, row, wanted.kind)
        volume_rows.move(connection, database, row, _Event.RETYPE)
        work.begin(connection, database, act(volume_id, 'retype', row.generation + 1),
                   lease_seconds, request_id=request_id, project_id=row.project_id, progress={
                       'type_id': wanted.kind.id, 'specs': dict(wanted.kind.extra_specs),
                       'encrypted': wanted.kind.encryption is not None,
                       'moves': wanted.may_move and move_rules.may_leave(connection, row)})
    log.step(LOG, 'Retyping volume', volume_id=volume_id,
             volume_type_id=wanted.kind.id)
    return int(row.generation) + 1


@storage_db.retried
def claim(database: storage_db.Database, volume_id: str, generation: int, pool: str,
          service_uuid: str | None) -> int | None:
    """Claim the room of the whole volume on another pool.

    :returns: the volume's new generation; None when the pool has no room left
    :raises StaleGeneration: it is not waiting for a pool
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, claimed_pool=pool)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, *_MOVING)
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
    """Give the claimed room back; the volume waits for another pool, and what a manager may have
    made on this one is removed.

    :param held: only if that owner has the work; None: whichever has it
    :param tried: False: the pool may be chosen again, unless a manager has taken it on
    :returns: the volume's generation from then on; nothing claimed: the same
    :raises StaleGeneration: another process has gone on with it
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
    LOG.warning('Rescheduling volume migration or retype%s',
                log.fields(volume_id=volume_id, pool=row.claimed_pool))
    return generation + 1


@storage_db.retried
def moved(database: storage_db.Database, held: records.Claim) -> None:
    """Another backend has all its bytes: the volume is there from now on, and has its type. What
    is left where it was is removed as work.

    :raises StaleGeneration: another process went on with it; what was made must be removed
    :raises VolumeTypeNotFound, VolumeTypeChanged: its new type is not what was judged
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
    """Its own pool does what the new type asks for: the volume has it.

    :returns: the volume's new generation
    :raises StaleGeneration: it is not waiting for a pool
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.AVAILABLE)) as connection:
        mine = act(volume_id, 'retype', generation)
        row = volume_rows.lock_at(connection, volume_id, generation, *_MOVING)
        _, kind = _hold_type(connection, mine)
        work.end_unbegun(connection, mine)
        assert kind is not None
        _end(connection, database, row, **volume_types.columns_of(kind))
    log.step(LOG, 'Volume retyped', volume_id=volume_id, volume_type_id=kind.id)
    return generation + 1


def act(volume_id: str, verb: str, generation: int, owner: str | None = None) -> records.Claim:
    """The act: ``migrate``, or ``retype``."""
    return records.Claim('volume', volume_id, verb, generation, owner)


def _hold_type(connection: sa.Connection, held: records.Claim,
               ) -> tuple[Mapping[str, Any], records.VolumeType | None]:
    """What the act remembers, and the type that the volume gets, if any, kept as it is."""
    # A locking read: after a plain one, MariaDB would show the type as it was at that time.
    found = work.find(connection, held.noun, held.resource_id, locked=True)
    progress = {} if found is None else rows.from_json(found.progress)
    if 'type_id' not in progress:
        return progress, None
    volume_types.lock(connection, progress['type_id'])
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
