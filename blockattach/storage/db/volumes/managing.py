"""Manage operations, by which existing storage on a pool becomes a volume.

Each function that writes does so in one transaction. At first, the size of the volume is 0. When
the volume service has determined the size of the storage, this size is claimed on the pool. At the
end of the operation, the claimed size becomes the size of the volume.
"""
import dataclasses
import logging
from collections.abc import Mapping

from blockattach.platform import log
from blockattach.storage.db import models
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

_volumes = models.volumes
_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """Requested properties of a managed volume.

    :ivar kind: volume type for which the request was authorized
    :ivar pool: ``host@backend#pool`` of the existing storage
    :ivar reference: name of the existing storage on the pool
    """

    project_id: str
    user_id: str
    name: str | None
    description: str | None
    kind: records.VolumeType
    availability_zone: str
    metadata: Mapping[str, str]
    bootable: bool
    pool: str
    service_uuid: str | None
    reference: str
    request_id: str | None = None


@storage_db.retried
def start(database: storage_db.Database, draft: Draft,
          lease_seconds: float) -> records.Volume:
    """Insert a volume, and the work of managing existing storage. The backend is not called yet.

    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :raises VolumeTypeNotFound, VolumeTypeChanged: the volume type has changed since the request
        was authorized
    :raises QuotaExceeded: the project has reached its quota of volumes
    """
    volume_id = database.new_id()
    limits = volume_rows.limits(database, draft.project_id)
    with database.writer(storage_db.inserted(_volumes.c.id, volume_id)) as connection:
        row = volume_rows.insert(
            connection, database, draft.kind, limits, _Own.MANAGING, id=volume_id,
            project_id=draft.project_id, user_id=draft.user_id, name=draft.name,
            description=draft.description, size_gb=0, availability_zone=draft.availability_zone,
            bootable=draft.bootable, pool=draft.pool, service_uuid=draft.service_uuid)
        work.begin(connection, database, management(volume_id, 1), lease_seconds,
                   request_id=draft.request_id, project_id=draft.project_id,
                   progress={'reference': draft.reference})
        if draft.metadata:
            connection.execute(models.volume_metadata.insert(), [
                {'volume_id': volume_id, 'key': key, 'value': value}
                for key, value in draft.metadata.items()])
    log.step(LOG, 'Managing volume', volume_id=volume_id, pool=draft.pool)
    return rows.made_volume(row, draft.kind, draft.metadata)


@storage_db.retried
def claim(database: storage_db.Database, volume_id: str, generation: int) -> int:
    """Record that the scheduler accepts the pool of a volume that is being managed.

    No space is claimed, because the storage exists already.

    :returns: new generation of the volume, or the unchanged one if a volume service has claimed
        the operation already
    :raises StaleGeneration: the volume is not being managed, or has another generation
    """
    with database.writer(volume_rows.stepped(volume_id, generation)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, _Own.MANAGING)
        at_work = work.find(connection, 'volume', volume_id)
        if at_work is not None and at_work.host is not None:
            # The call was repeated. With a new generation, the volume service would lose its
            # claim.
            return generation
        volume_rows.move(connection, database, row, _Event.MANAGE_CLAIMED)
    return generation + 1


@storage_db.retried
def found(database: storage_db.Database, held: records.Claim, size_gb: int) -> None:
    """Claim the size of the storage that is being managed, as determined by the volume service.

    From now on, the size counts on the pool and in the quota of the project. A repeated call
    changes nothing.

    :param held: claim of the volume service on the manage operation
    :param size_gb: size of the storage in GiB
    :raises QuotaExceeded, VolumeSizeExceedsLimit: the size exceeds a quota of the project
    :raises StaleGeneration: another process has continued the operation
    """
    # Limits must be read before the transaction begins, see `quotas`.
    volume = volume_queries.get_bare(database, held.resource_id)
    limits = quotas.limits(database, volume.project_id)
    with database.writer(lambda again: rows.holds(
            volume_rows.await_others(again, volume.id),
            {'generation': held.generation, 'claimed_gb': size_gb})) as connection:
        row = volume_rows.lock_at(connection, held.resource_id, held.generation, _Own.MANAGING)
        work.read(connection, held)
        if row.claimed_pool is not None:
            return
        quotas.check_growth(connection, database, limits, row, size_gb)
        connection.execute(_volumes.update().where(_volumes.c.id == row.id).values(
            **claims.hold(connection, row.pool, size_gb)))


def management(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the manage operation that creates a volume.

    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', volume_id, 'manage', generation, owner)
