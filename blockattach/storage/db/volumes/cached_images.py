"""Cached images: begun, used as sources, and forgotten. Each verb is one transaction.

The volume of one is a volume like others: its removal (`blockattach.storage.db.volumes.volumes`)
takes the row here along. A volume that is being made of it has it as its source until it is there,
so it is not removed meanwhile (`blockattach.storage.db.volumes.sources`).
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
# What its volume has once it is filled: whatever else happens to a volume raises its generation,
# and before a host can write to this one somebody must let it.
_INTACT = sa.and_(_volumes.c.generation <= 2, _volumes.c.readonly == sa.true())
_ENTRIES = sa.select(
    _cached.c.image_id, _cached.c.volume_id, _volumes.c.size_gb, _cached.c.image_updated_at,
    _cached.c.used_at, _volumes.c.status, sa.case((_INTACT, 1), else_=0).label('intact'),
).join(_volumes, _volumes.c.id == _cached.c.volume_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """A cached image as it shall be.

    :ivar beside: the volume that was made of the image: it will be of the same type, and beside it
    :ivar progress: what its filling has to remember
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
    """Write a cached image down whose volume is to be filled by a process instance; None: its pool
    has no room, the image is cached already, or the cache would come to more than it may.

    :raises VolumeTypeNotFound, VolumeTypeChanged: its type has changed meanwhile
    """
    pool, host = draft.beside.pool or '', records.host_of(draft.beside.pool)
    kind, volume_id = volume_types.get(database, draft.beside.volume_type_id), database.new_id()
    claim = records.Claim('volume', volume_id, 'download', 1, owner)
    try:
        with database.writer(storage_db.inserted(_volumes.c.id, volume_id)) as connection:
            # First: others wait here, and then see what has become of this one.
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
        return None
    return claim


@storage_db.retried
def hold(database: storage_db.Database, claim: records.Claim, volume: records.Volume,
         image: images.Image) -> str | None:
    """Let a volume that is being made be made of the cached volume of its image, which stays as it
    is until then; its id, or None: there is none that can be used.

    :raises StaleGeneration: another process has gone on with the new volume
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
    """Let a volume that was to be made of a cached one be made otherwise.

    :raises StaleGeneration: another process has gone on with it
    """
    with database.writer(lambda again: _source_of(
            again, claim.resource_id) is None) as connection:
        _set_source(connection, claim, None)


def on_host(database: storage_db.Database, host: str | None) -> list[image_cache.Entry]:
    """The cached images of a ``host@backend``."""
    with database.reader() as connection:
        return _entries(connection, _cached.c.host == host)


@storage_db.retried
def failed(database: storage_db.Database, claim: records.Claim, seconds: float) -> bool:
    """The volume of a cached image cannot be filled: it is to be removed, and its image is cached
    no more. False: it is another volume, or nothing may be removed there now.

    :raises StaleGeneration: another process went on with it
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
    """Let a volume be one like others, and its image be cached no more."""
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
