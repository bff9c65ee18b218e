"""How many attachments volumes have."""
from collections.abc import Iterable

import sqlalchemy as sa

from blockattach.db import engine
from blockattach.db import models

_rows = models.attachments


def by_volume(database: engine.Database, volume_ids: Iterable[str]) -> dict[str, int]:
    """Live attachments by volume, without legacy reservations; a volume with none is absent.

    One query for a page of a list.
    """
    ids = sorted(set(volume_ids))
    if not ids:
        return {}
    query = (sa.select(_rows.c.volume_id, sa.func.count().label('number'))
             .where(_rows.c.volume_id.in_(ids), models.live(_rows),
                    _rows.c.legacy_reservation == sa.false())
             .group_by(_rows.c.volume_id))
    with database.reader() as connection:
        return {row.volume_id: row.number for row in connection.execute(query)}
