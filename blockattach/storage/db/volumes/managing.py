"""Volumes that are taken from storage which lies on a pool already: each verb is one transaction
under the volume's lock.

A volume that is managed has no size until its manager has looked: what lies there counts as
claimed on the pool from then on, and as the volume's once it is the volume's.
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
    """A volume as it was asked for. ``reference`` is what its bytes are called on the pool."""

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
    """Write down that something on a pool shall be a volume; nothing has been asked there yet.

    :raises VolumeTypeNotFound, VolumeTypeChanged: its type is not what it was
    :raises QuotaExceeded: its project has as many volumes as it may
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
    """Its pool will do; what it has there already needs no room.

    :returns: its generation from then on; as it was, where a manager has begun
    :raises StaleGeneration: it is not being managed
    """
    with database.writer(volume_rows.stepped(volume_id, generation)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, _Own.MANAGING)
        at_work = work.find(connection, 'volume', volume_id)
        if at_work is not None and at_work.host is not None:
            return generation
        volume_rows.move(connection, database, row, _Event.MANAGE_CLAIMED)
    return generation + 1


@storage_db.retried
def found(database: storage_db.Database, held: records.Claim, size_gb: int) -> None:
    """Its manager has seen how large it is: from now on that counts on the pool, and in the
    project. A repeat finds it counted.

    :raises QuotaExceeded, VolumeSizeExceedsLimit: the project may not have so much
    :raises StaleGeneration: another process went on with it
    """
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
    """The act of taking it over."""
    return records.Claim('volume', volume_id, 'manage', generation, owner)
