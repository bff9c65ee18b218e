"""Transfers: offering a volume, taking the offer back, accepting it. Each moves the volume too."""
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import engine
from blockattach.db import paging
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.db.models import transfer
from blockattach.domain import transfers
from blockattach.domain import volume_lifecycle

_rows = transfer.transfers
_Event = volume_lifecycle.Event

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'name': _rows.c.name,
    'display_name': _rows.c.name, 'volume_id': _rows.c.volume_id}
"""Sort keys and filters of a list, by the API's names."""


@engine.retried
def create(database: engine.Database, volume_id: str, name: str | None, no_snapshots: bool,
           sealed: str) -> transfers.Transfer:
    """Offer a volume.

    :raises VolumeNotFound: there is no such live volume
    :raises InvalidVolume: it is attached, or something else is done with it
    """
    new_id = database.new_id()
    with database.writer(lambda again: _row(again, new_id) is not None) as connection:
        row = volume_rows.lock(connection, volume_id)
        if row.lowest_rank is not None or row.own_status != volume_lifecycle.OwnStatus.AVAILABLE:
            raise errors.InvalidVolume(reason='status must be available')
        # What an administrator's os-reset_status has left of an earlier offer.
        connection.execute(_rows.delete().where(_rows.c.volume_id == volume_id))
        volume_rows.store_own_status(
            connection, database, row,
            volume_lifecycle.next_status(row.own_status, _Event.OFFER))
        values = {'id': new_id, 'volume_id': volume_id, 'project_id': row.project_id,
                  'name': name, 'no_snapshots': no_snapshots, 'sealed': sealed,
                  'created_at': database.clock.utcnow()}
        connection.execute(_rows.insert().values(values))
    return transfers.Transfer(**values)


def get(database: engine.Database, transfer_id: str) -> transfers.Transfer:
    """One transfer.

    :raises TransferNotFound: there is none
    """
    with database.reader() as connection:
        return _found(connection, transfer_id)


def list_page(database: engine.Database, project_id: str | None, equal: Mapping[str, str],
              page: paging.Page) -> list[transfers.Transfer]:
    """One page of what a project offers (None: every project).

    :param equal: a key of `SORT_COLUMNS` to the value it must have
    :raises TransferNotFound: the marker is none
    """
    query = _rows.select().where(*(SORT_COLUMNS[key] == value for key, value in equal.items()))
    if project_id is not None:
        query = query.where(_rows.c.project_id == project_id)
    with database.reader() as connection:
        found = paging.fetch(connection, query, SORT_COLUMNS, page, sa.true(),
                             lambda marker: errors.TransferNotFound(transfer_id=marker))
    return [rows.record(transfers.Transfer, row) for row in found]


@engine.retried
def withdraw(database: engine.Database, of: transfers.Transfer) -> None:
    """Take the offer back: the volume is its project's alone again.

    :raises TransferNotFound: it was accepted or deleted meanwhile
    """
    with database.writer(lambda again: _ended(again, of)) as connection:
        row = volume_rows.lock(connection, of.volume_id)
        _end(connection, of)
        # An administrator may have reset the volume's status meanwhile: it stays so.
        if row.own_status == volume_lifecycle.OwnStatus.AWAITING_TRANSFER:
            volume_rows.store_own_status(
                connection, database, row,
                volume_lifecycle.next_status(row.own_status, _Event.WITHDRAW))


@engine.retried
def accept(database: engine.Database, of: transfers.Transfer, project_id: str,
           user_id: str) -> None:
    """Give the volume to another project.

    :raises TransferNotFound: it was accepted or deleted meanwhile
    :raises InvalidVolume: the volume does not wait for it any more
    """
    with database.writer(lambda again: _ended(
            again, of, project_id=project_id, user_id=user_id)) as connection:
        row = volume_rows.lock(connection, of.volume_id)
        _end(connection, of)
        if row.own_status != volume_lifecycle.OwnStatus.AWAITING_TRANSFER:
            raise errors.InvalidVolume(
                reason=f'Volume {of.volume_id} status must be awaiting-transfer')
        volume_rows.store_own_status(
            connection, database, row,
            volume_lifecycle.next_status(row.own_status, _Event.ACCEPT),
            project_id=project_id, user_id=user_id)


def _end(connection: sa.Connection, of: transfers.Transfer) -> None:
    if connection.execute(_rows.delete().where(_rows.c.id == of.id)).rowcount != 1:
        raise errors.TransferNotFound(transfer_id=of.id)


def _ended(connection: sa.Connection, of: transfers.Transfer, **values: Any) -> bool:
    """Whether a transfer has ended in this way, for a writer whose connection was lost."""
    return rows.holds(volume_rows.await_others(connection, of.volume_id), values) and \
        _row(connection, of.id) is None


def _row(connection: sa.Connection, transfer_id: str) -> sa.Row[Any] | None:
    return connection.execute(_rows.select().where(_rows.c.id == transfer_id)).one_or_none()


def _found(connection: sa.Connection, transfer_id: str) -> transfers.Transfer:
    row = _row(connection, transfer_id)
    if row is None:
        raise errors.TransferNotFound(transfer_id=transfer_id)
    return rows.record(transfers.Transfer, row)
