"""Extension of volumes.

Each function that writes does so in one transaction under the lock of the volume. A scheduler
claims the additional space on the pool of the volume, and the volume service extends the volume.
The notification of servers about the new size is separate work, so that other operations on the
volume need not wait for the notification.
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
    """Start the extension of a volume. The space on the pool is not claimed yet.

    :param new_size: new size of the volume in GiB
    :param expected: status that the volume must have, ``available`` or ``in-use``
    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :returns: new generation of the volume
    :raises InvalidInput: the new size is not greater than the present size
    :raises InvalidVolume: the volume has another status, or an operation is in progress
    :raises QuotaExceeded, VolumeSizeExceedsLimit: the new size exceeds a quota of the project
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
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
        # The additional size counts in the quota of the project from now on, although no space on
        # the pool is claimed yet.
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
    """Claim the additional space for an extension on the pool of the volume.

    :param gb: additional space in GiB
    :returns: new generation of the volume, or the unchanged one if an earlier call has claimed the
        space; None if the pool has not enough space
    :raises StaleGeneration: the volume is not being extended, or has another generation
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, claimed_pool=pool)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, _Own.EXTENDING)
        if row.claimed_pool is not None:
            # The call was repeated. The space must not be claimed twice.
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
    """Record that the backend has extended a volume. The claimed space now belongs to the volume.

    :param held: claim on the extension
    :param notify_seconds: seconds until the deadline for notifying the servers that use the
        volume; None if servers are not notified of new sizes
    :returns: claim on the notification, with the owner of ``held``; None if no server is to be
        notified
    :raises StaleGeneration: another process has continued the extension
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
    """Return the ids of the servers that have a connected or attached attachment of a volume."""
    with database.reader() as connection:
        return volume_queries.servers(connection, volume_id)


def extension(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on extending a volume.

    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', volume_id, 'extend', generation, owner)


def notification(volume_id: str, owner: str | None = None) -> records.Claim:
    """Return the claim on notifying servers of the new size of a volume.

    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', f'{volume_id}@servers', 'notify', 0, owner)
