"""What is said of a volume from outside its life: the read-only flag, what is true of it."""
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
        connection.execute(_volumes.update().where(_volumes.c.id == volume_id).values(
            readonly=readonly, updated_at=database.clock.utcnow()))


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
