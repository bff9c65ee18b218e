"""Announced detaches of a volume (os-begin_detaching, os-roll_detaching).

The volume stores the number of detaches that were announced and have not started yet. No
attachment is changed. When a detach starts, `blockattach.storage.db.attachments.attachments.move`
decrements the number.
"""
import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records

_volumes = models.volumes


def announced(database: storage_db.Database, volume_id: str) -> int:
    """Return the number of announced detaches of a volume that have not started yet.

    The number is 0 if there is no such live volume.
    """
    with database.reader() as connection:
        return connection.execute(sa.select(_volumes.c.detach_announced).where(
            _volumes.c.id == volume_id, volume_rows.LIVE)).scalar() or 0


@storage_db.retried
def announce(database: storage_db.Database, volume: records.Judged) -> None:
    """Announce the detach of one more attachment of a volume (os-begin_detaching).

    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume has no attached attachment, or a detach is already announced
        for each attached attachment
    """
    with database.writer(lambda again: _announced(
            again, volume.id, row.detach_announced + 1)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        if row.detach_announced >= volume_rows.attached_count(connection, volume.id):
            raise errors.InvalidVolume(
                reason=f"Unable to detach volume. Volume status must be 'in-use' and "
                       f"attach_status must be 'attached' to detach. Currently: status: "
                       f"'{row.status}', attach_status: '{row.attach_status}'.")
        volume_rows.store_rank(connection, database, row, row.lowest_rank,
                               row.detach_announced + 1, detach_announced_at=clock.Later(0))


@storage_db.retried
def cancel(database: storage_db.Database, volume: records.Judged) -> None:
    """Withdraw one announced detach of a volume, if there is any (os-roll_detaching).

    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    """
    with database.writer(lambda again: _announced(
            again, volume.id, max(row.detach_announced - 1, 0))) as connection:
        row = volume_rows.lock_judged(connection, volume)
        volume_rows.store_rank(connection, database, row, row.lowest_rank,
                               row.detach_announced - 1)


def lapse(database: storage_db.Database, host: str, seconds: float) -> list[str]:
    """Withdraw all announced detaches of volumes whose last announcement is too old.

    :param host: ``host@backend`` of the volumes
    :param seconds: age, in database time, from which the last announcement is too old
    :returns: ids of the volumes whose announced detaches were withdrawn
    """
    with database.reader() as connection:
        found = list(connection.execute(sa.select(_volumes.c.id).where(
            volume_rows.LIVE, services.on_host(host), _is_old(seconds))).scalars())
    return [volume_id for volume_id in found if _lapse(database, volume_id, seconds)]


@storage_db.retried
def _lapse(database: storage_db.Database, volume_id: str, seconds: float) -> bool:
    with database.writer() as connection:
        # The age is checked again under the lock, because another detach may have been announced
        # since the query.
        row = connection.execute(_volumes.select().where(
            _volumes.c.id == volume_id, volume_rows.LIVE, _is_old(seconds),
        ).with_for_update()).one_or_none()
        if row is not None:
            volume_rows.store_rank(connection, database, row, row.lowest_rank, 0)
        return row is not None


def _is_old(seconds: float) -> sa.ColumnElement[bool]:
    return sa.and_(_volumes.c.detach_announced > 0,
                   _volumes.c.detach_announced_at <= clock.now(-seconds))


def _announced(connection: sa.Connection, volume_id: str, number: int) -> bool:
    return rows.holds(volume_rows.await_others(connection, volume_id),
                      {'detach_announced': number})
