"""Import of volume types, QoS specs, quotas and volumes from a Cinder database."""
import datetime
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage.db import derived
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.importing import catalogue
from blockattach.storage.db.importing import report
from blockattach.storage.db.importing import source
from blockattach.storage.db.importing import volumes
from blockattach.storage.domain import importing

LOG = logging.getLogger(__name__)

_types = models.volume_types
_OF_TYPES = ('volume_type_extra_specs', 'volume_type_encryptions', 'volume_type_projects')
_REFUSALS = (sa.exc.IntegrityError, sa.exc.DataError, OverflowError, UnicodeError)
"""Errors that report a value that the database or its driver does not accept."""
_CHILDREN = ('volume_metadata', 'volume_image_metadata', 'snapshots', 'snapshot_metadata',
             'attachments')
# Default of ``service_down_time`` in Cinder.
_ALIVE = datetime.timedelta(seconds=60)
_LEFT = ('backups', 'groups')
_HANGING = ('snapshots', 'volume_attachment')
"""Tables in Cinder of objects that belong to volumes."""
_HERE = {'snapshots': 'snapshots', 'attachments': 'volume_attachment'}
"""Names of the tables of `_HANGING` by the names of the tables in this service."""


def _missing(connection: sa.Connection, name: str,
             rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    table = models.metadata.tables[name]
    if name in _OF_TYPES:
        # A volume type that exists in this service keeps its extra specs, encryption and access.
        types = set(connection.execute(sa.select(_types.c.id)).scalars())
        return [dict(row) for row in rows if row['volume_type_id'] not in types]
    key = [column.name for column in table.primary_key]
    query = sa.select(*(table.c[column] for column in key))
    if name == 'quotas':
        # An earlier release locked a project by a row without a limit.
        query = query.where(table.c.hard_limit.is_not(None))
    there = {tuple(row) for row in connection.execute(query)}
    return [dict(row) for row in rows if tuple(row[column] for column in key) not in there]


def _taken_names(connection: sa.Connection, rows: Sequence[Mapping[str, Any]],
                 name: str = 'volume_types') -> tuple[list[str], list[str]]:
    """Return conflicts between the names of rows to import and of existing rows.

    An existing volume type that was never used is replaced by the imported type. Any other
    conflict prevents the import of the row.

    :param rows: rows to import whose ids do not exist in this service
    :param name: table, ``volume_types`` or ``qos_specs``
    :returns: ids of existing rows to replace, and ids of rows in Cinder that cannot be imported
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
def write_catalogue(database: storage_db.Database,
                    tables: Mapping[str, Sequence[Mapping[str, Any]]],
                    into: report.Report) -> None:
    """Write volume types, QoS specs and limits in one transaction.

    :param tables: rows by table of this service. A table comes after the tables that it references
    :param into: report to which the numbers of written and of existing rows are added
    """
    with database.writer() as connection:
        types = _missing(connection, 'volume_types', tables['volume_types'])
        replaced, _ = _taken_names(connection, types)
        if replaced:
            connection.execute(_types.update().where(_types.c.id.in_(replaced)).values(
                live_name=None, deleted=True, deleted_at=database.clock.utcnow()))
        counts: dict[str, tuple[int, int]] = {}
        # Computed before any type is written, because `_missing` skips rows of types that exist.
        absent = {name: _missing(connection, name, of_table) for name, of_table in tables.items()}
        for name, new in absent.items():
            if name == 'quotas' and new:
                _unlock(connection, new)
            if new:
                connection.execute(models.metadata.tables[name].insert(), new)
            counts[name] = (len(new), len(tables[name]) - len(new))
    _count(into, counts)


def _write(database: storage_db.Database, batch: Sequence[volumes.Draft],
           into: report.Report) -> None:
    # One transaction for the batch. If the database refuses a value, each volume is written in its
    # own transaction, so that only the volume with that value is not imported.
    try:
        drafts(database, batch, into)
    except (oslo_db_exception.DBError, *_REFUSALS) as exc:
        # oslo.db wraps the error of the driver. An error that is not one of `_REFUSALS`, such as a
        # lost connection, ends the import.
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
            _write(database, [draft], into)


@storage_db.retried
def drafts(database: storage_db.Database, batch: Sequence[volumes.Draft],
           into: report.Report) -> None:
    """Write volumes and their metadata, snapshots, attachments and grants in one transaction.

    Volumes that exist in this service are skipped.

    :param into: report to which the numbers of written and of existing rows are added
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
    # Called after the commit, because the transaction may be repeated.
    for name, (taken, there) in counts.items():
        into.taken[name] += taken
        into.there[name] += there


def _unlock(connection: sa.Connection, new: Sequence[Mapping[str, Any]]) -> None:
    """Delete the quota rows without a limit that imported limits replace.

    An earlier release locked a project by such a row.

    :param new: rows of imported limits
    """
    for row in new:
        connection.execute(models.quotas.delete().where(
            models.quotas.c.project_id == row['project_id'],
            models.quotas.c.resource == row['resource'], models.quotas.c.hard_limit.is_(None)))


class Importer:
    """Import from a Cinder database into the database of this service."""

    def __init__(self, database: storage_db.Database, cinder: source.Source,
                 choices: importing.Choices, default_type: str) -> None:
        """
        Read and check Cinder's volume types, QoS specs and quotas. Read the default volume type.

        :param choices: options that the operator has passed to the import
        :param default_type: name of the volume type for volumes without a type in Cinder
        """
        self._database = database
        self._cinder = cinder
        self._catalogue = catalogue.read(cinder, database.clock.utcnow())
        self._refused = [*report.check('services', cinder.rows('services')).findings,
                         *self._catalogue.refused]
        self._replaced: list[report.Finding] = []
        with database.reader() as connection:
            self._judge_names(connection)
            default = self._catalogue.default(connection, default_type)
        self._reader = volumes.Reader(
            cinder, self._catalogue.kinds, default, choices, database.clock.utcnow())

    def survey(self) -> report.Report:
        """Check all rows without writing, and return a report of the rows to import."""
        result = self._report()
        with self._database.reader() as connection:
            for name, of_table in self._catalogue.rows.items():
                result.there[name] += len(of_table) - len(
                    _missing(connection, name, of_table))
        result.left.update({name: self._cinder.count(name) for name in _LEFT})
        result.left['lost'] = sum(map(self._cinder.count_lost, _HANGING))
        for drafts, there in self._drafts(result):
            for draft in drafts:
                for name, of_table in draft.rows.items():
                    if name != 'volumes':
                        result.found[name] += len(of_table)
                    result.there[name] += len(of_table) * (draft.id in there)
        return result

    def run(self) -> report.Report:
        """Import the valid rows that do not exist in this service, and return a report.

        The volumes are written in batches, each in one transaction.

        :raises ConfigurationError: services of Cinder are running
        """
        # A running service of Cinder could change rows that were already read.
        running = self._running()
        if running:
            raise errors.ConfigurationError(
                reason='cannot import while Cinder services are running. Stop '
                       f'{", ".join(running)} and wait one minute')
        result = self._report()
        write_catalogue(self._database, self._catalogue.rows, result)
        for drafts, _ in self._drafts(result):
            if drafts:
                _write(self._database, drafts, result)
        # The counts are also computed if an earlier run has written all volumes, because that run
        # may have been interrupted before it computed them.
        if result.taken['volumes'] or result.there['volumes']:
            derived.counts(self._database)
        return result

    def _report(self) -> report.Report:
        result = report.Report(refused=list(self._refused), changed=list(self._replaced))
        catalogue.count(self._catalogue, result)
        return result

    def _running(self) -> list[str]:
        now = self._database.clock.utcnow()
        return sorted(
            f'{row["binary"]} on {row["host"]}'
            for row in report.check('services', self._cinder.rows('services')).good
            if row.get('updated_at') and row['updated_at'] > now - _ALIVE)

    def _drafts(self, result: report.Report) -> Iterator[tuple[list[volumes.Draft], set[str]]]:
        for batch in self._cinder.volumes():
            drafts = self._reader.drafts(batch, result)
            result.found['volumes'] += len(batch)
            with self._database.reader() as connection:
                there = set(connection.execute(sa.select(models.volumes.c.id).where(
                    models.volumes.c.id.in_([one.id for one in drafts]))).scalars())
                taken = {name: _ids_here(connection, name, [
                    row['id'] for one in drafts if one.id not in there for row in one.rows[name]])
                    for name in _HERE}
            findings = [
                (one, report.finding(_HERE[name], row, 'id_taken'))
                for one in drafts for name, ids in taken.items() for row in one.rows[name]
                if row['id'] in ids and one.id not in there]
            result.refused += [finding for _, finding in findings]
            lost = {one.id for one, _ in findings}
            yield [one for one in drafts if one.id not in lost], there

    def _judge_names(self, connection: sa.Connection) -> None:
        lost: dict[str, list[str]] = {}
        for name, table in (('qos_specs', 'quality_of_service_specs'),
                            ('volume_types', 'volume_types')):
            new = _missing(connection, name, self._catalogue.rows[name])
            replaced, lost[name] = _taken_names(connection, new, name)
            self._refused += [report.Finding('name_taken', table, one) for one in lost[name]]
            self._replaced += [report.Finding('default_replaced', table, one)
                               for one in replaced]
        self._catalogue.leave_out(lost['qos_specs'], lost['volume_types'])


def _ids_here(connection: sa.Connection, name: str, ids: list[str]) -> set[str]:
    column = models.metadata.tables[name].c.id
    return set(connection.execute(sa.select(column).where(column.in_(ids))).scalars()) \
        if ids else set()
