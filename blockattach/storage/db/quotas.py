"""Quotas of projects: checks within the transactions that add usage, and changes of limits.

Usage is counted from live rows and not stored, so it cannot drift. A caller reads the limits
before its transaction (`limits`), and checks them within the transaction (`check`).

Near a limit, the check updates the row of the project. Transactions that add usage to the same
project then wait for each other, or conflict if the database has several writers. Far from the
limits, a process may add resources several times before it counts the usage again. A volume that
is being retyped counts for both volume types until the retype ends.

Lock order: volumes and their snapshots, project, volume type, attachments.
"""
import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.domain import quotas

MARGIN = 1024
"""Distance to a limit below which usage is counted for each addition.

The unit is `quotas.Resource.grain`.
"""
UNCOUNTED = 16
"""Number of additions that a process makes between two counts, far from the limit.

`MARGIN` covers the additions of 64 processes.
"""
# Limits the memory that a process needs.
_MOST_COUNTED = 8192
_HIGHEST = 2 ** 31 - 1

LOCK = '*'
"""Value of ``quotas.resource`` in the row that is updated to lock a project."""
DEFAULT_CLASS = 'default'
"""Name of the quota class whose limits apply to projects without limits of their own."""

_quotas = models.quotas
_classes = models.quota_classes
_volumes = models.volumes
_snapshots = models.snapshots
_attachments = models.attachments
_work = models.work

_OWN, _CLASS, _CLAIMED, _RETYPING = 'own', 'class', 'claimed', 'retyping'
_READ = {quotas.VOLUMES: (quotas.VOLUMES, _RETYPING), quotas.SNAPSHOTS: (quotas.SNAPSHOTS,),
         quotas.GIGABYTES: (quotas.VOLUMES, quotas.SNAPSHOTS, _CLAIMED, _RETYPING),
         quotas.ATTACHMENTS: (quotas.ATTACHMENTS,)}
"""Parts of the usage from which the usage of each resource is computed."""
_NO_USE: frozenset[str] = frozenset()
_ALL_USE = frozenset(part for parts in _READ.values() for part in parts)
_PROJECT = statements.value('project_id', _quotas.c.project_id.type)
# This is an update, because a locking read does not block other nodes of a multi-writer database.
_LOCK = statements.Statement(lambda dialect: _quotas.update().where(
    _quotas.c.project_id == _PROJECT, _quotas.c.resource == LOCK,
).values(hard_limit=sa.case((_quotas.c.hard_limit < _HIGHEST, _quotas.c.hard_limit + 1), else_=0)))


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a project by key (`quotas.key_of`), as read before a transaction."""

    project_id: str
    by_key: Mapping[str, int]


def limits(database: storage_db.Database, project_id: str) -> Limits:
    """Return the present limits of a project.

    Called before the transaction that checks the limits, because they may come from Keystone.
    """
    elsewhere = _elsewhere(database, project_id)
    if elsewhere is not None:
        return Limits(project_id, elsewhere)
    with database.reader() as connection:
        return Limits(project_id, _stored(database, _rows(connection, project_id, _NO_USE)))


def attachment_limits(database: storage_db.Database, project_id: str, own: int | None,
                      of_class: int | None) -> Limits:
    """Return the limits of a project that `check_attachment` needs.

    The result contains only the limit of attachments, unless the limits come from Keystone.

    :param own: ``own_limit`` as read by `attachment_limit_of`; None if the project has no such
        limit
    :param of_class: ``class_limit`` as read by `attachment_limit_of`; None if the default quota
        class has no such limit
    """
    if database.limit_source is not None:
        return limits(database, project_id)
    default = of_class if database.quota.use_default_quota_class else None
    found = (limit for limit in (own, default, database.quota.quota_attachments)
             if limit is not None)
    return Limits(project_id, {quotas.ATTACHMENTS: next(found)})


def attachment_limit_of(project_id: sa.ColumnElement[str]) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns ``own_limit`` and ``class_limit`` for a query of volumes.

    The columns contain the limit of attachments of the project, and that of the default quota
    class. A limit that is not set is NULL.
    """
    return (sa.select(_quotas.c.hard_limit).where(
                _quotas.c.project_id == project_id, _quotas.c.resource == quotas.ATTACHMENTS,
            ).scalar_subquery().label('own_limit'),
            sa.select(_classes.c.hard_limit).where(
                _classes.c.class_name == DEFAULT_CLASS,
                _classes.c.resource == quotas.ATTACHMENTS).scalar_subquery().label('class_limit'))


