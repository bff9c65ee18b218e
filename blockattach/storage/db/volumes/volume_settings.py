"""Changes of the name, description, bootable flag and metadata of a volume.

No backend uses these values. Each change is one transaction under the lock of the volume.
"""
import logging
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_volumes = models.volumes
_Own = volume_lifecycle.OwnStatus

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Function that computes the new metadata from the present metadata.

The function may be called repeatedly, and may raise.
"""


@storage_db.retried
def update(database: storage_db.Database, volume: records.Judged, values: Mapping[str, Any],
           metadata: Mapping[str, str] | None = None) -> records.Volume:
    """Update the ``name``, ``description`` or ``bootable`` columns of a volume, and its metadata.

    :param values: new values of the columns
    :param metadata: metadata that replace all present metadata; None to leave them unchanged
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume is in maintenance
    """
    volume_id = volume.id
    with database.writer() as connection:
        row = volume_rows.lock_judged(connection, volume)
        if row.own_status == _Own.MAINTENANCE:
            raise errors.InvalidVolume(
                reason='The volume cannot be updated during maintenance.')
        volume_rows.update(connection, row, **values, updated_at=database.clock.utcnow())
        if metadata is not None:
            _replace(connection, models.volume_metadata, volume_id, metadata)
        changed = volume_queries.read(connection, volume_id)
    log.step(LOG, 'Volume updated', volume_id=volume_id,
             keys=','.join([*values, *(['metadata'] if metadata else [])]))
    return changed


@storage_db.retried
def change_metadata(database: storage_db.Database, volume: records.Judged,
                    change: Change) -> Mapping[str, str]:
    """Change the metadata of a volume, and return the resulting metadata.

    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume is in maintenance or being uploaded
    """
    with database.writer() as connection:
        changed = _change(connection, models.volume_metadata, volume, change)
    log.step(LOG, 'Volume metadata updated', volume_id=volume.id)
    return changed


@storage_db.retried
def change_image_metadata(database: storage_db.Database, volume: records.Judged,
                          change: Change) -> Mapping[str, str]:
    """Change the image metadata of a volume, and return the resulting metadata.

    Raises the errors of `change_metadata`.
    """
    with database.writer() as connection:
        changed = _change(connection, models.volume_image_metadata, volume, change)
    log.step(LOG, 'Volume image metadata updated', volume_id=volume.id)
    return changed


def _change(connection: sa.Connection, table: sa.Table, volume: records.Judged,
            change: Change) -> Mapping[str, str]:
    row = volume_rows.lock_judged(connection, volume)
    if row.own_status in (_Own.MAINTENANCE, _Own.UPLOADING):
        raise errors.InvalidVolume(
            reason=f'Updating volume metadata is not allowed for volumes in {row.own_status} '
                   f'status.')
    volume_rows.claim(connection, row)
    changed = change(_read(connection, table, row.id))
    _replace(connection, table, row.id, changed)
    return changed


def _read(connection: sa.Connection, table: sa.Table, volume_id: str) -> dict[str, str]:
    return {row.key: row.value for row in connection.execute(
        sa.select(table.c.key, table.c.value).where(table.c.volume_id == volume_id))}


def _replace(connection: sa.Connection, table: sa.Table, volume_id: str,
             pairs: Mapping[str, str]) -> None:
    """Replace the metadata of a volume, writing only the differences."""
    before = _read(connection, table, volume_id)
    old = [key for key, value in before.items() if pairs.get(key) != value]
    if old:
        connection.execute(table.delete().where(
            table.c.volume_id == volume_id, table.c.key.in_(old)))
    new = [{'volume_id': volume_id, 'key': key, 'value': value}
           for key, value in pairs.items() if before.get(key) != value]
    if new:
        connection.execute(table.insert(), new)
