"""Announced detaches: os-begin_detaching and its undoing. They touch no attachment.

A detach that begins takes one off again (`blockattach.db.attachments.move`).
"""
import sqlalchemy as sa

from blockattach import errors
from blockattach.db import engine
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.db.models import volume

_volumes = volume.volumes


def announced(database: engine.Database, volume_id: str) -> int:
    """How many detaches of a live volume are announced and have not begun."""
    with database.reader() as connection:
        return connection.execute(sa.select(_volumes.c.detach_announced).where(
            _volumes.c.id == volume_id, volume_rows.LIVE)).scalar() or 0


@engine.retried
def announce(database: engine.Database, volume_id: str) -> None:
    """One more attached row is going to be detached.

    :raises InvalidVolume: there is none left that was not announced
    """
    with database.writer(lambda again: _announced(
            again, volume_id, row.detach_announced + 1)) as connection:
        row = volume_rows.lock(connection, volume_id)
        if row.detach_announced >= volume_rows.attached_count(connection, volume_id):
            raise errors.InvalidVolume(
                reason=f"Unable to detach volume. Volume status must be 'in-use' and "
                       f"attach_status must be 'attached' to detach. Currently: status: "
                       f"'{row.status}', attach_status: '{row.attach_status}'.")
        volume_rows.store_rank(connection, database, row, row.lowest_rank,
                               row.detach_announced + 1)


@engine.retried
def withdraw(database: engine.Database, volume_id: str) -> None:
    """One of the announced detaches will not come; without any this changes nothing."""
    with database.writer(lambda again: _announced(
            again, volume_id, max(row.detach_announced - 1, 0))) as connection:
        row = volume_rows.lock(connection, volume_id)
        volume_rows.store_rank(connection, database, row, row.lowest_rank,
                               row.detach_announced - 1)


def _announced(connection: sa.Connection, volume_id: str, number: int) -> bool:
    return rows.holds(volume_rows.await_others(connection, volume_id),
                      {'detach_announced': number})
