"""An attachment with its volume: read together in one statement, changed together in one.

A change carries its precondition (`Unchanged`); where that no longer holds, nothing is written.
So no decision needs the volume's lock, and changes of one volume's rows wait for each other only
from this statement to the end of their transaction.
"""
import functools
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql import operators

from blockattach.db import models
from blockattach.db import prepared
from blockattach.db import rows
from blockattach.domain import multiattach
from blockattach.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_others = sa.alias(_rows, 'others')

LIVE = models.live(_rows)
"""Attachments that are not deleted."""
PREFIX = 'of_volume_'
_NAMES = ('id', 'project_id', 'pool', 'own_status', 'status', 'attach_status', 'lowest_rank',
          'multiattach', 'bootable', 'single_writer', 'readonly', 'attached_mode',
          'detach_announced', 'attachment_moves')

FACTS: tuple[sa.ColumnElement[Any], ...] = tuple(
    _volumes.c[name].label(f'{PREFIX}{name}') for name in _NAMES)
"""What `facts` reads of a volume."""

# Where a join found none, every row is another one; no query reads all of them.
_THIS = sa.func.coalesce(_rows.c.id, '')
OTHERS: tuple[sa.ColumnElement[Any], ...] = (
    # Two looks into an index at most, not a minimum over all of them.
    sa.select(_others.c.rank).where(
        _others.c.volume_id == _volumes.c.id, operators.is_not(_others.c.rank, sa.null()),
        _others.c.id != _THIS).order_by(_others.c.rank).limit(1)
    .correlate(_volumes, _rows).scalar_subquery().label('others_lowest'),
    # Only rows of plain volumes have a slot.
    sa.exists().where(
        _others.c.volume_id == _volumes.c.id, operators.in_op(_others.c.slot, multiattach.SLOTS),
        _others.c.id != _THIS, operators.is_not(_others.c.connection, sa.null()))
    .correlate(_volumes, _rows).label('others_connected'))
"""What `facts` reads of a volume's rows besides the one that it was joined with."""

# While another connector is being connected, the stored connection is that of the former one.
_FOR = sa.func.coalesce(_rows.c.previous_initiator, _rows.c.initiator)


def with_grant(query: sa.Select) -> sa.Select:
    """A query for attachments, extended by the credential of their connection."""
    return query.add_columns(_grants.c.username, _grants.c.sealed_password).outerjoin(
        _grants, sa.and_(_grants.c.volume_id == _rows.c.volume_id, _grants.c.initiator == _FOR))


_PAIR = prepared.Statement(lambda dialect: with_grant(
    sa.select(_rows, *FACTS, *OTHERS).join(_volumes, _volumes.c.id == _rows.c.volume_id),
).where(LIVE, _rows.c.id == prepared.value('attachment_id')))


def read(connection: sa.Connection, attachment_id: str) -> records.Attachment | None:
    """A live attachment with its volume's facts, and with the credential of its connection."""
    row = _PAIR.first(connection, attachment_id=attachment_id)
    return None if row is None else _record(row)


def _of_volume(with_legacy: bool) -> sa.Select:
    query = _rows.select().where(LIVE, _rows.c.volume_id == prepared.value('volume_id'))
    if not with_legacy:
        query = query.where(_rows.c.legacy_reservation == sa.false())
    return query.order_by(_rows.c.created_at, _rows.c.id)


_OF_VOLUME = prepared.Statement(lambda dialect: _of_volume(with_legacy=False))
_ALL_OF_VOLUME = prepared.Statement(lambda dialect: _of_volume(with_legacy=True))


def of_volume(connection: sa.Connection, volume_id: str,
              with_legacy: bool = False) -> list[records.Attachment]:
    """All live attachments of a volume, oldest first.

    :param with_legacy: also legacy reservations
    """
    query = _ALL_OF_VOLUME if with_legacy else _OF_VOLUME
    return [rows.attachment(row) for row in query.rows(connection, volume_id=volume_id)]


def _record(row: sa.Row[Any]) -> records.Attachment:
    """One row of `read`."""
    return rows.attachment(row, facts(row, row.others_lowest, bool(row.others_connected)),
                           rows.sealed(row))


def facts(row: Any, others_lowest: int | None = None, others_connected: bool = False,
          prefix: str = PREFIX) -> records.VolumeFacts:
    """A row with the columns `FACTS`, or with the volume's own.

    :param prefix: of the names of the volume's columns
    """
    return records.VolumeFacts(
        **{name: getattr(row, f'{prefix}{name}') for name in _NAMES},
        others_lowest=others_lowest,
        others_connected=others_connected)


class Unchanged(NamedTuple):
    """The precondition of a change.

    :ivar reads_others: it depends on other rows too, not only on the volume's summary of them
    """

    expected: records.VolumeFacts
    reads_others: bool


