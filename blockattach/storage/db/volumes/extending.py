"""Volumes that become larger: each verb is one transaction under the volume's lock.

A scheduler claims the room on the volume's own pool, the manager there makes the volume larger.
What servers that use it must be informed of is work of its own: the volume is in use meanwhile.
"""


import logging

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event


@storage_db.retried
def start(database: storage_db.Database, volume: records.Judged, new_size: int, expected: str,
          lease_seconds: float, request_id: str | None = None) -> int:
    """Write down that a volume shall be larger; no pool has been asked for the room yet.

    :param expected: the status that it must have: available, or in-use
    :returns: the volume's new generation
    :raises InvalidInput: it is not smaller
    :raises InvalidVolume: its status does not allow it
    :raises QuotaExceeded, VolumeSizeExceedsLimit: the project may not have so much
    :raises VolumeNotFound: the volume is gone, or of another project
    """
    volume_id = volume.id
    limits = quotas.limits(database, volume.project_id)
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, row.generation, own_status=_Own.EXTENDING)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        if new_size <= row.size_gb:
            raise errors.InvalidInput(
                reason=f'Invalid input received: New size for extend must be greater than current '
                       f'size. (current: {row.size_gb}, extended: {new_size}).')
        if row.status != expected or row.own_status != _Own.AVAILABLE:
            raise errors.InvalidVolume(
                reason=f"Volume {volume_id} status must be '{ {'status': expected} }' to extend, "
                       f'currently {row.status}.')
        quotas.check_growth(connection, database, limits, row, new_size)
        # It counts from now on, whichever pool has the room.
        volume_rows.move(connection, database, row, _Event.EXTEND,
                         claimed_gb=new_size - row.size_gb)
        work.begin(connection, database, extension(volume_id, row.generation + 1), lease_seconds,
                   request_id=request_id, project_id=row.project_id,
                   progress={'new_size': new_size})
    log.step(LOG, 'Extending volume', volume_id=volume_id, size_gb=new_size)
    return int(row.generation) + 1


@storage_db.retried
def claim(database: storage_db.Database, volume_id: str, generation: int, pool: str,
          gb: int) -> int | None:
    """Claim the room that it needs besides, on its pool. A repeat finds it claimed.

    :returns: the volume's generation from then on; None when the pool has no room left
    :raises StaleGeneration: it is not waiting for room
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, claimed_pool=pool)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, _Own.EXTENDING)
        if row.claimed_pool is not None:
            return generation
        claimed = claims.take(connection, pool, gb)
        if claimed is None:
            connection.rollback()
            return None
        volume_rows.move(connection, database, row, _Event.EXTEND_CLAIMED, **claimed)
    return generation + 1


@storage_db.retried
def extended(database: storage_db.Database, held: records.Claim, notify_seconds: float | None,
             ) -> records.Claim | None:
    """The backend has made it larger: what was claimed is the volume's now.

    :param notify_seconds: how long its owner may take to notify the servers that use it; None:
        nobody notifies servers
    :returns: what notifies them, its owner's already; None: no server uses it
    :raises StaleGeneration: another process went on with it
    """
    volume_id, generation = held.resource_id, held.generation
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.AVAILABLE)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, _Own.EXTENDING)
        found = work.read(connection, held)
        work.end(connection, held)
        volume_rows.move(connection, database, row, _Event.EXTENDED, **claims.NONE,
                         size_gb=rows.from_json(found.progress)['new_size'])
        using = notify_seconds is not None and volume_queries.servers(connection, volume_id)
        if using:
            work.replace(connection, database, notification(volume_id, held.owner),
                         notify_seconds or work.PASSED, found.host, request_id=found.request_id,
                         project_id=row.project_id)
    log.step(LOG, 'Volume extended', volume_id=volume_id, pool=row.pool)
    return notification(volume_id, held.owner) if using else None


def servers(database: storage_db.Database, volume_id: str) -> list[str]:
    """The servers whose hosts have a volume connected."""
    with database.reader() as connection:
        return volume_queries.servers(connection, volume_id)


def extension(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """The act of making it larger."""
    return records.Claim('volume', volume_id, 'extend', generation, owner)


def notification(volume_id: str, owner: str | None = None) -> records.Claim:
    """That the servers which use a volume are notified of its size."""
    return records.Claim('volume', f'{volume_id}@servers', 'notify', 0, owner)