def check(connection: sa.Connection, database: storage_db.Database, of: Limits,
          addition: quotas.Asked) -> None:
    """Check the quotas of a project before the transaction adds usage.

    The transaction must not have read anything without a lock before, because MariaDB would then
    show the rows as they were at the time of that read. If the transaction has to read without a
    lock, it calls `lock_if_near` before the read, and `count` afterwards. The caller must be
    decorated with `storage_db.retried`.

    :param of: limits of the project, as read before the transaction
    :param addition: usage that the transaction adds
    :raises QuotaExceeded: the addition exceeds a quota; nothing was changed
    :raises VolumeSizeExceedsLimit: the volume is larger than the limit ``per_volume_gigabytes``
    """
    if lock_if_near(connection, database, of, addition):
        count(connection, database, of, addition)


def check_attachment(connection: sa.Connection, database: storage_db.Database, of: Limits) -> None:
    """Check the quota of attachments after the transaction has written a new attachment.

    :raises QuotaExceeded: the quota is exceeded; the caller must roll the transaction back
    """
    addition = quotas.attachment()
    # Because of the lock of the project, no two transactions count its attachments at once.
    if lock_if_near(connection, database, of, addition):
        count(connection, database, of, addition, written=True)


def check_snapshot(connection: sa.Connection, database: storage_db.Database, of: Limits,
                   volume: Any) -> None:
    """Check the quotas for a new snapshot of a locked volume, under the conditions of `check`.

    :raises QuotaExceeded: the snapshot exceeds a quota; nothing was changed
    """
    check(connection, database, of, quotas.snapshot(
        volume.volume_type_id, volume.size_gb,
        count_gigabytes=not database.quota.no_snapshot_gb_quota))


def check_growth(connection: sa.Connection, database: storage_db.Database, of: Limits, volume: Any,
                 size_gb: int) -> None:
    """Check the quotas for the extension of a locked volume, under the conditions of `check`.

    :param size_gb: new size of the volume in GiB
    :raises QuotaExceeded, VolumeSizeExceedsLimit: the size exceeds a quota; nothing was changed
    """
    check(connection, database, of, quotas.growth(
        volume.volume_type_id, size_gb, size_gb - volume.size_gb))


def check_retype(connection: sa.Connection, database: storage_db.Database, of: Limits, volume: Any,
                 type_id: str) -> None:
    """Check the quotas for the retype of a locked volume, under the conditions of `check`.

    :param type_id: id of the new volume type
    :raises QuotaExceeded: the retype exceeds a quota; nothing was changed
    """
    check(connection, database, of, quotas.retype(type_id, volume.size_gb))


def lock_if_near(connection: sa.Connection, database: storage_db.Database, of: Limits,
                 addition: quotas.Asked) -> bool:
    """Lock a project, unless its usage is far from all limits.

    :returns: True if the project was locked. The caller must then call `count`
    :raises VolumeSizeExceedsLimit: the volume is larger than the limit ``per_volume_gigabytes``
    """
    quotas.check_size(addition, of.by_key.get(quotas.VOLUME_SIZE, quotas.UNLIMITED))
    if all(_is_far(database, of.project_id, key, addition.added[key], limit)
           for key, limit in quotas.limited(addition, of.by_key).items()):
        return False
    lock(connection, of.project_id)
    return True


