"""Queries for manage operations of existing storage: logical volumes or files."""
import uuid
from collections.abc import Collection

import sqlalchemy as sa

from blockattach.platform import errors
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import managing
from blockattach.storage.domain import records

_volumes = models.volumes
# The databases limit the number of values in a statement.
_AT_ONCE = 500


def claimed(database: storage_db.Database, held: records.Claim) -> managing.Managed:
    """Return the volume of a manage operation, with the name of its existing storage.

    :param held: claim on the operation
    :raises StaleGeneration: the claim is no longer valid
    """
    found = volume_queries.claimed(database, held)
    return managing.Managed(found.volume, found.progress['reference'], found.claimed_gb)


def check_unknown(database: storage_db.Database, name: str, noun: str) -> None:
    """Raise BackendRefused if existing storage is already a volume or snapshot of this service.

    :param name: name of the storage on the backend
    :param noun: ``volume`` or ``snapshot``
    """
    by_name = managing.ids([name], noun)
    if live_ids(database, by_name.values(), noun):
        raise errors.BackendRefused(
            reason=f'{name} is already managed as {noun} {by_name[name]}')


def live_ids(database: storage_db.Database, ids: Collection[str], noun: str) -> set[str]:
    """Return the given ids that are ids of live volumes, or of live snapshots.

    :param ids: UUIDs in any spelling. The result contains UUIDs in canonical spelling
    :param noun: ``volume`` to look for volumes, ``snapshot`` to look for snapshots
    """
    table = models.volumes if noun == 'volume' else models.snapshots
    # The ids come from names on a backend, which may contain a UUID in any spelling.
    candidates, live = sorted({str(uuid.UUID(text)) for text in ids}), set()
    with database.reader() as connection:
        for first in range(0, len(candidates), _AT_ONCE):
            live |= set(connection.execute(sa.select(table.c.id).where(
                table.c.id.in_(candidates[first:first + _AT_ONCE]),
                models.live(table))).scalars())
    return live
