"""What a volume manager must know to let one initiator in or to shut it out, in one statement;
in two while a row is given another connector.
"""
import dataclasses
from typing import Any

import sqlalchemy as sa

from blockattach.db import engine
from blockattach.db import leases
from blockattach.db import models
from blockattach.db import pairs
from blockattach.db import prepared
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection as connections
from blockattach.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_types = models.volume_types
_OF_ROW = 'of_row_'
_INITIATOR = prepared.value('initiator')
_VOLUME_ID = prepared.value('volume_id')
_former = sa.alias(_rows, 'former')


@dataclasses.dataclass(frozen=True, slots=True)
class DesiredState:
    """Of one (volume, initiator).

    :ivar volume: None: it is gone
    :ivar grant: with the widest mode of its rows; None: it shall be revoked
    :ivar rows: all that have the initiator, or had it before the connector that is worked on
    :ivar leased_by: the owner of a lease of the pair or of the volume; None: there is none
    """

    volume: records.Volume | None
    grant: connections.Grant | None
    rows: tuple[records.Attachment, ...]
    leased_by: str | None = None


def get(database: engine.Database, volume_id: str, initiator: str,
        also: str | None = None) -> DesiredState:
    """What the live rows of the pair want now.

    :param also: a row that shall be granted whatever its state says
    """
    with database.reader() as connection:
        found = _DESIRED.rows(connection, volume_id=volume_id, initiator=initiator)
        if found and found[0].had_before:
            found = _ALSO_BEFORE.rows(connection, volume_id=volume_id, initiator=initiator)
    if not found:
        return DesiredState(None, None, ())
    first = found[0]
    live = {row.of_row_id: _row(row) for row in found
            if row.of_row_id is not None and not row.of_row_deleted}
    wanting = [row for row in live.values()
               if row.state in attachment_lifecycle.GRANTED or row.id == also]
    if first.deleted:
        # Orphaned grants of a deleted volume are to be revoked.
        return DesiredState(None, None, tuple(live.values()), first.leased_by)
    return DesiredState(rows.volume(first, {}, (), rows.limits(first)),
                  _grant(database, first, initiator, wanting), tuple(live.values()),
                  first.leased_by)


def _query(which: sa.ColumnElement[bool], outer: bool) -> sa.Select:
    return volume_rows.with_limits(sa.select(
        _volumes, _types.c.name.label('volume_type_name'), *pairs.OTHERS,
        *(column.label(f'{_OF_ROW}{column.name}') for column in _rows.c),
        _grants.c.username, _grants.c.sealed_password, _grants.c.alias,
        leases.holder(_INITIATOR).label('leased_by'),
    ).join(_types, _types.c.id == _volumes.c.volume_type_id)).outerjoin(
        _grants, sa.and_(_grants.c.volume_id == _volumes.c.id, _grants.c.initiator == _INITIATOR),
    ).join(_rows, sa.and_(_rows.c.volume_id == _volumes.c.id, which), isouter=outer).where(
        _volumes.c.id == _VOLUME_ID)


def _now() -> sa.Select:
    # The volume itself is there even if no row is.
    return _query(sa.and_(models.live(_rows), _rows.c.initiator == _INITIATOR), True)


_DESIRED = prepared.Statement(lambda dialect: _now().add_columns(
    # A look into an index: to read these rows as well costs as much again, mostly for nothing.
    sa.exists().where(_former.c.volume_id == _VOLUME_ID,
                      _former.c.previous_initiator == _INITIATOR).label('had_before')))
_ALSO_BEFORE = prepared.Statement(lambda dialect: sa.union_all(
    # Few have it, live or gone: asked for live ones SQLite would go through all of them.
    _now(), _query(_rows.c.previous_initiator == _INITIATOR, False)))


def _row(row: sa.Row[Any]) -> records.Attachment:
    columns = {column.name: getattr(row, f'{_OF_ROW}{column.name}') for column in _rows.c}
    return rows.attachment(
        columns,
        pairs.facts(row, row.others_lowest, bool(row.others_connected), prefix=''))


def _grant(database: engine.Database, row: sa.Row[Any], initiator: str,
           wanting: list[records.Attachment]) -> connections.Grant | None:
    if not wanting or row.sealed_password is None:
        return None
    return connections.Grant(
        volume_id=row.id, initiator=initiator, alias=row.alias,
        mode=connections.widest(one.mode or connections.AccessMode.RW for one in wanting),
        credential=connections.Credential(
            row.username, database.sealer.unseal(row.sealed_password)))