def count(connection: sa.Connection, database: storage_db.Database, of: Limits,
          addition: quotas.Asked, written: bool = False) -> None:
    """Count the usage of a locked project, and check the quotas that an addition affects.

    :param written: True if the transaction has written the added rows already
    :raises QuotaExceeded: a quota is exceeded; the caller must roll the transaction back
    """
    parts = frozenset(itertools.chain(*(_READ[quotas.split(key)[0]] for key in addition.added)))
    rows = _rows(connection, of.project_id, parts)
    by_key = of.by_key if database.limit_source is not None else _stored(database, rows)
    used = _used(database, rows)
    if written:
        used |= {key: quotas.Used(one.in_use - addition.added[key], one.reserved)
                 for key, one in used.items() if key in addition.added}
    limited = quotas.limited(addition, by_key)
    quotas.check(addition, limited, used, functools.partial(_name_of, connection))
    # Clearing is safe, because usage that is not stored here is counted again.
    if len(database.counted) >= _MOST_COUNTED:
        database.counted.clear()
    for key in limited:
        database.counted[of.project_id, key] = (
            sum(used.get(key, quotas.Used())), itertools.repeat(True, UNCOUNTED))


def lock(connection: sa.Connection, project_id: str) -> None:
    """Lock a project until the transaction ends.

    The caller must be decorated with `storage_db.retried`.

    :raises RetryRequest: another process has locked the project for the first time at the same
        moment
    """
    # After the first lock of a project, its row exists. So the insertion is rare.
    if _LOCK.change(connection, project_id=project_id):
        return
    try:
        connection.execute(_quotas.insert().values(
            project_id=project_id, resource=LOCK, hard_limit=0))
    except db_exception.DBDuplicateEntry as exc:
        # Another process has inserted the row. The repeated function will update the row.
        raise db_exception.RetryRequest(exc) from exc


def show(database: storage_db.Database, project_id: str, usage: bool = True,
         caller: str | None = None) -> quotas.QuotaSet:
    """Return the limits and the usage of a project.

    :param usage: False to return the limits without the usage
    :param caller: project of the caller. Limits of a volume type are left out if this project has
        no access to the type; None to include all types
    """
    elsewhere = _elsewhere(database, project_id)
    with database.reader() as connection:
        rows = _rows(connection, project_id, _ALL_USE if usage else _NO_USE)
        keys = quotas.names(_type_names(connection, caller))
    by_key = _stored(database, rows) if elsewhere is None else elsewhere
    used = _used(database, rows)
    own = {row.key for row in rows if row.part == _OWN}
    return quotas.QuotaSet(
        project_id, _named(keys, by_key),
        {name: used.get(key, quotas.Used()) for name, key in keys.items()},
        frozenset(name for name, key in keys.items() if key in own))


def defaults(database: storage_db.Database, caller: str | None = None) -> dict[str, int]:
    """Return the default limits of projects by name.

    :param caller: see `show`
    """
    # No project has an empty id. So the result contains no limits that were set for a project.
    return dict(show(database, '', usage=False, caller=caller).limits)


def show_class(database: storage_db.Database, class_name: str) -> dict[str, int]:
    """Return the limits of a quota class by name.

    If the class has no value for a limit, the value of the default class is returned, or else the
    configured value.
    """
    with database.reader() as connection:
        keys = quotas.names(_type_names(connection))
        found = {name: {row.resource: row.hard_limit for row in connection.execute(
            _classes.select().where(_classes.c.class_name == name))}
            for name in (DEFAULT_CLASS, class_name)}
    return _named(keys, {**_configured(database), **found[DEFAULT_CLASS], **found[class_name]})


def keys_by_name(database: storage_db.Database) -> dict[str, str]:
    """Return the key of each limit (`quotas.key_of`), by the name of the limit in the API."""
    with database.reader() as connection:
        return quotas.names(_type_names(connection))


@storage_db.retried
def change(database: storage_db.Database, project_id: str, by_key: Mapping[str, int]) -> None:
    """Set limits of a project. A limit may be lower than the present usage.

    :param by_key: new limits; other limits of the project are not changed
    """
    with database.writer() as connection:
        # This waits for transactions that have checked the former limits.
        lock(connection, project_id)
        _replace(connection, _quotas, {'project_id': project_id}, by_key)


@storage_db.retried
def reset(database: storage_db.Database, project_id: str) -> None:
    """Delete the limits of a project, so that the default limits apply."""
    with database.writer() as connection:
        lock(connection, project_id)
        connection.execute(_quotas.delete().where(
            _quotas.c.project_id == project_id, _quotas.c.resource != LOCK))


