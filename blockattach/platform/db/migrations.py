"""Migration of a database to the schema of a release. Concurrent processes are serialized.

Alembic is imported only for a migration, because every process checks the schema version, but few
processes migrate.
"""
import contextlib
import dataclasses
import io
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.db import engine as engines

if TYPE_CHECKING:
    from alembic import config as alembic_config
    from alembic import script

LOG = oslo_log.getLogger(__name__)

# "blockatt" in ASCII: PostgreSQL names advisory locks by number.
_LOCK_NUMBER = 0x626c6f636b617474
_LOCK_SECONDS = 300
_ENVIRONMENT = pathlib.Path(__file__).parent / 'alembic'
# Revisions with lower numbers precede the first release.
_FIRST_RELEASE = '1000'


class Phase(NamedTuple):
    """Alembic branch of revisions: expansion or contraction."""

    name: str
    folder: str


# EXPAND adds tables and columns, so that this and the previous release both work. CONTRACT removes
# tables and columns that only older releases use, after the last process of these releases has
# stopped.
EXPAND = Phase('expand', 'versions')
CONTRACT = Phase('contract', 'contracts')


class Version(NamedTuple):
    """Last applied revision of each phase; None if no revision was applied."""

    expand: str | None
    contract: str | None

    def __str__(self) -> str:
        contracted = f', contracted to {self.contract}' if self.contract else ''
        return f'{self.expand}{contracted}'


@dataclasses.dataclass(frozen=True, slots=True)
class Migrations:
    """All revisions of one database.

    :ivar folder: folder that contains a folder for each phase
    :ivar table: name of the table with the applied revisions
    :ivar command: command with which an operator migrates the database
    :ivar metadata: tables of this release
    :ivar last_development: last version before the first release, with the same tables as the
        first release
    """

    folder: pathlib.Path
    table: str
    command: str
    metadata: sa.MetaData
    last_development: Version

    def upgrade(self, engine: sa.Engine) -> None:
        """Apply the revisions that this release needs.

        An empty database is contracted as well, because no process of an older release can be
        using the database. If two processes upgrade at the same time, the second process waits,
        and then finds nothing to do. A database of the last development version gets the version
        of the first release if both have the same schema.

        On SQLite and PostgreSQL the migration is atomic. MySQL commits each statement by itself,
        so the operator must restore or drop the database after a failure.

        :raises ConfigurationError: the migration lock of MySQL was not free for five minutes, or
            the database belongs to a newer release, or to a development version that cannot be
            upgraded
        """
        found = self.version(engine)
        self._refuse_newer(found)
        if found.expand != self.expected().expand:
            self._run(engine, lambda before: (
                (EXPAND, CONTRACT) if before.expand is None else (EXPAND,)))

    def expand(self, engine: sa.Engine) -> None:
        """Apply the revisions that add tables and columns for this release.

        The errors are those of `upgrade`.
        """
        self._run(engine, lambda before: (EXPAND,))

    def contract(self, engine: sa.Engine) -> None:
        """Apply the revisions that remove tables and columns of older releases.

        The caller must check that the contraction is allowed, which depends on the online
        migrations.

        :raises ConfigurationError: the database is not expanded, or belongs to another release
        """
        self.check(engine)
        self._run(engine, lambda before: (CONTRACT,))

    def check(self, engine: sa.Engine) -> None:
        """Check that the schema has all revisions that this release needs.

        :raises ConfigurationError: the database is empty, or belongs to an older or newer release
        """
        found, expected = self.version(engine), self.expected()
        self._refuse_newer(found)
        if found.expand != expected.expand:
            raise errors.ConfigurationError(
                reason=f'the database is at revision {found.expand} instead of {expected.expand}, '
                       f'run {self.command}')

    def version(self, engine: sa.Engine) -> Version:
        """Return the schema version of a database."""
        with engine.connect() as connection:
            return self._version(connection)

    def expected(self) -> Version:
        """Return the latest schema version that this release knows."""
        return Version(*(max(self._revisions(phase), default=None)
                         for phase in (EXPAND, CONTRACT)))

    def scripts(self) -> 'script.ScriptDirectory':
        """Return the Alembic scripts of all revisions of this release."""
        from alembic import script

        return script.ScriptDirectory.from_config(self._settings())

    def sql(self, url: str) -> str:
        """Return the SQL statements that expand an empty database, to be run by hand.

        No connection is opened.

        :param url: database URL, which determines the SQL dialect
        """
        from alembic import command

        text = io.StringIO()
        settings = self._settings(text)
        # ConfigParser interprets percent signs as references.
        settings.set_main_option('sqlalchemy.url', url.replace('%', '%%'))
        command.upgrade(settings, f'{EXPAND.name}@head', sql=True)
        return text.getvalue()

    def _run(self, engine: sa.Engine, choose: Callable[[Version], tuple[Phase, ...]]) -> None:
        from alembic import command

        with engine.connect() as connection, _alone(connection), engines.begin(connection):
            before = self._version(connection)
            self._refuse_newer(before)
            settings = self._settings()
            settings.attributes['connection'] = connection
            if _is_development(before):
                self._check_development(connection, before)
                command.stamp(settings, min(self._revisions(EXPAND)), purge=True)
            for phase in filter(self._revisions, choose(before)):
                command.upgrade(settings, f'{phase.name}@head')
            after = self._version(connection)
        if after != before:
            LOG.info('Database schema migrated%s', log.fields(old=before, new=after))

    def _refuse_newer(self, current: Version) -> None:
        known = {name for phase in (EXPAND, CONTRACT) for name in self._revisions(phase)}
        for revision in filter(None, current):
            if revision not in known and not _is_development(current):
                raise errors.ConfigurationError(
                    reason='the database belongs to a newer release: revision '
                           f'{revision} is unknown, the latest known is {self.expected()}')

    def _check_development(self, connection: sa.Connection, version: Version) -> None:
        """Check that the schema of a development version equals the schema of the first release.

        :raises ConfigurationError: the schema differs, or the version is not the last development
            version
        """
        if version != self.last_development:
            raise errors.ConfigurationError(
                reason=f'the database is at development revision {version}, and only revision '
                       f'{self.last_development} can be upgraded to this release, create a new '
                       'database')
        tables = self._differing_tables(connection)
        if tables:
            raise errors.ConfigurationError(
                reason=f'the database is at development revision {version}, and its schema '
                       f'differs from that of this release in {", ".join(tables)}, create a new '
                       'database')

    def _differing_tables(self, connection: sa.Connection) -> list[str]:
        from alembic import autogenerate
        from alembic.runtime import migration

        context = migration.MigrationContext.configure(connection, opts={
            'compare_type': True, 'compare_server_default': True,
            'include_name': lambda name, kind, _: kind != 'table' or name in self.metadata.tables})
        return sorted({
            _table_name(difference)
            for difference in autogenerate.compare_metadata(context, self.metadata)})

    def _revisions(self, phase: Phase) -> set[str]:
        """Return the names of the revisions of a phase, which are prefixes of file names."""
        return {path.name.partition('_')[0]
                for path in (self.folder / phase.folder).glob('[0-9c]*_*.py')}

    def _settings(self, output: io.StringIO | None = None) -> 'alembic_config.Config':
        from alembic import config as alembic_config

        settings = (alembic_config.Config(output_buffer=output) if output
                    else alembic_config.Config())
        settings.attributes.update(table=self.table, metadata=self.metadata)
        folders = os.pathsep.join(str(self.folder / phase.folder) for phase in (EXPAND, CONTRACT))
        settings.set_main_option('script_location', str(_ENVIRONMENT).replace('%', '%%'))
        settings.set_main_option('path_separator', 'os')
        settings.set_main_option('version_locations', folders.replace('%', '%%'))
        return settings

    def _version(self, connection: sa.Connection) -> Version:
        if not sa.inspect(connection).has_table(self.table):
            return Version(None, None)
        heads: set[str] = set(connection.scalars(sa.select(sa.column('version_num')).select_from(
            sa.table(self.table))))
        # Names of contraction revisions begin with a "c".
        contracts = {head for head in heads if head.startswith('c')}
        return Version(next(iter(heads - contracts), None), next(iter(contracts), None))


