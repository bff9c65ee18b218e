"""Take over a Cinder database: first all of it is looked at, and only then anything written."""
import datetime

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import derived
from blockattach.db import models
from blockattach.db import rows
from blockattach.db.engine import engine
from blockattach.db.importing import catalogue
from blockattach.db.importing import report
from blockattach.db.importing import source
from blockattach.db.importing import volumes
from blockattach.db.importing import writing
from blockattach.domain import importing
from blockattach.domain import records

_ALIVE = datetime.timedelta(seconds=60)
_LEFT = ('backups', 'groups')


class Importer:
    """From one Cinder database into the database of this service."""

    def __init__(self, database: engine.Database, cinder: source.Source,
                 choices: importing.Choices, default_type: str) -> None:
        """
        :param default_type: the name of the type of volumes that have none
        """
        self._database = database
        self._cinder = cinder
        self._catalogue = catalogue.read(cinder, database.clock.utcnow())
        self._reader = volumes.Reader(
            cinder, self._catalogue.kinds, self._default(default_type), choices,
            database.clock.utcnow())

    def survey(self) -> report.Report:
        """What there is, and what is changed, refused and left; nothing is written."""
        made = report.Report()
        catalogue.count(self._catalogue, made)
        with self._database.reader() as connection:
            for name, of_table in self._catalogue.rows.items():
                made.there[name] += len(of_table) - len(
                    writing.missing(connection, name, of_table))
            self._names(connection, made)
        made.left.update({name: self._cinder.count(name) for name in _LEFT})
        for batch in self._cinder.volumes():
            drafts = self._reader.drafts(batch, made)
            made.found['volumes'] += len(batch)
            there = self._there([one.id for one in drafts])
            for one in drafts:
                for name, of_table in one.rows.items():
                    if name != 'volumes':
                        made.found[name] += len(of_table)
                    made.there[name] += len(of_table) * (one.id in there)
        return made

    def run(self) -> report.Report:
        """Write what is not refused and not here yet, so many volumes in a transaction.

        :raises ConfigurationError: services of Cinder are running
        """
        running = self._cinder.running(self._database.clock.utcnow(), _ALIVE)
        if running:
            raise errors.ConfigurationError(
                reason='cannot import while services of Cinder are running: stop '
                       f'{", ".join(running)}, and wait a minute')
        made = report.Report()
        catalogue.count(self._catalogue, made)
        writing.catalogue(self._database, self._catalogue.rows, made)
        for batch in self._cinder.volumes():
            drafts = self._reader.drafts(batch, made)
            if drafts:
                writing.drafts(self._database, drafts, made)
        if made.taken['volumes']:
            derived.counts(self._database)
        return made

    def _default(self, name: str) -> records.VolumeType | None:
        """Of a schema that has no types for all volumes: by its name there, or the one here."""
        found = next((kind for kind in self._catalogue.kinds.values() if kind.name == name), None)
        if found is not None:
            return found
        with self._database.reader() as connection:
            row = connection.execute(sa.select(models.volume_types).where(
                models.volume_types.c.live_name == name)).first()
        return None if row is None else rows.record(
            records.VolumeType, row, extra_specs={}, encryption=None)

    def _names(self, connection: sa.Connection, made: report.Report) -> None:
        """Names that others have here."""
        for name in ('volume_types', 'qos_specs'):
            new = writing.missing(connection, name, self._catalogue.rows[name])
            replaced, taken = writing.taken_names(connection, new, name)
            made.refused += [report.Finding('name_taken', one) for one in taken]
            made.changed += [report.Finding('default_replaced', one) for one in replaced]

    def _there(self, ids: list[str]) -> set[str]:
        with self._database.reader() as connection:
            return set(connection.execute(sa.select(models.volumes.c.id).where(
                models.volumes.c.id.in_(ids))).scalars())