@storage_db.retried
def change_class(database: storage_db.Database, class_name: str,
                 by_key: Mapping[str, int]) -> None:
    """Set limits of a quota class.

    :param by_key: new limits; other limits of the class are not changed
    """
    try:
        with database.writer() as connection:
            _replace(connection, _classes, {'class_name': class_name}, by_key)
    except db_exception.DBDuplicateEntry as exc:
        # A concurrent change has inserted the rows. The repeated function will replace the rows.
        raise db_exception.RetryRequest(exc) from exc


def forget_type(connection: sa.Connection, type_id: str) -> None:
    """Delete the limits that projects and quota classes have for a volume type."""
    keys = [quotas.key_of(resource, type_id) for resource in quotas.OF_TYPES]
    for table in (_quotas, _classes):
        # Rows are deleted by their primary key. On MariaDB, a deletion by the resource would lock
        # all rows of the table.
        for found in connection.execute(
                sa.select(*table.primary_key.columns).where(table.c.resource.in_(keys))).all():
            connection.execute(table.delete().where(*(
                column == value for column, value in zip(
                    table.primary_key.columns, found, strict=True))))


def _replace(connection: sa.Connection, table: sa.Table, owner: Mapping[str, str],
             by_key: Mapping[str, int]) -> None:
    if by_key:
        connection.execute(table.delete().where(
            *(table.c[name] == value for name, value in owner.items()),
            table.c.resource.in_(by_key)))
        connection.execute(table.insert(), [
            {**owner, 'resource': key, 'hard_limit': limit} for key, limit in by_key.items()])


def _is_far(database: storage_db.Database, project_id: str, key: str, added: int,
            limit: int) -> bool:
    # The distance covers the usage that other processes add without a count, see `MARGIN`.
    grain = quotas.RESOURCES[quotas.split(key)[0]].grain
    used, uncounted = database.counted.get((project_id, key), (0, iter(())))
    return added <= grain and used + MARGIN * grain < limit and next(uncounted, False)


def _configured(database: storage_db.Database) -> dict[str, int]:
    return {row.name: getattr(database.quota, row.option) for row in quotas.RESOURCES.values()}


def _stored(database: storage_db.Database, rows: Iterable[Any]) -> dict[str, int]:
    """Return the limits in the database by key, and the configured values of other limits.

    The result contains a limit of a volume type only if the limit is set in the database.
    """
    found = _configured(database)
    for part in (_CLASS, _OWN) if database.quota.use_default_quota_class else (_OWN,):
        found |= {row.key: row.number for row in rows if row.part == part}
    return found


def _elsewhere(database: storage_db.Database, project_id: str) -> dict[str, int] | None:
    """Return the limits of a project by key from Keystone, or None if the database has them."""
    if database.limit_source is None:
        return None
    found = database.limit_source(project_id)
    keys = keys_by_name(database)
    return {**_configured(database), **{
        keys[name]: limit for name, limit in found.items() if name in keys}}


def _used(database: storage_db.Database, rows: Iterable[Any]) -> dict[str, quotas.Used]:
    found: dict[str, quotas.Used] = {}

    def add(resource: str, type_id: str, in_use: int, reserved: int = 0) -> None:
        for key in (resource, quotas.key_of(resource, type_id)):
            before = found.get(key, quotas.Used())
            found[key] = quotas.Used(before.in_use + in_use, before.reserved + reserved)

    def reserve(key: str, number: int) -> None:
        before = found.get(key, quotas.Used())
        found[key] = before._replace(reserved=before.reserved + number)
    for row in rows:
        if row.part in (_OWN, _CLASS):
            continue
        # A sum is a Decimal on MariaDB and PostgreSQL.
        number, size_gb = int(row.number), int(row.size_gb)
        if row.part == _CLAIMED:
            add(quotas.GIGABYTES, row.key, 0, size_gb)
            continue
        if row.part == _RETYPING:
            # The column ``key`` contains the progress of the retype, with the id of the new type.
            type_id = json.loads(row.key)['type_id']
            reserve(quotas.key_of(quotas.VOLUMES, type_id), 1)
            reserve(quotas.key_of(quotas.GIGABYTES, type_id), size_gb)
            continue
        add(row.part, row.key, number)
        if row.part == quotas.VOLUMES or (
                row.part == quotas.SNAPSHOTS and not database.quota.no_snapshot_gb_quota):
            add(quotas.GIGABYTES, row.key, size_gb)
    return found


