"""Looking at volumes: one, a page, or those on which work was left undone."""
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import clock
from blockattach.db import engine
from blockattach.db import paging
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.db.models import attachment
from blockattach.db.models import volume
from blockattach.domain import attachment_lifecycle
from blockattach.domain import pools
from blockattach.domain import records
from blockattach.domain import volume_lifecycle

_volumes = volume.volumes
_types = volume.volume_types
_attachments = attachment.attachments
_WITH_TYPE = sa.select(_volumes, _types.c.name.label('volume_type_name')).join(
    _types, _types.c.id == _volumes.c.volume_type_id)

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    'id': _volumes.c.id, 'created_at': _volumes.c.created_at,
    'updated_at': _volumes.c.updated_at, 'name': _volumes.c.name,
    'display_name': _volumes.c.name, 'size': _volumes.c.size_gb, 'status': _volumes.c.status,
    'availability_zone': _volumes.c.availability_zone, 'bootable': _volumes.c.bootable,
    'host': _volumes.c.pool, 'project_id': _volumes.c.project_id,
    'user_id': _volumes.c.user_id, 'volume_type_id': _volumes.c.volume_type_id,
    'attach_status': _volumes.c.attach_status, 'multiattach': _volumes.c.multiattach,
}
"""Sort keys of a volume list, and the columns that an administrator may filter by."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Which volumes. ``equal`` maps a key of `SORT_COLUMNS` to the value it must have.

    ``project_id`` None means every project; ``metadata`` must all be there.
    """

    project_id: str | None
    equal: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    like: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    compared: Sequence[tuple[str, str, Any]] = ()
    """Comparisons of times: key, operator (gt, gte, eq, neq, lt, lte), value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """How many volumes, and how many GiB they have together."""

    count: int
    size_gb: int


_OPERATORS = {
    'gt': lambda column, value: column > value, 'gte': lambda column, value: column >= value,
    'eq': lambda column, value: column == value, 'neq': lambda column, value: column != value,
    'lt': lambda column, value: column < value, 'lte': lambda column, value: column <= value,
}


def get(database: engine.Database, volume_id: str) -> records.Volume:
    """One live volume.

    :raises VolumeNotFound: there is none
    """
    with database.reader() as connection:
        return read(connection, volume_id, live_only=True)


def get_even_gone(database: engine.Database, volume_id: str) -> records.Volume:
    """A volume, live or gone: what is told of it may come after its end.

    :raises VolumeNotFound: there never was one
    """
    with database.reader() as connection:
        return read(connection, volume_id)


def list_page(database: engine.Database, filters: Filters,
              page: paging.Page) -> list[records.Volume]:
    """One page of live volumes: three queries, however many there are.

    :raises VolumeNotFound: the marker is none
    """
    with database.reader() as connection:
        marker = None
        if page.marker is not None:
            marker = _marker(connection, page.marker, filters)
        found = connection.execute(
            paging.select_page(_filtered(_WITH_TYPE, filters), SORT_COLUMNS, page, marker)).all()
        ids = [row.id for row in found]
        metadata = _metadata(connection, ids)
        attached = _attached(connection, ids)
    return [rows.volume(row, metadata.get(row.id, {}), attached.get(row.id, ()))
            for row in found]


def count(database: engine.Database, filters: Filters) -> int:
    """How many live volumes match, whatever the page."""
    with database.reader() as connection:
        return connection.execute(
            _filtered(sa.select(sa.func.count()).select_from(_volumes), filters)).scalar_one()


def totals(database: engine.Database, filters: Filters) -> Totals:
    """What the live volumes that match come to, in one query."""
    query = sa.select(sa.func.count().label('number'),
                      sa.func.coalesce(sa.func.sum(_volumes.c.size_gb), 0).label('size_gb'))
    with database.reader() as connection:
        row = connection.execute(_filtered(query.select_from(_volumes), filters)).one()
    # A sum is a Decimal on MariaDB and PostgreSQL.
    return Totals(row.number, int(row.size_gb))


def metadata_values(database: engine.Database, filters: Filters) -> dict[str, list[str]]:
    """Each metadata key of the live volumes that match, with every value it has among them."""
    pairs = volume.volume_metadata
    query = sa.select(pairs.c.key, pairs.c.value).distinct().where(
        pairs.c.volume_id.in_(_filtered(sa.select(_volumes.c.id), filters)))
    found: dict[str, list[str]] = {}
    with database.reader() as connection:
        for row in connection.execute(query.order_by(pairs.c.key, pairs.c.value)):
            found.setdefault(row.key, []).append(row.value)
    return found


def interrupted(database: engine.Database, host: str,
                owner: str | None = None) -> list[records.Volume]:
    """Volumes of one ``host@backend`` that are being made or removed, and whose turn has passed.

    :param owner: at start: the life of the process that asks; what another life owns is its too
    """
    overdue: sa.ColumnElement[bool] = _volumes.c.deadline < clock.now()
    if owner is not None:
        overdue = sa.or_(overdue, _volumes.c.owner.is_(None), _volumes.c.owner != owner)
    query = _WITH_TYPE.where(
        volume_rows.LIVE, volume_rows.on_host(host),
        _volumes.c.own_status.in_((volume_lifecycle.OwnStatus.CREATING.value,
                                   volume_lifecycle.OwnStatus.DELETING.value)),
        overdue)
    with database.reader() as connection:
        return [rows.volume(row, {}, ()) for row in connection.execute(query)]


def unplaced(database: engine.Database, everything: bool = False) -> list[records.Volume]:
    """Volumes that wait for a pool longer than the scheduler was given.

    :param everything: at start: all that wait for one, since whoever was asked may be gone
    """
    query = _WITH_TYPE.where(
        volume_rows.LIVE, _volumes.c.pool.is_(None),
        _volumes.c.own_status == volume_lifecycle.OwnStatus.CREATING.value)
    if not everything:
        query = query.where(_volumes.c.deadline < clock.now())
    with database.reader() as connection:
        return [rows.volume(row, {}, ()) for row in connection.execute(query)]


def on_host(database: engine.Database, host: str) -> dict[str, records.Volume]:
    """Every volume that exists on one ``host@backend``, by id."""
    query = _WITH_TYPE.where(volume_rows.LIVE, volume_rows.on_host(host),
                             _volumes.c.own_status != volume_lifecycle.OwnStatus.CREATING.value)
    with database.reader() as connection:
        return {row.id: rows.volume(row, {}, ()) for row in connection.execute(query)}


def request(database: engine.Database, volume_id: str) -> pools.VolumeRequest:
    """What a volume asks of a pool, as its row and its type are now.

    :raises VolumeNotFound: there is no such live volume
    """
    specs = volume.volume_type_extra_specs
    with database.reader() as connection:
        found = read(connection, volume_id, live_only=True)
        rows_of_type = connection.execute(
            sa.select(specs.c.key, specs.c.value)
            .where(specs.c.volume_type_id == found.volume_type_id)).all()
    return pools.request_of(found, {row.key: row.value for row in rows_of_type})


def attempts(database: engine.Database, volume_id: str) -> int:
    """How many pools the volume has been placed on so far."""
    with database.reader() as connection:
        found = connection.execute(
            sa.select(_volumes.c.attempts).where(_volumes.c.id == volume_id)).scalar_one_or_none()
    if found is None:
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def read(connection: sa.Connection, volume_id: str, live_only: bool = False) -> records.Volume:
    """One volume inside a transaction that is open already."""
    query = _WITH_TYPE.where(_volumes.c.id == volume_id)
    if live_only:
        query = query.where(volume_rows.LIVE)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise errors.VolumeNotFound(volume_id=volume_id)
    return rows.volume(row, _metadata(connection, [volume_id]).get(volume_id, {}),
                       _attached(connection, [volume_id]).get(volume_id, ()))


def _filtered(query: sa.Select, filters: Filters) -> sa.Select:
    query = query.where(volume_rows.LIVE)
    if filters.project_id is not None:
        query = query.where(_volumes.c.project_id == filters.project_id)
    for key, value in filters.equal.items():
        column = SORT_COLUMNS[key]
        query = query.where(column.in_(value) if isinstance(value, (list, tuple))
                            else column == value)
    for key, text in filters.like.items():
        query = query.where(SORT_COLUMNS[key].contains(text, autoescape=True))
    for key, operator, value in filters.compared:
        query = query.where(_OPERATORS[operator](SORT_COLUMNS[key], value))
    for key, value in filters.metadata.items():
        pairs = volume.volume_metadata
        query = query.where(sa.exists().where(
            pairs.c.volume_id == _volumes.c.id, pairs.c.key == key, pairs.c.value == value))
    return query


def _marker(connection: sa.Connection, marker: str, filters: Filters) -> sa.Row[Any]:
    query = sa.select(*(column.label(key) for key, column in SORT_COLUMNS.items())).where(
        _volumes.c.id == marker, volume_rows.LIVE)
    if filters.project_id is not None:
        query = query.where(_volumes.c.project_id == filters.project_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise errors.VolumeNotFound(volume_id=marker)
    return row


def _metadata(connection: sa.Connection, ids: list[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    pairs = volume.volume_metadata
    if ids:
        for row in connection.execute(pairs.select().where(pairs.c.volume_id.in_(ids))):
            found.setdefault(row.volume_id, {})[row.key] = row.value
    return found


def _attached(connection: sa.Connection,
              ids: list[str]) -> dict[str, tuple[records.AttachedServer, ...]]:
    found: dict[str, list[records.AttachedServer]] = {}
    if ids:
        query = sa.select(
            _attachments.c.id, _attachments.c.volume_id, _attachments.c.instance_uuid,
            _attachments.c.host, _attachments.c.mountpoint, _attachments.c.attached_at,
        ).where(_attachments.c.volume_id.in_(ids),
                _attachments.c.rank
                == attachment_lifecycle.RANKS[attachment_lifecycle.State.ATTACHED],
                ).order_by(_attachments.c.created_at, _attachments.c.id)
        for row in connection.execute(query):
            found.setdefault(row.volume_id, []).append(records.AttachedServer(
                row.id, row.instance_uuid, row.host, row.mountpoint, row.attached_at))
    return {volume_id: tuple(servers) for volume_id, servers in found.items()}
