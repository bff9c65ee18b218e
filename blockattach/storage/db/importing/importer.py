"""Import of a Cinder database. All rows are checked before any row is written."""
import datetime
from collections.abc import Iterator

import sqlalchemy as sa

from blockattach.platform import errors
from blockattach.storage.db import derived
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.importing import catalogue
from blockattach.storage.db.importing import checks
from blockattach.storage.db.importing import report
from blockattach.storage.db.importing import source
from blockattach.storage.db.importing import volumes
from blockattach.storage.db.importing import writing
from blockattach.storage.domain import importing

_ALIVE = datetime.timedelta(seconds=60)
_LEFT = ('backups', 'groups')
_HANGING = ('snapshots', 'volume_attachment')
"""Tables of objects that belong to volumes."""
_HERE = {'snapshots': 'snapshots', 'attachments': 'volume_attachment'}
"""Names of these tables in Cinder, by their names in this service."""


class Importer:
    """Import from a Cinder database into the database of this service."""

    def __init__(self, database: storage_db.Database, cinder: source.Source,
                 choices: importing.Choices, default_type: str) -> None:
        """
        :param default_type: name of the volume type for volumes without a type
        """
        self._database = database
        self._cinder = cinder
        self._catalogue = catalogue.read(cinder, database.clock.utcnow())
        self._refused = [*checks.check('services', cinder.rows('services')).findings,
                         *self._catalogue.refused]
        self._replaced: list[report.Finding] = []
        with database.reader() as connection:
            self._judge_names(connection)
            default = self._catalogue.default(connection, default_type)
        self._reader = volumes.Reader(
            cinder, self._catalogue.kinds, default, choices, database.clock.utcnow())

    def survey(self) -> report.Report:
        """Return a report of the rows to import, change, refuse and leave, without writing."""
        result = self._report()
        with self._database.reader() as connection:
            for name, of_table in self._catalogue.rows.items():
                result.there[name] += len(of_table) - len(
                    writing.missing(connection, name, of_table))
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
        """Write the rows that are not refused and do not exist here, and return a report.

        The volumes are written in batches, each in one transaction.

        :raises ConfigurationError: services of Cinder are running
        """
        running = self._running()
        if running:
            raise errors.ConfigurationError(
                reason='cannot import while Cinder services are running. Stop '
                       f'{", ".join(running)} and wait one minute')
        result = self._report()
        writing.catalogue(self._database, self._catalogue.rows, result)
        for drafts, _ in self._drafts(result):
            if drafts:
                writing.write(self._database, drafts, result)
        # Also if an earlier run wrote all volumes: it may have been interrupted before counting.
        if result.taken['volumes'] or result.there['volumes']:
            derived.counts(self._database)
        return result

    def _report(self) -> report.Report:
        """Return a report of types, QoS specs and limits, without any volume."""
        result = report.Report(refused=list(self._refused), changed=list(self._replaced))
        catalogue.count(self._catalogue, result)
        return result

    def _running(self) -> list[str]:
        """Return the Cinder services that have reported recently."""
        now = self._database.clock.utcnow()
        return sorted(
            f'{row["binary"]} on {row["host"]}'
            for row in checks.check('services', self._cinder.rows('services')).good
            if row.get('updated_at') and row['updated_at'] > now - _ALIVE)

    def _drafts(self, result: report.Report) -> Iterator[tuple[list[volumes.Draft], set[str]]]:
        """Yield the drafts of each batch of volumes, and the ids of those that exist here."""
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
                (one, checks.finding(_HERE[name], row, 'id_taken'))
                for one in drafts for name, ids in taken.items() for row in one.rows[name]
                if row['id'] in ids and one.id not in there]
            result.refused += [finding for _, finding in findings]
            lost = {one.id for one, _ in findings}
            yield [one for one in drafts if one.id not in lost], there

    def _judge_names(self, connection: sa.Connection) -> None:
        """Remove types and QoS specs whose names are in use here."""
        lost: dict[str, list[str]] = {}
        for name, table in (('qos_specs', 'quality_of_service_specs'),
                            ('volume_types', 'volume_types')):
            new = writing.missing(connection, name, self._catalogue.rows[name])
            replaced, lost[name] = writing.taken_names(connection, new, name)
            self._refused += [report.Finding('name_taken', table, one) for one in lost[name]]
            self._replaced += [report.Finding('default_replaced', table, one)
                               for one in replaced]
        self._catalogue.leave_out(lost['qos_specs'], lost['volume_types'])


def _ids_here(connection: sa.Connection, name: str, ids: list[str]) -> set[str]:
    column = models.metadata.tables[name].c.id
    return set(connection.execute(sa.select(column).where(column.in_(ids))).scalars()) \
        if ids else set()