def _named(keys: Mapping[str, str], by_key: Mapping[str, int]) -> dict[str, int]:
    return {name: by_key.get(key, quotas.UNLIMITED) for name, key in keys.items()}


def _type_names(connection: sa.Connection, project_id: str | None = None) -> dict[str, str]:
    """Return the names of live volume types by id.

    :param project_id: project that must have access to the types; None for all types
    """
    types, granted = models.volume_types, models.volume_type_projects
    query = sa.select(types.c.id, types.c.name).where(models.live(types)).order_by(types.c.name)
    if project_id is not None:
        query = query.where(sa.or_(types.c.is_public == sa.true(), sa.exists().where(
            granted.c.volume_type_id == types.c.id, granted.c.project_id == project_id)))
    return {row.id: row.name for row in connection.execute(query)}


def _name_of(connection: sa.Connection, type_id: str) -> str:
    types = models.volume_types
    return str(connection.execute(
        sa.select(types.c.name).where(types.c.id == type_id)).scalar_one_or_none() or type_id)


def _rows(connection: sa.Connection, project_id: str, parts: frozenset[str]) -> list[Any]:
    # A single statement reads the limits and the usage as of the same moment.
    return _statement(parts).rows(connection, project_id=project_id)


@functools.cache
def _statement(parts: frozenset[str]) -> statements.Statement:
    return statements.Statement(lambda dialect: sa.union_all(
        sa.select(*_columns(_OWN, _quotas.c.resource, _quotas.c.hard_limit)).where(
            _quotas.c.project_id == _PROJECT, _quotas.c.resource != LOCK,
            # An earlier release locked projects by rows without a limit.
            _quotas.c.hard_limit.is_not(None)),
        sa.select(*_columns(_CLASS, _classes.c.resource, _classes.c.hard_limit)).where(
            _classes.c.class_name == DEFAULT_CLASS),
        *(_usage(part) for part in sorted(parts))))


def _usage(part: str) -> sa.Select[Any]:
    if part == quotas.ATTACHMENTS:
        return sa.select(*_columns(part, sa.literal_column("''"), sa.func.count())).where(
            models.live(_attachments), _attachments.c.project_id == _PROJECT)
    if part == _RETYPING:
        return sa.select(*_columns(
            part, _work.c.progress, sa.literal_column('1'), _volumes.c.size_gb,
        )).join(_work, sa.and_(_work.c.noun == 'volume', _work.c.verb == 'retype',
                               _work.c.resource_id == _volumes.c.id)).where(
            models.live(_volumes), _volumes.c.project_id == _PROJECT)
    table = _snapshots if part == quotas.SNAPSHOTS else _volumes
    size = _volumes.c.claimed_gb if part == _CLAIMED else table.c.size_gb
    query = sa.select(*_columns(
        part, table.c.volume_type_id, sa.func.count(), sa.func.coalesce(sa.func.sum(size), 0),
    )).where(models.live(table), table.c.project_id == _PROJECT).group_by(table.c.volume_type_id)
    # Space claimed on another pool belongs to a migration, which does not change the size.
    return query if part != _CLAIMED else query.where(_volumes.c.claimed_gb.is_not(None), sa.or_(
        _volumes.c.claimed_pool.is_(None), _volumes.c.claimed_pool == _volumes.c.pool))


def _columns(part: str, key: sa.ColumnElement[Any], number: sa.ColumnElement[Any],
             size_gb: sa.ColumnElement[Any] | None = None) -> tuple[sa.ColumnElement[Any], ...]:
    return (sa.literal_column(f"'{part}'", sa.String).label('part'), key.label('key'),
            number.label('number'),
            (sa.literal_column('0') if size_gb is None else size_gb).label('size_gb'))