def write_volume(connection: sa.Connection, where: Unchanged, values: Mapping[str, Any]) -> bool:
    """Count a move of the volume's attachments, and write what follows; False: a conflict.

    The transaction's first statement: it locks the volume.
    """
    return _volume_update(where.reads_others, prepared.shape(values)).change(
        connection, **prepared.values_of(values, _VOLUME), **_expected(where)) == 1


def write_row(connection: sa.Connection, old: records.Attachment,
              values: Mapping[str, Any]) -> bool:
    """Change a row alone; False: a conflict, it has moved since it was read."""
    return _row_update(prepared.shape(values)).change(
        connection, **prepared.values_of(values, _ROW), **_as_read(old)) == 1


def write(connection: sa.Connection, old: records.Attachment, values: Mapping[str, Any],
          where: Unchanged, of_volume: Mapping[str, Any]) -> bool:
    """Change both, the volume first; False: a conflict in one of the two, so roll back."""
    if connection.dialect.name == 'sqlite':
        return write_volume(connection, where, of_volume) and write_row(connection, old, values)
    # MariaDB counts the rows of both tables.
    return _pair_update(
        where.reads_others, prepared.shape(of_volume), prepared.shape(values)).change(
            connection, **prepared.values_of(of_volume, _VOLUME),
            **prepared.values_of(values, _ROW), **_expected(where), **_as_read(old)) > 0


def insert(connection: sa.Connection, values: Mapping[str, Any]) -> None:
    """Write a new row; its volume is written already."""
    prepared.insert(connection, _rows, values)


_ROW, _VOLUME, _EXPECTED, _EXPECTED_ROW = 'row_', 'volume_', 'expected_', 'expected_row_'


def _expected(where: Unchanged) -> dict[str, Any]:
    expected = where.expected
    found = {'expected_id': expected.id, 'expected_own_status': expected.own_status,
             'expected_lowest_rank': expected.lowest_rank, 'expected_readonly': expected.readonly,
             'expected_detach_announced': expected.detach_announced}
    if where.reads_others:
        found['expected_attachment_moves'] = expected.attachment_moves
    return found


def _as_read(old: records.Attachment) -> dict[str, Any]:
    return {'expected_row_id': old.id, 'expected_row_generation': old.generation}


def _volume_values(shape: prepared.Shape) -> dict[Any, Any]:
    return {**prepared.values(_volumes, shape, _VOLUME),
            _volumes.c.attachment_moves: _volumes.c.attachment_moves + 1}


def _row_values(shape: prepared.Shape) -> dict[Any, Any]:
    return prepared.values(_rows, shape, _ROW)


def _still(reads_others: bool) -> list[sa.ColumnElement[bool]]:
    # By the key alone: with another indexed column MariaDB may lock that index first. A deleted
    # volume has another own status.
    def value(name: str) -> sa.BindParameter[Any]:
        return prepared.column_value(_volumes.c[name], _EXPECTED)

    same = ['id', 'own_status', 'detach_announced'] + reads_others * ['attachment_moves']
    return [*(_volumes.c[name] == value(name) for name in same),
            *(_volumes.c[name].is_not_distinct_from(value(name))
              for name in ('lowest_rank', 'readonly'))]


def _row_still() -> tuple[sa.ColumnElement[bool], ...]:
    return (_rows.c.id == prepared.column_value(_rows.c.id, _EXPECTED_ROW),
            _rows.c.generation == prepared.column_value(_rows.c.generation, _EXPECTED_ROW))


@functools.cache
def _volume_update(reads_others: bool, shape: prepared.Shape) -> prepared.Statement:
    return prepared.Statement(lambda dialect: _volumes.update().where(
        *_still(reads_others)).values(_volume_values(shape)))


@functools.cache
def _row_update(shape: prepared.Shape) -> prepared.Statement:
    return prepared.Statement(lambda dialect: _rows.update().where(
        *_row_still()).values(_row_values(shape)))


@functools.cache
def _pair_update(reads_others: bool, of_volume: prepared.Shape,
                 of_row: prepared.Shape) -> prepared.Statement:
    def build(dialect: sa.Dialect) -> sa.Update:
        if dialect.name == 'mysql':
            return _volumes.update().where(
                *_still(reads_others), *_row_still(), _rows.c.volume_id == _volumes.c.id,
            ).values({**_volume_values(of_volume), **_row_values(of_row)})
        counted = (_volumes.update().where(*_still(reads_others)).values(_volume_values(of_volume))
                   .returning(_volumes.c.id).cte('counted'))
        return _rows.update().where(
            *_row_still(), _rows.c.volume_id == counted.c.id).values(_row_values(of_row))
    return prepared.Statement(build)
