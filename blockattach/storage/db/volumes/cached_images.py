"""Cached images: volumes with the data of an image, from which other volumes are created.

Each function that writes does so in one transaction. The volume of a cached image, the cached
volume, is an ordinary volume. When the cached volume is deleted
(`blockattach.storage.db.volumes.volumes`), the row of the cached image is deleted as well. While
another volume is being created from a cached volume, the cached volume is the source of the new
volume, and therefore cannot be deleted (`blockattach.storage.db.volumes.sources`).
"""
import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import image_cache
from blockattach.storage.domain import images
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_cached = models.cached_images
_volumes = models.volumes
_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event
# Condition that a cached volume still has the data of its image. After the download, the volume
# has generation 2, and any later operation increments the generation. No host can write to the
# volume as long as the volume is read-only.
_INTACT = sa.and_(_volumes.c.generation <= 2, _volumes.c.readonly == sa.true())
_ENTRIES = sa.select(
    _cached.c.image_id, _cached.c.volume_id, _volumes.c.size_gb, _cached.c.image_updated_at,
    _cached.c.used_at, _volumes.c.status, sa.case((_INTACT, 1), else_=0).label('intact'),
).join(_volumes, _volumes.c.id == _cached.c.volume_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """Properties of a new cached image.

    :ivar beside: volume that is being created from the image. The cached volume gets the same
        volume type, availability zone and pool
    :ivar size_gb: size of the cached volume in GiB
    :ivar project_id: project that owns the cached volume
    :ivar progress: initial progress of the download
    """

    image: images.Image
    beside: records.Volume
    size_gb: int
    project_id: str
    user_id: str
    progress: Mapping[str, Any]


@storage_db.retried
def begin(database: storage_db.Database, draft: Draft, bounds: image_cache.Bounds, owner: str,
          seconds: float) -> records.Claim | None:
    """Insert a cached image, its cached volume, and the work of downloading the image.

    :param bounds: limits of the cache of the backend
    :param owner: process instance that downloads the image
    :param seconds: seconds until the deadline of the download
    :returns: claim of the process instance on the download. None if the pool has not enough space,
        the image is cached already, or the cache would exceed its bounds
    :raises VolumeTypeNotFound, VolumeTypeChanged: the volume type was deleted or changed in the
        meantime
    """
    pool, host = draft.beside.pool or '', records.host_of(draft.beside.pool)
    kind, volume_id = volume_types.get(database, draft.beside.volume_type_id), database.new_id()
    claim = records.Claim('volume', volume_id, 'download', 1, owner)
    try:
        with database.writer(storage_db.inserted(_volumes.c.id, volume_id)) as connection:
            # This statement is the first, because concurrent transactions wait for its lock. They
            # then see the new cached image when they check the bounds.
            if claims.take(connection, pool, draft.size_gb) is None:
                return None
            volume_rows.insert(
                connection, database, kind, quotas.Limits(draft.project_id, {}),
                _Own.DOWNLOADING, id=volume_id, project_id=draft.project_id,
                user_id=draft.user_id, name=f'image-{draft.image.id}', size_gb=draft.size_gb,
                availability_zone=draft.beside.availability_zone, pool=pool,
                service_uuid=draft.beside.service_uuid, readonly=True)
            connection.execute(_cached.insert().values(
                host=host, image_id=draft.image.id, volume_id=volume_id,
                image_updated_at=image_cache.updated_at(draft.image),
                used_at=database.clock.utcnow()))
            work.begin(connection, database, claim, seconds, host, project_id=draft.project_id,
                       progress=dict(draft.progress))
            if not bounds.allow([entry.size_gb for entry in _entries(
                    connection, _cached.c.host == host)]):
                connection.rollback()
                return None
    except db_exception.DBDuplicateEntry:
        # Another process is caching the same image on this backend.
        return None
    return claim


@storage_db.retried
def hold(database: storage_db.Database, claim: records.Claim, volume: records.Volume,
         image: images.Image) -> str | None:
    """Set the cached volume of an image as the source of a new volume.

    The cached volume cannot be changed or deleted until the new volume is created.

    :param claim: claim on the creation of the new volume
    :param volume: the new volume
    :returns: id of the cached volume; None if the pool of the new volume has no usable cached
        volume of the image
    :raises StaleGeneration: another process has continued the creation of the new volume
    """
    host = records.host_of(volume.pool)
    which = (_cached.c.host == host, _cached.c.image_id == image.id)
    with database.reader() as connection:
        source_id = connection.execute(sa.select(_cached.c.volume_id).join(
            _volumes, _volumes.c.id == _cached.c.volume_id).where(
                *which, _volumes.c.pool == volume.pool)).scalar_one_or_none()
    if source_id is None:
        return None
    with database.writer(lambda again: _source_of(again, volume.id) == source_id) as connection:
        # The cached volume may have been deleted or changed in the meantime. So it is read again
        # under its lock.
        volume_rows.await_others(connection, source_id)
        found = _entries(connection, *which, _cached.c.volume_id == source_id)
        if not found or not image_cache.is_usable(found[0], image, volume.size_gb):
            return None
        connection.execute(_cached.update().where(*which).values(
            used_at=database.clock.utcnow()))
        _set_source(connection, claim, source_id)
    return source_id


@storage_db.retried
def release(database: storage_db.Database, claim: records.Claim) -> None:
    """Clear the source of a new volume that is not created from a cached volume after all.

    :param claim: claim on the creation of the new volume
    :raises StaleGeneration: another process has continued the creation of the new volume
    """
    with database.writer(lambda again: _source_of(
            again, claim.resource_id) is None) as connection:
        _set_source(connection, claim, None)


def on_host(database: storage_db.Database, host: str | None) -> list[image_cache.Entry]:
    """Return the cached images of a backend.

    :param host: ``host@backend``; the result is empty for None
    """
    with database.reader() as connection:
        return _entries(connection, _cached.c.host == host)


@storage_db.retried
def failed(database: storage_db.Database, claim: records.Claim, seconds: float) -> bool:
    """Delete the cached image of a failed download, and start the deletion of its volume.

    :param claim: claim on the download
    :param seconds: seconds until the volume service attempts the deletion of the volume
    :returns: False if the volume is not a cached volume, or its backend is frozen. In these cases,
        nothing is changed
    :raises StaleGeneration: another process has continued the download
    """
    volume_id = claim.resource_id
    with database.writer(volume_rows.stepped(
            volume_id, claim.generation, own_status=_Own.DELETING)) as connection:
        row = volume_rows.lock_at(connection, volume_id, claim.generation, _Own.DOWNLOADING)
        if row.pool is None or volume_rows.is_frozen(connection, row.pool) or not \
                connection.execute(_cached.delete().where(
                    _cached.c.volume_id == volume_id)).rowcount:
            return False
        work.end(connection, claim)
        volume_rows.move(connection, database, row, _Event.FORCE_DELETE)
        removal = claim._replace(verb='delete', generation=claim.generation + 1, owner=None)
        work.begin(connection, database, removal, seconds, records.host_of(row.pool),
                   project_id=row.project_id,
                   progress={'was': _Own.ERROR.value, 'snapshots': {}})
    return True


@storage_db.retried
def forget(database: storage_db.Database, volume_id: str) -> None:
    """Delete the row of the cached image that a volume contains. The volume itself is kept."""
    with database.writer() as connection:
        connection.execute(_cached.delete().where(_cached.c.volume_id == volume_id))


def _entries(connection: sa.Connection,
             *which: sa.ColumnElement[bool]) -> list[image_cache.Entry]:
    return [rows.record(image_cache.Entry, row, intact=bool(row.intact))
            for row in connection.execute(_ENTRIES.where(*which))]


def _set_source(connection: sa.Connection, claim: records.Claim, source_id: str | None) -> None:
    volume_rows.lock_at(connection, claim.resource_id, claim.generation, _Own.CREATING)
    work.read(connection, claim)
    connection.execute(_volumes.update().where(_volumes.c.id == claim.resource_id).values(
        source_volid=source_id))


def _source_of(connection: sa.Connection, volume_id: str) -> str | None:
    row = volume_rows.await_others(connection, volume_id)
    return None if row is None else row.source_volid