def _is_development(version: Version) -> bool:
    return version.expand is not None and version.expand < _FIRST_RELEASE


def _table_name(difference: Any) -> str:
    """Return the name of the table in which Alembic has found a difference.

    The differences of a column are a list of tuples. The second item of a tuple is the table, a
    part of the table, or the name of the schema. The name of the table follows the name of the
    schema.
    """
    _, item, *rest = difference[0] if isinstance(difference, list) else difference
    if item is None or isinstance(item, str):
        return str(rest[0])
    return str(item.name if isinstance(item, sa.Table) else item.table.name)


@contextlib.contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    """Hold the migration lock, which excludes other processes, until after the commit.

    :raises ConfigurationError: the lock of MySQL was not free for five minutes. PostgreSQL waits
        for the lock without a limit
    """
    # On SQLite the transaction of the migration takes the write lock at its beginning, so no other
    # lock is needed.
    if connection.dialect.name == 'sqlite':
        yield
        return
    take, give_back = _locking(connection.dialect.name)
    # A lock of the session, because MySQL ends the transaction at each table.
    taken = connection.execute(sa.select(take)).scalar()
    # Start a new snapshot, which includes the changes of the previous lock holder.
    connection.commit()
    # GET_LOCK of MySQL returns 0 after the timeout, and NULL after an error.
    if taken in (0, None):
        raise errors.ConfigurationError(
            reason='cannot migrate the database: another process has held the migration lock for '
                   f'{_LOCK_SECONDS} seconds')
    try:
        yield
    finally:
        connection.execute(sa.select(give_back))


def _locking(kind: str) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    if kind == 'postgresql':
        return sa.func.pg_advisory_lock(_LOCK_NUMBER), sa.func.pg_advisory_unlock(_LOCK_NUMBER)
    # Lock names of MySQL are global to the server and limited to 64 characters.
    name = sa.func.md5(sa.func.concat('blockattach_migrate:', sa.func.database()))
    return sa.func.get_lock(name, _LOCK_SECONDS), sa.func.release_lock(name)
