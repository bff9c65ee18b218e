"""Transfers of volumes to other projects: creation, deletion and acceptance.

Each of these operations also changes the own status of the volume, in the same transaction.
"""
import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import quotas as quota_rules
from blockattach.storage.domain import records
from blockattach.storage.domain import transfers
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_rows = models.transfers
_volumes = models.volumes
_snapshots = models.snapshots
_Event = volume_lifecycle.Event
_Own = volume_lifecycle.OwnStatus
_AVAILABLE = 'available'
"""Status that each snapshot of a transfer must have."""
# A transfer is void if an administrator has reset the status of the volume, or deleted the volume
# by force.
_OFFERED = sa.exists().where(_volumes.c.id == _rows.c.volume_id,
                             _volumes.c.own_status == _Own.AWAITING_TRANSFER.value)

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'name': _rows.c.name,
    'display_name': _rows.c.name, 'volume_id': _rows.c.volume_id}
"""Columns by which transfer lists can be sorted and filtered, by their names in the API."""


@storage_db.retried
def create(database: storage_db.Database, volume: records.Judged, name: str | None,
           no_snapshots: bool, sealed: str) -> transfers.Transfer:
    """Create a transfer, by which another project can accept a volume.

    :param no_snapshots: True to transfer the volume without its snapshots
    :param sealed: authorization key, sealed by `blockattach.storage.domain.transfers.seal`
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume is not available
    :raises InvalidSnapshot: a snapshot that belongs to the transfer is not available
    """
    new_id = database.new_id()
    with database.writer(storage_db.inserted(_rows.c.id, new_id)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        if row.lowest_rank is not None or row.own_status != _Own.AVAILABLE:
            raise errors.InvalidVolume(reason='status must be available')
        for snapshot in () if no_snapshots else _lock_snapshots(connection, row):
            if snapshot.status != _AVAILABLE:
                raise errors.InvalidSnapshot(
                    reason=f'snapshot: {snapshot.id} status must be available')
        # Delete an earlier, void transfer of the volume.
        connection.execute(_rows.delete().where(_rows.c.volume_id == row.id))
        volume_rows.move(connection, database, row, _Event.OFFER)
        values = {'id': new_id, 'volume_id': row.id, 'project_id': row.project_id,
                  'name': name, 'no_snapshots': no_snapshots, 'sealed': sealed,
                  'created_at': database.clock.utcnow()}
        connection.execute(_rows.insert().values(values))
    return transfers.Transfer(**values)


def get(database: storage_db.Database, transfer_id: str) -> transfers.Transfer:
    """Return a transfer by its id.

    :raises TransferNotFound: there is no such transfer, or the volume is no longer in the own
        status awaiting-transfer
    """
    with database.reader() as connection:
        row = connection.execute(
            _rows.select().where(_rows.c.id == transfer_id, _OFFERED)).one_or_none()
    if row is None:
        raise errors.TransferNotFound(transfer_id=transfer_id)
    return rows.record(transfers.Transfer, row)


def list_page(database: storage_db.Database, project_id: str | None, equal: Mapping[str, str],
              page: paging.Page) -> list[transfers.Transfer]:
    """Return a page of transfers.

    :param project_id: project that has created the transfers; None for every project
    :param equal: value that each column must have, by the keys of `SORT_COLUMNS`
    :raises TransferNotFound: the marker is not the id of a transfer
    """
    query = _rows.select().where(
        _OFFERED, *(SORT_COLUMNS[key] == value for key, value in equal.items()))
    if project_id is not None:
        query = query.where(_rows.c.project_id == project_id)
    with database.reader() as connection:
        found = paging.fetch(connection, query, SORT_COLUMNS, page, _OFFERED,
                             lambda marker: errors.TransferNotFound(transfer_id=marker))
    return [rows.record(transfers.Transfer, row) for row in found]


@storage_db.retried
def withdraw(database: storage_db.Database, of: transfers.Transfer) -> None:
    """Delete a transfer, so that the volume is no longer offered.

    :raises TransferNotFound: the transfer was accepted or deleted in the meantime, or the own
        status of the volume was reset
    """
    with database.writer(
            lambda again: _ended(again, of, project_id=of.project_id)) as connection:
        row = _end(connection, of)
        volume_rows.move(connection, database, row, _Event.WITHDRAW)


@storage_db.retried
def accept(database: storage_db.Database, of: transfers.Transfer, project_id: str,
           user_id: str) -> None:
    """Accept a transfer, after which the volume belongs to another project.

    The snapshots of the volume are transferred too, unless the transfer excludes them. A snapshot
    that does not belong to the same project as the volume keeps its project.

    :param project_id: project that accepts the volume
    :raises TransferNotFound: the transfer was accepted or deleted in the meantime, or the own
        status of the volume was reset
    :raises InvalidVolume: the volume has attachments. They would belong to the former project
    :raises InvalidSnapshot: a snapshot that belongs to the transfer is not available
    :raises QuotaExceeded: the accepting project has reached a quota
    :raises VolumeSizeExceedsLimit: the volume is larger than the accepting project allows
    """
    limits = quotas.limits(database, project_id)
    with database.writer(lambda again: _ended(
            again, of, project_id=project_id, user_id=user_id)) as connection:
        row = _end(connection, of)
        if row.lowest_rank is not None:
            raise errors.InvalidVolume(
                reason=f'Transfer {of.id}: Volume {row.id} has attachments.')
        moved = [] if of.no_snapshots else _lock_snapshots(connection, row)
        for snapshot in moved:
            if snapshot.status != _AVAILABLE:
                raise errors.InvalidSnapshot(
                    reason=f'Transfer {of.id}: a snapshot is not in the expected available '
                           'state.')
        # A project may accept its own volume, which adds nothing to its usage.
        if row.project_id != project_id:
            quotas.check(connection, database, limits, quota_rules.volume(
                row.volume_type_id, row.size_gb,
                [(snapshot.volume_type_id, snapshot.size_gb) for snapshot in moved],
                count_gigabytes=not database.quota.no_snapshot_gb_quota))
        volume_rows.move(connection, database, row, _Event.ACCEPT, project_id=project_id,
                         user_id=user_id)
        if moved:
            connection.execute(_snapshots.update().where(
                _snapshots.c.id.in_([snapshot.id for snapshot in moved])).values(
                    project_id=project_id, user_id=user_id,
                    generation=_snapshots.c.generation + 1,
                    updated_at=database.clock.utcnow()))
        foreign = _count_foreign_snapshots(connection, row.id, project_id)
    if foreign:
        LOG.warning('Snapshots of other projects found on a transferred volume%s',
                    log.fields(volume_id=row.id, project_id=project_id, rows=foreign))


def _lock_snapshots(connection: sa.Connection, volume: Any) -> list[Any]:
    # An earlier transfer without snapshots may have left snapshots that belong to other projects.
    # These snapshots are not locked.
    return list(connection.execute(_snapshots.select().where(
        _snapshots.c.volume_id == volume.id, models.live(_snapshots),
        _snapshots.c.project_id == volume.project_id,
    ).order_by(_snapshots.c.id).with_for_update()))


def _count_foreign_snapshots(connection: sa.Connection, volume_id: str, project_id: str) -> int:
    return connection.execute(sa.select(sa.func.count()).where(
        _snapshots.c.volume_id == volume_id, models.live(_snapshots),
        _snapshots.c.project_id != project_id)).scalar_one()


def _end(connection: sa.Connection, of: transfers.Transfer) -> Any:
    """Lock the volume of a transfer, delete the transfer, and return the row of the volume."""
    # If two requests end the transfer, only one deletes its row. A reset of the volume status is
    # detected by the own status.
    row = volume_rows.await_others(connection, of.volume_id)
    ended = connection.execute(_rows.delete().where(_rows.c.id == of.id)).rowcount == 1
    if row is None or row.own_status != _Own.AWAITING_TRANSFER or not ended:
        raise errors.TransferNotFound(transfer_id=of.id)
    return row


def _ended(connection: sa.Connection, of: transfers.Transfer, **values: Any) -> bool:
    # A withdrawal and an acceptance both delete the transfer. They are distinguished by the values
    # of the volume.
    return rows.holds(volume_rows.await_others(connection, of.volume_id), values) and \
        connection.execute(_rows.select().where(_rows.c.id == of.id)).first() is None
