"""Queries of volumes."""
import dataclasses
import functools
import math
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from blockattach.platform.db import paging
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_volumes = models.volumes
_work = models.work
_types = models.volume_types
_attachments = models.attachments
# Only the columns of the record are selected, because a list may have thousands of rows. Although
# each volume has a type, the join is an outer join. With an inner join, MariaDB would read the
# types first, and sort all volumes of a project for each page of a list.
_WITH_TYPE = sa.select(
    *(_volumes.c[field.name] for field in dataclasses.fields(records.Volume)
      if field.name in _volumes.c), _types.c.name.label('volume_type_name'),
).outerjoin(_types, _types.c.id == _volumes.c.volume_type_id)
_metadata = models.volume_metadata
_image_metadata = models.volume_image_metadata
_BARE = statements.Statement(lambda dialect: volume_rows.with_limits(_WITH_TYPE).where(
    _volumes.c.id == statements.value('volume_id'), volume_rows.LIVE))
_CLAIMED = statements.Statement(lambda dialect: volume_rows.with_limits(_WITH_TYPE).add_columns(
    _volumes.c.claimed_pool, _volumes.c.claimed_gb,
    _work.c.progress.label('work_progress'), _work.c.attempts.label('work_attempts'),
).join(_work, sa.and_(
    _work.c.noun == 'volume', _work.c.resource_id == _volumes.c.id,
    _work.c.verb == statements.value('verb'), _work.c.owner == statements.value('owner'),
    _work.c.generation == statements.value('generation'))).where(
    _volumes.c.id == statements.value('volume_id'), volume_rows.LIVE))
_ONE = statements.Statement(lambda dialect: volume_rows.with_limits(_WITH_TYPE).add_columns(
    _volumes.c.deleted,
    _metadata.c.key.label('metadata_key'), _metadata.c.value.label('metadata_value'),
).outerjoin(_metadata, _metadata.c.volume_id == _volumes.c.id).where(
    _volumes.c.id == statements.value('volume_id')))
# Number of bound values that every database accepts in a statement.
_SLICE = 500
# A statement has at most _SHORT ids, or one of the numbers in _SIZES, or a multiple of the last
# number. Missing ids are NULL. A list of up to _SHORT ids is not filled up with NULL, because a
# query planner estimates an index lookup for each value.
_SHORT, _SIZES = 16, (128, 1024)

_ATTACHED = attachment_lifecycle.RANKS[attachment_lifecycle.State.ATTACHED]
_OF_SERVER = ('id', 'instance_uuid', 'host', 'mountpoint', 'attached_at', 'created_at')
# Tables with the metadata of volumes, by the fields of `records.Volume`. In a union, the query of
# servers comes first, because the first query determines the types of the columns.
_PAIRS = {'metadata': _metadata, 'image_metadata': _image_metadata}
_OF_ONE = statements.Statement(lambda dialect: sa.union_all(
    _servers(_attachments.c.volume_id == statements.value('volume_id')),
    _pairs('image_metadata', lambda volume_id: volume_id == statements.value('volume_id'),
           *(sa.null() for _ in _OF_SERVER))))

_USING = (attachment_lifecycle.State.CONNECTED.value, attachment_lifecycle.State.ATTACHED.value)
SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    **{name: _volumes.c[name] for name in (
        'id', 'created_at', 'updated_at', 'name', 'description', 'status', 'availability_zone',
        'bootable', 'project_id', 'user_id', 'volume_type_id', 'attach_status', 'multiattach',
        'migration_status', 'snapshot_id', 'source_volid', 'service_uuid', 'shared_targets')},
    'display_name': _volumes.c.name, 'display_description': _volumes.c.description,
    'size': _volumes.c.size_gb, 'host': _volumes.c.pool}
