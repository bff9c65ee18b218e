"""Which attachments share one connection: the grant that a target has per (volume, initiator)."""
from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.db import engine
from blockattach.db import models
from blockattach.domain import connection as connections

_rows = models.attachments

_SLICE = 1000


class PairAttachment(NamedTuple):
    """Another live attachment of the pair; the API does not show a legacy reservation."""

    id: str
    mode: connections.AccessMode | None
    legacy_reservation: bool


def of(database: engine.Database,
       attachment_ids: Iterable[str]) -> dict[str, list[PairAttachment]]:
    """The others by attachment, oldest first, for those that have a connector and any other.

    One query for a page of a list; a longer one is cut, so that every database takes the ids.
    """
    ids = sorted(set(attachment_ids))
    found: dict[str, list[PairAttachment]] = {}
    with database.reader() as connection:
        for start in range(0, len(ids), _SLICE):
            for row in connection.execute(_query(ids[start:start + _SLICE])):
                mode = None if row.mode is None else connections.AccessMode(row.mode)
                found.setdefault(row.of, []).append(
                    PairAttachment(row.id, mode, row.legacy_reservation))
    return found


def _query(ids: list[str]) -> sa.Select:
    other = _rows.alias('other')
    return (sa.select(_rows.c.id.label('of'), other.c.id, other.c.mode, other.c.legacy_reservation)
            .select_from(_rows.join(other, sa.and_(
                other.c.volume_id == _rows.c.volume_id, other.c.deleted == sa.false(),
                other.c.initiator == _rows.c.initiator, other.c.id != _rows.c.id)))
            .where(_rows.c.id.in_(ids))
            .order_by(other.c.created_at, other.c.id))
