"""What is said of a volume from outside its life: the read-only flag, the mode of os-attach."""
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import engine
from blockattach.db import volume_rows
from blockattach.db.models import volume
from blockattach.domain import volume_lifecycle

_volumes = volume.volumes


@engine.retried
def set_readonly(database: engine.Database, volume_id: str, readonly: bool) -> None:
    """Let attachments made from now on read only, or not.

    :raises InvalidVolume: it is in use
    """
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        if row.status != volume_lifecycle.OwnStatus.AVAILABLE:
            raise errors.InvalidVolume(
                reason=f'Volume {volume_id} status must be available to update readonly flag, '
                       f'but current status is: {row.status}.')
        _write(connection, database, volume_id, readonly=readonly)


@engine.retried
def note_attached(database: engine.Database, volume_id: str, mode: str) -> None:
    """os-attach leaves its mode; a volume whose read-only flag was never set gets one, unset."""
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        _write(connection, database, volume_id, attached_mode=mode,
               readonly=False if row.readonly is None else row.readonly)


@engine.retried
def forget_attached(database: engine.Database, volume_id: str) -> None:
    """The mode of os-attach goes with a detach."""
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        if row.attached_mode is not None:
            _write(connection, database, volume_id, attached_mode=None)


@engine.retried
def reset_own_status(database: engine.Database, volume_id: str,
                     own_status: volume_lifecycle.OwnStatus,
                     forget_announced: bool = False) -> None:
    """An administrator says what is true of the volume's own life.

    :param forget_announced: the detaches that were announced will not come
    """
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        if forget_announced and row.detach_announced:
            volume_rows.store_rank(connection, database, row, row.lowest_rank, 0)
            row = volume_rows.lock(connection, volume_id)
        volume_rows.store_own_status(connection, database, row, own_status, owner=None,
                                     deadline=None)


def _write(connection: sa.Connection, database: engine.Database, volume_id: str,
           **values: Any) -> None:
    connection.execute(_volumes.update().where(_volumes.c.id == volume_id).values(
        updated_at=database.clock.utcnow(), **values))
