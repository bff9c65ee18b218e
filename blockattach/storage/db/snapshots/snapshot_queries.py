"""Queries for single snapshots and lists of snapshots."""
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import managing
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots

_rows = models.snapshots
_metadata = models.snapshot_metadata
_work = models.work

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    **{name: _rows.c[name] for name in (
        'id', 'created_at', 'updated_at', 'name', 'status', 'volume_id', 'availability_zone',
        'project_id', 'user_id', 'volume_type_id')},
    'display_name': _rows.c.name, 'volume_size': _rows.c.size_gb}
"""Columns by which a list of snapshots can be sorted, by their names in the API.

Administrators may filter the list by the same columns.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a snapshot list.

    :ivar project_id: project of the snapshots; None for every project
    :ivar equal: required values of columns, by the keys of `SORT_COLUMNS`
    :ivar like: texts that columns must contain, by the keys of `SORT_COLUMNS`
    :ivar metadata: metadata items that a listed snapshot must have
    """

    project_id: str | None
    equal: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    like: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


def get(database: storage_db.Database, snapshot_id: str) -> snapshots.Snapshot:
    """Return a live snapshot by its id.

    :raises SnapshotNotFound: no live snapshot has this id
    """
    found = find(database, snapshot_id)
    if found is None:
        raise errors.SnapshotNotFound(snapshot_id=snapshot_id)
    return found


def find(database: storage_db.Database, snapshot_id: str) -> snapshots.Snapshot | None:
    """Return a live snapshot by its id, or None if no live snapshot has this id."""
    return _first(database, _rows.select().where(_rows.c.id == snapshot_id, snapshot_rows.LIVE))


def find_even_deleted(database: storage_db.Database,
                      snapshot_id: str) -> snapshots.Snapshot | None:
    """Return a live or deleted snapshot by its id, or None if there is no row with this id."""
    return _first(database, _rows.select().where(_rows.c.id == snapshot_id))


def claimed(database: storage_db.Database, claim: records.Claim) -> snapshots.Snapshot | None:
    """Return the live snapshot on which a claim is held, or None if the claim is not valid.

    The claim is valid while the work item has the owner and the generation of the claim.
    """
    return _first(database, _rows.select().where(
        _rows.c.id == claim.resource_id, snapshot_rows.LIVE, sa.exists().where(
            _work.c.noun == claim.noun, _work.c.resource_id == _rows.c.id,
            _work.c.verb == claim.verb, _work.c.owner == claim.owner,
            _work.c.generation == claim.generation)))


def of_volume(database: storage_db.Database, volume_id: str) -> list[snapshots.Snapshot]:
    """Return the live snapshots of a volume without their metadata, oldest first."""
    with database.reader() as connection:
        return [record(row) for row in connection.execute(
            _rows.select().where(_rows.c.volume_id == volume_id, snapshot_rows.LIVE)
            .order_by(_rows.c.created_at, _rows.c.id))]


def list_page(database: storage_db.Database, filters: Filters,
              page: paging.Page) -> list[snapshots.Snapshot]:
    """Return a page of live snapshots by at most two queries, or three if there is a marker.

    :raises SnapshotNotFound: the marker is not the id of a live snapshot of the project in
        ``filters``
    """
    with database.reader() as connection:
        found = paging.fetch(connection, _filtered(_rows.select(), filters), SORT_COLUMNS, page,
                             sa.and_(*_listed(filters)),
                             lambda marker: errors.SnapshotNotFound(snapshot_id=marker))
        metadata = _metadata_of(connection, [row.id for row in found])
    return [record(row, metadata.get(row.id)) for row in found]


def count(database: storage_db.Database, filters: Filters) -> int:
    """Return the number of live snapshots that match the filters."""
    with database.reader() as connection:
        return connection.execute(
            _filtered(sa.select(sa.func.count()).select_from(_rows), filters)).scalar_one()


def record(row: Any, metadata: dict[str, str] | None = None) -> snapshots.Snapshot:
    """Build the record of a snapshot from its row and its metadata."""
    return rows.record(snapshots.Snapshot, row, metadata=metadata or {})


def _first(database: storage_db.Database, query: sa.Select[Any]) -> snapshots.Snapshot | None:
    with database.reader() as connection:
        row = connection.execute(query).one_or_none()
        return None if row is None else record(
            row, _metadata_of(connection, [row.id]).get(row.id))


def _metadata_of(connection: sa.Connection, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    if ids:
        for row in connection.execute(_metadata.select().where(
                _metadata.c.snapshot_id.in_(ids)).order_by(_metadata.c.key)):
            found.setdefault(row.snapshot_id, {})[row.key] = row.value
    return found


def _listed(filters: Filters) -> list[sa.ColumnElement[bool]]:
    if filters.project_id is None:
        return [snapshot_rows.LIVE]
    return [snapshot_rows.LIVE, _rows.c.project_id == filters.project_id]


def _filtered(query: sa.Select[Any], filters: Filters) -> sa.Select[Any]:
    query = query.where(*_listed(filters))
    for key, value in filters.equal.items():
        query = query.where(SORT_COLUMNS[key] == value)
    for key, text in filters.like.items():
        query = query.where(SORT_COLUMNS[key].contains(text, autoescape=True))
    for key, value in filters.metadata.items():
        query = query.where(sa.exists().where(
            _metadata.c.snapshot_id == _rows.c.id, _metadata.c.key == key,
            _metadata.c.value == value))
    return query


def claimed_to_manage(database: storage_db.Database,
                      held: records.Claim) -> managing.ManagedSnapshot:
    """Return the snapshot that a manage operation adopts, its volume, and its backend reference.

    :param held: claim on the manage operation
    :raises StaleGeneration: the claim is not valid any more
    """
    snapshot = claimed(database, held)
    at_work = work.of_resource(database, held.noun, held.resource_id)
    if snapshot is None or at_work is None:
        raise errors.StaleGeneration(noun='snapshot', id=held.resource_id,
                                     generation=held.generation)
    return managing.ManagedSnapshot(
        snapshot, volume_queries.get_bare(database, snapshot.volume_id),
        at_work.progress['reference'])
