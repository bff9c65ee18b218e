"""Writes of an import. Each is one transaction and can be repeated: existing rows are skipped."""
import logging
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach.platform import log
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.importing import report
from blockattach.storage.db.importing import volumes
from blockattach.storage.domain import importing

LOG = logging.getLogger(__name__)

_types = models.volume_types
_OF_TYPES = ('volume_type_extra_specs', 'volume_type_encryptions', 'volume_type_projects')
_REFUSALS = (sa.exc.IntegrityError, sa.exc.DataError, OverflowError, UnicodeError)
"""Errors of a database or its driver about a value that it does not accept."""
_CHILDREN = ('volume_metadata', 'volume_image_metadata', 'snapshots', 'snapshot_metadata',
             'attachments')


def missing(connection: sa.Connection, name: str,
            rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose key does not exist here, without the parts of existing types."""
    table = models.metadata.tables[name]
    if name in _OF_TYPES:
        types = set(connection.execute(sa.select(_types.c.id)).scalars())
        return [dict(row) for row in rows if row['volume_type_id'] not in types]
    key = [column.name for column in table.primary_key]
    query = sa.select(*(table.c[column] for column in key))
    if name == 'quotas':
        # An earlier release locked a project by a row without a limit.
        query = query.where(table.c.hard_limit.is_not(None))
    there = {tuple(row) for row in connection.execute(query)}
    return [dict(row) for row in rows if tuple(row[column] for column in key) not in there]


def taken_names(connection: sa.Connection, rows: Sequence[Mapping[str, Any]],
                name: str = 'volume_types') -> tuple[list[str], list[str]]:
    """Return the conflicts between the names of imported rows and of rows that exist here.

    A volume type that exists here and was never used is replaced by the imported type. Any other
    conflict prevents the import of the row.

    :param name: ``volume_types`` or ``qos_specs``
    :returns: ids of rows here to replace, and ids of rows in Cinder that cannot be imported
    """
    table = models.metadata.tables[name]
    by_name = {row['live_name']: row['id'] for row in rows}
    there = {row.id: row.live_name for row in connection.execute(
        sa.select(table.c.id, table.c.live_name).where(models.live(table)))
        if by_name.get(row.live_name, row.id) != row.id}
    used = set(connection.execute(sa.union(
        sa.select(models.volumes.c.volume_type_id),
        sa.select(models.snapshots.c.volume_type_id),
        sa.select(models.default_volume_types.c.volume_type_id))).scalars()) \
        if name == 'volume_types' else set(there)
    return ([one for one in there if one not in used],
            [by_name[there[one]] for one in there if one in used])


@storage_db.retried
def catalogue(database: storage_db.Database, tables: Mapping[str, Sequence[Mapping[str, Any]]],
              into: report.Report) -> None:
    """Write volume types, QoS specs and limits in one transaction.

    :param tables: rows by table, in the order in which they refer to each other
    :param into: report to which the numbers of rows are added
    """
    with database.writer() as connection:
        types = missing(connection, 'volume_types', tables['volume_types'])
        replaced, _ = taken_names(connection, types)
        if replaced:
            connection.execute(_types.update().where(_types.c.id.in_(replaced)).values(
                live_name=None, deleted=True, deleted_at=database.clock.utcnow()))
        counts: dict[str, tuple[int, int]] = {}
        # Determined before any type is written, because parts of existing types are skipped.
        absent = {name: missing(connection, name, of_table) for name, of_table in tables.items()}
        for name, new in absent.items():
            if name == 'quotas' and new:
                _unlock(connection, new)
            if new:
                connection.execute(models.metadata.tables[name].insert(), new)
            counts[name] = (len(new), len(tables[name]) - len(new))
    _count(into, counts)


def write(database: storage_db.Database, batch: Sequence[volumes.Draft],
          into: report.Report) -> None:
    """Write volumes in one transaction, or one by one if the database refuses any of them.

    A refused volume is added to the report and does not prevent others from being written.
    """
    try:
        drafts(database, batch, into)
    except (oslo_db_exception.DBError, *_REFUSALS) as exc:
        inner = getattr(exc, 'inner_exception', None) or exc
        if not isinstance(inner, _REFUSALS):
            raise
        if len(batch) == 1:
            reason = ' '.join(str(getattr(inner, 'orig', None) or inner).split())
            LOG.warning('Failed to import volume%s', log.fields(
                volume_id=batch[0].id, reason=reason))
            into.refused.append(report.Finding(
                importing.NOT_WRITTEN, 'volumes', batch[0].id, text=reason))
            return
        for draft in batch:
            write(database, [draft], into)


@storage_db.retried
def drafts(database: storage_db.Database, batch: Sequence[volumes.Draft],
           into: report.Report) -> None:
    """Write volumes and their metadata, snapshots, attachments and grants in one transaction.

    Volumes that exist here are skipped.

    :param into: report to which the numbers of rows are added
    """
    with database.writer() as connection:
        there = set(connection.execute(sa.select(models.volumes.c.id).where(
            models.volumes.c.id.in_([draft.id for draft in batch]))).scalars())
        new = [draft for draft in batch if draft.id not in there]
        counts = {}
        for name in ('volumes', *_CHILDREN):
            written = [row for draft in new for row in draft.rows[name]]
            if written:
                connection.execute(models.metadata.tables[name].insert(), written)
            counts[name] = (len(written),
                            sum(len(draft.rows[name]) for draft in batch) - len(written))
        adopted = [row for draft in new
                   for row in grants.adopted(database, draft.id, draft.credentials)]
        if adopted:
            connection.execute(models.grants.insert(), adopted)
            grants.check_sealed_by(database, adopted[0]['key_id'])
    _count(into, counts)


def _count(into: report.Report, counts: Mapping[str, tuple[int, int]]) -> None:
    """Add numbers of rows to a report.

    Called after the commit, because the transaction may be repeated.
    """
    for name, (taken, there) in counts.items():
        into.taken[name] += taken
        into.there[name] += there


def _unlock(connection: sa.Connection, new: Sequence[Mapping[str, Any]]) -> None:
    """Delete the rows without a limit that are replaced by imported limits.

    An earlier release locked projects by such rows.
    """
    for row in new:
        connection.execute(models.quotas.delete().where(
            models.quotas.c.project_id == row['project_id'],
            models.quotas.c.resource == row['resource'], models.quotas.c.hard_limit.is_(None)))
