"""Sources of volumes: volumes and snapshots from which other volumes are being created.

A source must not be deleted or migrated until the new volume is created. Therefore a function that
creates a volume from a source locks the source first. A function that deletes or migrates a volume
or a snapshot also locks this resource, and checks under the lock whether the resource is a source.
The check is `blockattach.storage.db.volumes.snapshot_rows.dependants` for a volume, and
`is_snapshot_copied` for a snapshot.
"""
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import sources
from blockattach.storage.domain import volume_lifecycle

Source = sources.Source
_volumes = models.volumes
_snapshots = models.snapshots
_image = models.volume_image_metadata
_CREATING = volume_lifecycle.OwnStatus.CREATING.value
_DELETING = volume_lifecycle.OwnStatus.DELETING.value
_source = sa.alias(_volumes, 'source')
# Conditions on the copy do not exclude deleted volumes, because the own status of a deleted volume
# is not creating.
_copy = sa.alias(_volumes, 'copy')
IS_COPY = sa.and_(_volumes.c.own_status == _CREATING, sa.or_(
    _volumes.c.source_volid.is_not(None), _volumes.c.snapshot_id.is_not(None)))
"""Condition for volumes that are being created from a source."""
SOURCE_POOL = sa.func.coalesce(
    sa.select(_source.c.pool).where(
        _source.c.id == _volumes.c.source_volid, _source.c.deleted == sa.false(),
        _source.c.own_status != _DELETING).scalar_subquery(),
    sa.select(_snapshots.c.pool).where(
        _snapshots.c.id == _volumes.c.snapshot_id, models.live(_snapshots),
        _snapshots.c.status != _DELETING).scalar_subquery())
"""Pool of the source of a volume; NULL if the source is deleted or being deleted."""


def snapshot(database: storage_db.Database, snapshot_id: str) -> sources.Source:
    """Return a live snapshot as the source of a volume.

    :raises SnapshotNotFound: there is no such live snapshot
    """
    with database.reader() as connection:
        return _source_of(_snapshot(connection, _snapshots.select(), snapshot_id))


def hold(connection: sa.Connection, source: sources.Source, size_gb: int) -> Mapping[str, Any]:
    """Lock the source of a new volume until the transaction ends, and check the source again.

    Call this function before any other statement of the transaction.

    :param source: source for which the request was authorized
    :param size_gb: size of the new volume in GiB
    :returns: columns of the new volume that depend on the source
    :raises VolumeNotFound, SnapshotNotFound: the source is deleted, or belongs to another project
        now
    :raises VolumeTypeChanged: the type of the source has changed since the request was authorized
    :raises InvalidVolume: the source is being migrated
    :raises InvalidVolume, InvalidSnapshot, InvalidInput: see
        `blockattach.storage.domain.sources.check`
    """
    if source.snapshot_id is None:
        row = volume_rows.lock_judged(connection, source)
        if row.own_status == volume_lifecycle.OwnStatus.MIGRATING:
            raise errors.InvalidVolume(
                reason=f'Volume {row.id} is being migrated. Retry when the migration has '
                       f'finished.')
        # The claim updates the source, so that a deletion on another node of the database
        # conflicts.
        volume_rows.claim(connection, row)
        now = rows.record(sources.Source, row, volume_id=row.id, snapshot_id=None)
    else:
        # These are locking reads. After a plain read, MariaDB would show the volume type, which is
        # read later in this transaction, as it was at the time of the plain read.
        row = connection.execute(_volumes.select().where(
            _volumes.c.id == source.volume_id).with_for_update(read=True)).one()
        found = _snapshot(connection, _snapshots.select().with_for_update(), source.snapshot_id)
        rows.check_judged(found, source, errors.SnapshotNotFound(snapshot_id=source.snapshot_id))
        rows.advance(connection, _snapshots, found)
        now = _source_of(found)
    # The request was authorized and checked with the former type.
    if now.volume_type_id != source.volume_type_id:
        raise errors.VolumeTypeChanged(volume_type_id=source.volume_type_id)
    sources.check(now, size_gb)
    return {**source.columns, 'bootable': row.bootable}


def copy_image(connection: sa.Connection, source: sources.Source, volume_id: str) -> None:
    """Copy the image metadata of a source, or of the volume of a snapshot, to a new volume."""
    connection.execute(_image.insert().from_select(
        ['volume_id', 'key', 'value'],
        sa.select(sa.literal(volume_id), _image.c.key, _image.c.value).where(
            _image.c.volume_id == source.volume_id)))


def is_copied(volume_id: sa.ColumnElement[str]) -> sa.Exists:
    """Return the condition that another volume is being created from a volume.

    :param volume_id: column with the id of the source volume
    """
    return sa.exists().where(_copy.c.source_volid == volume_id, _copy.c.own_status == _CREATING)


def is_snapshot_copied(connection: sa.Connection, snapshot_id: str) -> bool:
    """Return True if a volume is being created from a locked snapshot."""
    return connection.execute(sa.select(_copy.c.id).where(
        _copy.c.snapshot_id == snapshot_id, _copy.c.own_status == _CREATING,
    ).limit(1)).first() is not None


def _snapshot(connection: sa.Connection, query: sa.Select[Any],
              snapshot_id: str) -> sa.Row[Any]:
    row = connection.execute(query.where(
        _snapshots.c.id == snapshot_id, models.live(_snapshots))).one_or_none()
    if row is None:
        raise errors.SnapshotNotFound(snapshot_id=snapshot_id)
    return row


def _source_of(row: sa.Row[Any]) -> sources.Source:
    return rows.record(sources.Source, row, snapshot_id=row.id)