"""Columns by which volume lists can be sorted, by their names in the API.

Administrators can also filter by these names.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a volume list.

    :ivar project_id: project of the volumes; None for every project
    :ivar equal: value, or list of allowed values, of each column, by the keys of `SORT_COLUMNS`
    :ivar like: text that each column must contain, by the keys of `SORT_COLUMNS`
    :ivar metadata: items that the metadata of a volume must contain
    :ivar image_metadata: items that the image metadata of a volume must contain
    :ivar targets: True to include volumes that are the target of a migration
    """

    project_id: str | None
    equal: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    like: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    targets: bool = True
    compared: Sequence[tuple[str, str, Any]] = ()
    """Comparisons of columns with times, each with key, operator and value.

    The operator is gt, gte, eq, neq, lt or lte.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class AtWork:
    """Volume, and the claimed work on the volume.

    :ivar claim: claim of the owner on the work
    :ivar progress: progress of the work
    :ivar attempts: number of times that the work was claimed
    :ivar claimed_pool: pool on which the work has claimed space; None if there is no such pool
    :ivar claimed_gb: space in GiB that the work has claimed in addition to the size of the volume;
        None if no space is claimed
    """

    volume: records.Volume
    claim: records.Claim
    progress: Mapping[str, Any]
    attempts: int
    claimed_pool: str | None
    claimed_gb: int | None

    @property
    def there(self) -> records.Volume:
        """The volume with ``claimed_pool`` as its pool, for operations on that pool."""
        return dataclasses.replace(self.volume, pool=self.claimed_pool)


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """Number of volumes, and the sum of their sizes in GiB."""

    count: int
    size_gb: int


_OPERATORS = {'gt': operator.gt, 'gte': operator.ge, 'eq': operator.eq, 'neq': operator.ne,
              'lt': operator.lt, 'lte': operator.le}


def get(database: storage_db.Database, volume_id: str) -> records.Volume:
    """Return a live volume with its metadata and its completed attachments.

    :raises VolumeNotFound: there is no such live volume
    """
    with database.reader() as connection:
        return read(connection, volume_id, live_only=True)


def get_bare(database: storage_db.Database, volume_id: str) -> records.Volume:
    """Return a live volume without its metadata and its attachments.

    :raises VolumeNotFound: there is no such live volume
    """
    row = _BARE.first(database, volume_id=volume_id)
    if row is None:
        raise errors.VolumeNotFound(volume_id=volume_id)
    return rows.volume(row, {}, (), rows.limits(row))


def claimed(database: storage_db.Database, claim: records.Claim) -> AtWork:
    """Return the volume that a claim names, together with the claimed work.

    :raises StaleGeneration: the claim is no longer valid
    """
    row = _claimed(database, claim)
    if row is None:
        raise errors.StaleGeneration(noun=claim.noun, id=claim.resource_id,
                                     generation=claim.generation)
    return AtWork(rows.volume(row, {}, (), rows.limits(row)), claim,
                  rows.from_json(row.work_progress), row.work_attempts, row.claimed_pool,
                  row.claimed_gb)


def is_claimed(database: storage_db.Database, claim: records.Claim) -> bool:
    """Return True if a claim on work on a volume is still valid."""
    return _claimed(database, claim) is not None


def get_even_deleted(database: storage_db.Database, volume_id: str) -> records.Volume:
    """Return a live or deleted volume with its metadata and its completed attachments.

    Used for notifications, which may be sent after the volume was deleted.

    :raises VolumeNotFound: no row has this id
    """
    with database.reader() as connection:
        return read(connection, volume_id)


def list_page(database: storage_db.Database, filters: Filters,
              page: paging.Page) -> list[records.Volume]:
    """Return a page of live volumes.

    The function executes at most two queries for any number of volumes. A page with a marker
    needs another query, and so does a page with attached volumes.

    :raises VolumeNotFound: the marker is not the id of a live volume of the project
    """
    with database.reader() as connection:
        found = paging.fetch(connection, _filtered(_WITH_TYPE, filters), SORT_COLUMNS, page,
                             sa.and_(*_listed(filters)),
                             lambda marker: errors.VolumeNotFound(volume_id=marker))
        children = _children(connection, found)
    return rows.each(records.Volume, found, children)


def count(database: storage_db.Database, filters: Filters) -> int:
    """Return the number of all live volumes that match the filters."""
    with database.reader() as connection:
        return connection.execute(
            _filtered(sa.select(sa.func.count()).select_from(_volumes), filters)).scalar_one()


def totals(database: storage_db.Database, filters: Filters) -> Totals:
    """Return the number and the total size of all live volumes that match the filters."""
    query = sa.select(sa.func.count().label('number'),
                      sa.func.coalesce(sa.func.sum(_volumes.c.size_gb), 0).label('size_gb'))
    with database.reader() as connection:
        row = connection.execute(_filtered(query.select_from(_volumes), filters)).one()
    # A sum is a Decimal on MariaDB and PostgreSQL.
    return Totals(row.number, int(row.size_gb))


def metadata_values(database: storage_db.Database, filters: Filters) -> dict[str, list[str]]:
    """Return the metadata keys and values of all live volumes that match the filters.

    :returns: sorted values by key
    """
    query = sa.select(_metadata.c.key, _metadata.c.value).distinct().where(
        _metadata.c.volume_id.in_(_filtered(sa.select(_volumes.c.id), filters)))
    found: dict[str, list[str]] = {}
    with database.reader() as connection:
        for row in connection.execute(
                query.order_by(_metadata.c.key, _metadata.c.value)):
            found.setdefault(row.key, []).append(row.value)
    return found


def existing_on(database: storage_db.Database, host: str, volume_ids: Sequence[str]) -> set[str]:
    """Return the given ids that are ids of live volumes on a backend.

    Volumes that are being created are left out.

    :param host: ``host@backend``
    """
    found: set[str] = set()
    with database.reader() as connection:
        for start in range(0, len(volume_ids), _SLICE):
            found.update(connection.execute(sa.select(_volumes.c.id).where(
                _volumes.c.id.in_(volume_ids[start:start + _SLICE]),
                volume_rows.LIVE, services.on_host(host),
                _volumes.c.own_status != volume_lifecycle.OwnStatus.CREATING.value)).scalars())
    return found


def read(connection: sa.Connection, volume_id: str, live_only: bool = False,
         unused: bool = False) -> records.Volume:
    """Return a volume with its metadata and its completed attachments, within a transaction.

    :param live_only: True to treat a deleted volume as absent
    :param unused: True if the caller knows that the volume has no attachments. Attachments and
        image metadata are then not read
    :raises VolumeNotFound: there is no such volume
    """
    found = _ONE.rows(connection, volume_id=volume_id)
    if not found or (live_only and found[0].deleted):
        raise errors.VolumeNotFound(volume_id=volume_id)
    metadata = {row.metadata_key: row.metadata_value for row in found
                if row.metadata_key is not None}
    more = () if unused else _OF_ONE.rows(connection, volume_id=volume_id)
    return rows.volume(
        found[0], metadata, _attached(row for row in more if row.id is not None),
        rows.limits(found[0]), {row.key: row.value for row in more if row.id is None})


def servers(connection: sa.Connection, volume_id: str) -> list[str]:
    """Return the ids of the servers that have a connected or attached attachment of a volume."""
    return sorted(connection.execute(sa.select(_attachments.c.instance_uuid).distinct().where(
        _attachments.c.volume_id == volume_id, models.live(_attachments),
        _attachments.c.state.in_(_USING),
        _attachments.c.instance_uuid.is_not(None))).scalars())


def _claimed(database: storage_db.Database, claim: records.Claim) -> Any:
    return _CLAIMED.first(database, volume_id=claim.resource_id, verb=claim.verb,
                          generation=claim.generation, owner=claim.owner)


def _listed(filters: Filters) -> list[sa.ColumnElement[bool]]:
    listed = [volume_rows.LIVE]
    if filters.project_id is not None:
        listed.append(_volumes.c.project_id == filters.project_id)
    if not filters.targets:
        # Cinder marks the second volume of a migration by this status.
        listed.append(sa.or_(_volumes.c.migration_status.is_(None),
                             _volumes.c.migration_status.not_like('target:%')))
    return listed


def _filtered(query: sa.Select, filters: Filters) -> sa.Select:
    query = query.where(*_listed(filters))
    for key, value in filters.equal.items():
        column = SORT_COLUMNS[key]
        query = query.where(
            column.in_(value) if isinstance(value, (list, tuple))
            else _on_host(value) if key == 'host' else column == value)
    for key, text in filters.like.items():
        query = query.where(SORT_COLUMNS[key].contains(text, autoescape=True))
    for key, name, value in filters.compared:
        query = query.where(_OPERATORS[name](SORT_COLUMNS[key], value))
    for table, pairs in ((_metadata, filters.metadata), (_image_metadata, filters.image_metadata)):
        for key, value in pairs.items():
            query = query.where(sa.exists().where(
                table.c.volume_id == _volumes.c.id, table.c.key == key, table.c.value == value))
    return query


def _on_host(name: str) -> sa.ColumnElement[bool]:
    # The name may be that of a host, a ``host@backend`` or a pool.
    pool = _volumes.c.pool
    return sa.or_(pool == name, *(pool.startswith(f'{name}{sign}', autoescape=True)
                                  for sign in '@#'))


def _children(connection: sa.Connection,
              volumes: Sequence[sa.Row[Any]]) -> list[dict[str, Any]]:
    """Return the metadata and attached servers of each volume, as fields of `records.Volume`."""
    found: dict[str, dict[str, Any]] = {
        row.id: {'metadata': {}, 'image_metadata': {}, 'attached': (), 'limits': None}
        for row in volumes}
    for volume_id, field, key, value in _of_ids(connection, _all_pairs, list(found)):
        found[volume_id][field][key] = value
    servers: dict[str, list[Any]] = {}
    # Only a volume with this lowest rank has attached servers. A page without such volumes needs
    # no query.
    for row in _of_ids(connection, _all_servers,
                       [row.id for row in volumes if row.lowest_rank == _ATTACHED]):
        servers.setdefault(row.volume_id, []).append(row)
    for volume_id, some in servers.items():
        found[volume_id]['attached'] = _attached(some)
    return list(found.values())


def _attached(servers: Iterable[Any]) -> tuple[records.AttachedServer, ...]:
    # The rows are sorted here, because they come from a union or belong to several volumes.
    return tuple(records.AttachedServer(row.id, row.instance_uuid, row.host, row.mountpoint,
                                        row.attached_at)
                 for row in sorted(servers, key=lambda row: (row.created_at, row.id)))


def _of_ids(connection: sa.Connection, statement: Callable[[int], statements.Statement],
            ids: list[str]) -> list[Any]:
    if not ids:
        return []
    size = _size(len(ids))
    return statement(size).rows(connection, **{
        f'id_{number}': one for number, one in enumerate(ids + [None] * (size - len(ids)))})


def _size(length: int) -> int:
    if length <= _SHORT:
        return length
    return next((size for size in _SIZES if size >= length),
                math.ceil(length / _SIZES[-1]) * _SIZES[-1])


# The statements are cached for each number of ids. SQLAlchemy would otherwise name each of a
# thousand ids again for each page, which takes as long as all other work for the page.
@functools.cache
def _all_pairs(size: int) -> statements.Statement:
    return statements.Statement(lambda dialect: sa.union_all(*(
        _pairs(field, lambda volume_id: volume_id.in_(_ids(size))) for field in _PAIRS)),
        parsed_once=False)


@functools.cache
def _all_servers(size: int) -> statements.Statement:
    return statements.Statement(
        lambda dialect: _servers(_attachments.c.volume_id.in_(_ids(size))), parsed_once=False)


def _servers(of_volumes: sa.ColumnElement[bool]) -> sa.Select:
    return sa.select(
        _attachments.c.volume_id, sa.literal_column("'attached'").label('field'),
        sa.null().label('key'), sa.null().label('value'),
        *(_attachments.c[name] for name in _OF_SERVER),
    ).where(of_volumes, _attachments.c.rank == _ATTACHED)


def _pairs(field: str, of_volumes: Callable[[sa.Column[Any]], sa.ColumnElement[bool]],
           *more: sa.ColumnElement[Any]) -> sa.Select:
    # The columns are the first ones of `_servers`, for a union of both.
    table = _PAIRS[field]
    return sa.select(table.c.volume_id, sa.literal_column(f"'{field}'").label('field'),
                     table.c.key, table.c.value, *more).where(of_volumes(table.c.volume_id))


def _ids(size: int) -> list[Any]:
    return [statements.value(f'id_{number}', _volumes.c.id.type) for number in range(size)]
