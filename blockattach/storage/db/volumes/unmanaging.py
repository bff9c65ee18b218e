"""Start of unmanage operations, which delete a volume but keep its storage on the backend."""


import logging

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event


@storage_db.retried
def start(database: storage_db.Database, volume: records.Judged, lease_seconds: float,
          request_id: str | None = None) -> records.Claim | None:
    """Start the unmanage operation of a volume. A volume without a pool is deleted at once.

    :param lease_seconds: seconds until the deadline of the operation
    :returns: claim on the operation, without an owner; None if the volume had no pool. The volume
        is then deleted already
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidInput: the volume is encrypted
    :raises InvalidVolume: the status of the volume does not allow the operation, the volume has
        attachments or snapshots, the volume is a cached image, or another volume is being created
        from the volume
    """
    volume_id = volume.id
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, row.generation, own_status=own_status)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        own_status = _Own.GONE if row.pool is None else _Own.UNMANAGING
        if row.encrypted:
            raise errors.InvalidInput('Unmanaging encrypted volumes is not supported.')
        if row.own_status not in volume_lifecycle.UNMANAGEABLE or row.lowest_rank is not None \
                or row.migration_status in volume_lifecycle.MOVING \
                or any(snapshot_rows.dependants(connection, volume_id)):
            raise errors.InvalidVolume(reason=volumes.NOT_DELETABLE)
        if row.pool is None:
            volume_rows.remove(connection, database, row, _Event.DISCARD)
            return None
        volume_rows.move(connection, database, row, _Event.UNMANAGE)
        claim = unmanagement(volume_id, row.generation + 1)
        work.begin(connection, database, claim, lease_seconds, records.host_of(row.pool),
                   request_id=request_id, project_id=row.project_id,
                   progress={'was': row.own_status})
    log.step(LOG, 'Unmanaging volume', volume_id=volume_id, pool=row.pool)
    return claim


def unmanagement(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the unmanage operation of a volume.

    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', volume_id, 'unmanage', generation, owner)
