"""Facts about a volume by which the scheduler chooses a pool for the volume."""
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import hint_filters
from blockattach.storage.domain import messages as domain_messages
from blockattach.storage.domain import pools
from blockattach.storage.domain import records

_volumes = models.volumes
_types = models.volume_types
_snapshots = models.snapshots
_work = models.work

_NAMES = {
    'status': _volumes.c.status, 'attach_status': _volumes.c.attach_status,
    'display_name': _volumes.c.name, 'display_description': _volumes.c.description,
    'project_id': _volumes.c.project_id, 'user_id': _volumes.c.user_id,
    'volume_type_id': _volumes.c.volume_type_id,
}
"""Columns that filter and goodness expressions can use, by the name after ``volume.``.

The request of the scheduler adds further names.
"""


def _pool_of(table: sa.FromClause, which: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.select(table.c.pool).where(table.c.id == which).scalar_subquery()


_FACTS = statements.Statement(lambda dialect: volume_rows.with_limits(sa.select(
    _volumes.c.scheduler_hints, _volumes.c.pool, _work.c.verb, _work.c.progress,
    sa.func.coalesce(_volumes.c.source_volid, _volumes.c.snapshot_id).label('source_id'),
    sa.func.coalesce(_pool_of(_volumes.alias('source'), _volumes.c.source_volid),
                     _pool_of(_snapshots, _volumes.c.snapshot_id)).label('source_pool'),
    messages.is_there(statements.value('refusal')).label('refusal_reported'),
    *(column.label(f'of_{name}') for name, column in _NAMES.items()),
).join(_types, _types.c.id == _volumes.c.volume_type_id).outerjoin(
    _work, sa.and_(_work.c.noun == 'volume', _work.c.resource_id == _volumes.c.id),
)).where(_volumes.c.id == statements.value('volume_id'), volume_rows.LIVE))


def read(database: storage_db.Database, volume_id: str, count: bool) -> pools.Facts:
    """Return the facts about an existing volume, except ``server_host`` and ``server_lost``.

    :param count: True to count the volumes of each pool
    :raises VolumeNotFound: there is no such live volume
    """
    with database.reader() as connection:
        row = _FACTS.first(connection, volume_id=volume_id,
                           refusal=messages.name_of(domain_messages.NO_VALID_POOL, volume_id))
        if row is None:
            raise errors.VolumeNotFound(volume_id=volume_id)
        # Scheduler hints apply only to the creation of a volume.
        is_made = row.verb not in (None, 'create')
        hints = {} if is_made else rows.from_json(row.scheduler_hints) or {}
        return pools.Facts(
            hints=hints, volume={name: getattr(row, f'of_{name}') for name in _NAMES},
            qos=rows.from_json(row.qos_specs) or {},
            attempts=0 if is_made else len(_progress(row).get('tried', ())) + (
                row.pool is not None),
            refusal_reported=bool(row.refusal_reported),
            source_host=None if is_made or row.source_id is None else
            records.host_of(row.source_pool) or '',
            placed=_placed(connection, row.of_project_id, _named(hints)),
            volumes=_counts(connection) if count else {})


def of_new(database: storage_db.Database, volume_type_id: str, project_id: str | None,
           user_id: str | None, count: bool) -> pools.Facts:
    """Return the facts about a volume that does not exist yet.

    :param volume_type_id: type that the volume would have
    :param project_id: project that would own the volume; None if unknown
    :param user_id: user that would create the volume; None if unknown
    :param count: True to count the volumes of each pool
    :raises VolumeTypeNotFound: there is no such type
    """
    specs = models.qos_specs
    with database.reader() as connection:
        row = connection.execute(sa.select(_types.c.id, specs.c.specs).outerjoin(
            specs, specs.c.id == _types.c.qos_specs_id,
        ).where(_types.c.id == volume_type_id)).one_or_none()
        if row is None:
            raise errors.VolumeTypeNotFound(volume_type_id=volume_type_id)
        return pools.Facts(
            volume={'status': 'creating', 'attach_status': 'detached', 'display_name': None,
                    'display_description': None, 'project_id': project_id,
                    'user_id': user_id, 'volume_type_id': row.id},
            qos=rows.from_json(row.specs) or {},
            volumes=_counts(connection) if count else {})


def request(database: storage_db.Database, volume_id: str) -> pools.VolumeRequest:
    """Return the requirements on a pool that follow from a volume, its type and its work.

    :raises VolumeNotFound: there is no such live volume
    """
    specs = models.volume_type_extra_specs
    found = volume_queries.get_bare(database, volume_id)
    with database.reader() as connection:
        at_work = connection.execute(sa.select(_work.c.verb, _work.c.progress).where(
            _work.c.noun == 'volume', _work.c.resource_id == volume_id)).one_or_none()
        progress = _progress(at_work)
        rows_of_type = connection.execute(
            sa.select(specs.c.key, specs.c.value).where(
                specs.c.volume_type_id == progress.get('type_id', found.volume_type_id))).all()
    verb = 'create' if at_work is None else at_work.verb
    return pools.request_of(found, {row.key: row.value for row in rows_of_type}, verb, progress)


def _progress(row: Any) -> dict[str, Any]:
    return (row and rows.from_json(row.progress)) or {}


def forget_refusal(database: storage_db.Database, volume_id: str) -> None:
    """Delete the user message that no pool is suitable for a volume.

    Called if a pool is found after the message was created.
    """
    messages.delete(database, messages.name_of(domain_messages.NO_VALID_POOL, volume_id))


def _named(hints: dict[str, Any]) -> set[str]:
    return {one for name in (hint_filters.SAME, hint_filters.DIFFERENT)
            for one in hint_filters.volume_ids(hints, name) or ()}


def _placed(connection: sa.Connection, project_id: str, ids: Iterable[str]) -> dict[str, str]:
    # Volumes of other projects are left out, because a project must not learn their pools.
    volume_ids = list(ids)
    if not volume_ids:
        return {}
    return {row.id: row.pool for row in connection.execute(
        sa.select(_volumes.c.id, _volumes.c.pool).where(
            _volumes.c.id.in_(volume_ids), volume_rows.LIVE,
            _volumes.c.project_id == project_id, _volumes.c.pool.is_not(None)))}


def _counts(connection: sa.Connection) -> dict[str, int]:
    return {row.pool: row.number for row in connection.execute(
        sa.select(_volumes.c.pool, sa.func.count().label('number'))
        .where(volume_rows.LIVE, _volumes.c.pool.is_not(None)).group_by(_volumes.c.pool))}
