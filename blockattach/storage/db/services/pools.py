"""Pools of backends: their last reports, their allocated space and their use by projects.

A service counts as down after ``down_after`` seconds without a heartbeat.
"""
import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform.db import clock
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import pools

_pools = models.pools
_services = models.services
_volumes = models.volumes

# Reports are less frequent than heartbeats. The report of a pool is recent if it is not older than
# this multiple of ``down_after``.
_MISSED_REPORTS = 3


@storage_db.retried
def report(database: storage_db.Database, host: str,
           reports: Iterable[tuple[str, Mapping[str, Any]]], availability_zone: str) -> None:
    """Store a report of a backend about all its pools.

    ``allocated_gb`` of existing rows is not changed. The row of a pool that is absent from the
    report is deleted, unless volumes are on the pool or space is allocated on the pool.

    :param host: ``host@backend``
    :param reports: full name (``host@backend#pool``) and capabilities of each pool
    """
    reported = dict(reports)
    with database.writer() as connection:
        allocated = _allocated(connection, host)
        # New pools come first, because their insertion locks volumes. Volumes are locked before
        # pools.
        for name in sorted(reported.keys() - allocated.keys()):
            allocated[name] = _add(connection, name, host, availability_zone, reported[name])
        for name, capabilities in sorted(reported.items()):
            connection.execute(_pools.update().where(_pools.c.name == name).values(
                availability_zone=availability_zone, **_measured(capabilities, allocated[name])))
        _forget(connection, allocated.keys() - reported.keys())


@storage_db.retried
def refresh(database: storage_db.Database, reports: Mapping[str, Mapping[str, Any]]) -> bool:
    """Store reports about pools that already have rows.

    The reports must contain ``provisioned_capacity_gb``. The allocated space, which replaces a
    missing value in `report`, is not read here.

    :param reports: capabilities by the full names of the pools (``host@backend#pool``)
    :returns: False if one of the pools has no row, in which case nothing is stored
    """
    with database.writer() as connection:
        for name, capabilities in sorted(reports.items()):
            # No row is inserted, because the allocated space is not known here.
            if statements.update(connection, _pools, {'name': name}, {
                    **_measured(capabilities, 0), 'reported_at': clock.Later(0)}) != 1:
                connection.rollback()
                return False
    return True


@storage_db.retried
def forget(database: storage_db.Database, host: str) -> None:
    """Delete the rows of the pools of a removed backend. Pools with volumes keep their rows.

    :param host: ``host@backend``
    """
    with database.writer() as connection:
        _forget(connection, _allocated(connection, host))


def list_all(database: storage_db.Database, down_after: float) -> list[pools.Pool]:
    """Return all pools ordered by name.

    A pool is up if its last report is recent, a volume service of its backend is up and enabled,
    and no volume service of its backend is frozen. If the backend has no row in ``services``, only
    the report counts.
    """
    return [_record(row) for row in _ALL.rows(database, **_since(down_after))]


def living(database: storage_db.Database, down_after: float) -> frozenset[str]:
    """Return the backends that are up, including disabled and frozen backends.

    A backend is up if one of its volume services is up, and a recent report of one of its pools
    does not state that the backend is down.

    :returns: ``host@backend`` of each backend
    """
    manager = sa.exists().where(
        _services.c.binary == binaries.VOLUME, services.keeps(_pools.c.host),
        _services.c.reported_at >= clock.now(-down_after))
    query = sa.select(_pools.c.host, _pools.c.capabilities).where(
        _pools.c.reported_at >= clock.now(-down_after * _MISSED_REPORTS), manager)
    with database.reader() as connection:
        return frozenset(row.host for row in connection.execute(query)
                         if pools.says_up(rows.from_json(row.capabilities)))


def get(database: storage_db.Database, name: str, down_after: float) -> pools.Pool:
    """Return a pool by its full name, ``host@backend#pool``.

    :raises PoolNotFound: there is no row for this pool
    """
    row = _ONE.first(database, pool=name, **_since(down_after))
    if row is None:
        raise errors.PoolNotFound(pool=name)
    return _record(row)


def _with_up() -> sa.Select[Any]:
    reported, lived = (clock.now(statements.value(name, sa.Float()))
                       for name in ('report_offset', 'alive_offset'))
    manager = sa.exists().where(_services.c.binary == binaries.VOLUME,
                               services.keeps(_pools.c.host))
    one_serves = sa.or_(~manager, manager.where(
        _services.c.disabled == sa.false(), _services.c.reported_at >= lived))
    up = sa.and_(_pools.c.reported_at >= reported, one_serves,
                 ~manager.where(_services.c.frozen == sa.true()))
    # The oldest service of the backend that is up, or the oldest service if none is up.
    of_manager = sa.select(_services.c.uuid).where(
        _services.c.binary == binaries.VOLUME, services.keeps(_pools.c.host)).order_by(
        (_services.c.reported_at >= lived).desc(), _services.c.id).limit(1)
    return sa.select(_pools, up.label('up'), of_manager.scalar_subquery().label('service_uuid'),
                     ).order_by(_pools.c.name)


_ALL = statements.Statement(lambda dialect: _with_up())
_ONE = statements.Statement(lambda dialect: _with_up().where(
    _pools.c.name == statements.value('pool')))


def _since(down_after: float) -> dict[str, float]:
    return {'report_offset': -down_after * _MISSED_REPORTS, 'alive_offset': -down_after}


def _allocated(connection: sa.Connection, host: str) -> dict[str, int]:
    stored = connection.execute(
        sa.select(_pools.c.name, _pools.c.allocated_gb).where(_pools.c.host == host))
    return {row.name: row.allocated_gb for row in stored}


def _add(connection: sa.Connection, name: str, host: str, availability_zone: str,
         capabilities: Mapping[str, Any]) -> int:
    # Volumes can be older than the row of their pool, for example after an import. The locks keep
    # these volumes on the pool until the commit.
    holding = connection.execute(_volumes.select().where(models.live(_volumes), sa.or_(
        _volumes.c.pool == name, _volumes.c.claimed_pool == name)).with_for_update())
    allocated = sum(row.size_gb * (row.pool == name)
                    + (row.claimed_gb or 0) * (row.claimed_pool == name) for row in holding)
    try:
        connection.execute(_pools.insert().values(
            name=name, host=host, availability_zone=availability_zone,
            allocated_gb=allocated, **_measured(capabilities, allocated)))
    except db_exception.DBDuplicateEntry as exc:
        # Another process of the backend has inserted the row. When `report` is repeated, it finds
        # this row.
        raise db_exception.RetryRequest(exc) from exc
    return allocated


def _forget(connection: sa.Connection, names: Iterable[str]) -> None:
    gone = set(names)
    if not gone:
        return
    holding = connection.execute(
        sa.select(_volumes.c.pool).distinct().where(models.live(_volumes),
                                                    _volumes.c.pool.in_(gone)))
    # The read above misses volumes that are placed on a pool afterwards. Such volumes have
    # increased ``allocated_gb`` of the pool.
    connection.execute(_pools.delete().where(
        _pools.c.name.in_(gone - set(holding.scalars())), _pools.c.allocated_gb <= 0))


def _measured(capabilities: Mapping[str, Any], allocated: int) -> dict[str, Any]:
    # If a backend does not report its provisioned capacity, the allocated space replaces it.
    reported = {'provisioned_capacity_gb': allocated, **capabilities}
    capacity = pools.measure(reported)
    return {
        'capabilities': rows.to_json(_speakable(reported)),
        'total_gb': _finite(capacity.total_gb), 'free_gb': _finite(capacity.free_gb),
        'provisioned_gb': _finite(capacity.provisioned_gb) or 0.0,
        'limit_gb': _finite(capacity.limit_gb), 'thin': capacity.thin,
        'multiattach': pools.flag(capabilities.get('multiattach')), 'reported_at': clock.now()}


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _speakable(value: Any) -> Any:
    # JSON has no infinity. Cinder's drivers and clients use "infinite" instead.
    if isinstance(value, Mapping):
        return {str(key): _speakable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_speakable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 'infinite' if value > 0 else None
    return value


def _record(row: sa.Row[Any]) -> pools.Pool:
    return rows.record(
        pools.Pool, row, total_gb=_or_endless(row.total_gb), free_gb=_or_endless(row.free_gb),
        limit_gb=_or_endless(row.limit_gb), capabilities=rows.from_json(row.capabilities),
        up=bool(row.up))


def _or_endless(value: float | None) -> float:
    return math.inf if value is None else value


class ProjectUse(NamedTuple):
    """Volumes and snapshots of a project on a backend: their numbers and total sizes in GiB."""

    volumes: int = 0
    volumes_gb: int = 0
    snapshots: int = 0
    snapshots_gb: int = 0

    def plus(self, other: 'ProjectUse') -> 'ProjectUse':
        """Return the sums of the numbers and sizes of two instances."""
        return ProjectUse(*map(sum, zip(self, other, strict=True)))


def use_by_project(database: storage_db.Database, backend: str) -> dict[str, ProjectUse]:
    """Return the numbers and sizes of the volumes and snapshots on a backend, by project id.

    :param backend: ``host@backend``
    """
    with database.reader() as connection:
        volumes = {row.project_id: ProjectUse(row.number, row.size_gb)
                   for row in connection.execute(_counted(models.volumes, backend))}
        snapshots = {row.project_id: ProjectUse(0, 0, row.number, row.size_gb)
                     for row in connection.execute(_counted(models.snapshots, backend))}
    return {project: volumes.get(project, ProjectUse()).plus(snapshots.get(project, ProjectUse()))
            for project in sorted(volumes.keys() | snapshots.keys())}


def _counted(table: sa.Table, backend: str) -> sa.Select[Any]:
    return sa.select(
        table.c.project_id, sa.func.count().label('number'),
        sa.cast(sa.func.sum(table.c.size_gb), sa.Integer).label('size_gb'),
    ).where(models.live(table), services.on_host(backend, table.c.pool)).group_by(
        table.c.project_id)
