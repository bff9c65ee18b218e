"""Bring a database to the tables of a release. Any number of processes may ask at once.

Alembic is loaded for a migration only: every process checks the version, and few ever change it.
"""
import contextlib
import dataclasses
import io
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
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


class Phase(NamedTuple):
    """One of the two branches of revisions."""

    name: str
    folder: str


# What is added, so that processes of this release and of the one before both work with it; and
# what is taken away once the last of the older ones has ended.
EXPAND = Phase('expand', 'versions')
CONTRACT = Phase('contract', 'contracts')


class Version(NamedTuple):
    """The last revision of each phase; None: there was none yet."""

    expand: str | None
    contract: str | None

    def __str__(self) -> str:
        contracted = f', contracted to {self.contract}' if self.contract else ''
        return f'{self.expand}{contracted}'


@dataclasses.dataclass(frozen=True, slots=True)
class Migrations:
    """All revisions of one database.

    ``folder`` has ``env.py``, and a folder for each phase; ``table`` remembers the last revision;
    ``command`` is what an operator runs.
    """

    folder: pathlib.Path
    table: str
    command: str

    def upgrade(self, engine: sa.Engine) -> None:
        """Bring a database to where this release can run; a second process waits and finds nothing
        to do. An empty one is contracted too: no older process can be at work there.

        On SQLite and PostgreSQL all of it happens or nothing. MySQL commits each statement by
        itself: after a failure there, restore or drop the database.

        :raises ConfigurationError: another process has been at it for five minutes, or the
            database is of a newer release
        """
        found = self.version(engine)
        self._refuse_newer(found)
        if found.expand != self.expected().expand:
            self._run(engine, lambda before: (
                (EXPAND, CONTRACT) if before.expand is None else (EXPAND,)))

    def expand(self, engine: sa.Engine) -> None:
        """Add what this release needs."""
        self._run(engine, lambda before: (EXPAND,))

    def contract(self, engine: sa.Engine) -> None:
        """Take away what only older releases need; `online_migrations` says whether one may.

        :raises ConfigurationError: it was not expanded, or is of another release
        """
        self.check(engine)
        self._run(engine, lambda before: (CONTRACT,))

    def check(self, engine: sa.Engine) -> None:
        """Make sure that the database has what this release needs; changes nothing.

        :raises ConfigurationError: it has older tables, newer ones, or none
        """
        found, expected = self.version(engine), self.expected()
        self._refuse_newer(found)
        if found.expand != expected.expand:
            raise errors.ConfigurationError(
                reason=f'the database is at revision {found.expand} instead of {expected.expand}, '
                       f'run {self.command}')

    def version(self, engine: sa.Engine) -> Version:
        """What the database is at."""
        with engine.connect() as connection:
            return self._version(connection)

    def expected(self) -> Version:
        """What this release knows as the last."""
        return Version(*(max(self._revisions(phase), default=None)
                         for phase in (EXPAND, CONTRACT)))

    def scripts(self) -> 'script.ScriptDirectory':
        """Every revision that this release knows."""
        from alembic import script

        return script.ScriptDirectory.from_config(self._settings())

    def sql(self, url: str) -> str:
        """The statements that expand an empty database of the URL's kind, to be run by hand;
        connects nowhere.
        """
        from alembic import command

        text = io.StringIO()
        settings = self._settings(text)
        # ConfigParser would take a percent sign for a reference.
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
            for phase in filter(self._revisions, choose(before)):
                command.upgrade(settings, f'{phase.name}@head')
            after = self._version(connection)
        if after != before:
            LOG.info('Database schema migrated%s', log.fields(old=before, new=after))

    def _refuse_newer(self, found: Version) -> None:
        known = {name for phase in (EXPAND, CONTRACT) for name in self._revisions(phase)}
        for revision in filter(None, found):
            if revision not in known:
                raise errors.ConfigurationError(
                    reason='the database belongs to a newer release: revision '
                           f'{revision} is unknown, the latest known is {self.expected()}')

    def _revisions(self, phase: Phase) -> set[str]:
        """The names of a phase's revisions, in order: what their files begin with."""
        return {path.name.partition('_')[0]
                for path in (self.folder / phase.folder).glob('[0-9c]*_*.py')}

    def _settings(self, output: io.StringIO | None = None) -> 'alembic_config.Config':
        from alembic import config as alembic_config

        settings = (alembic_config.Config(output_buffer=output) if output
                    else alembic_config.Config())
        settings.attributes['table'] = self.table
        folders = os.pathsep.join(str(self.folder / phase.folder) for phase in (EXPAND, CONTRACT))
        settings.set_main_option('script_location', str(self.folder).replace('%', '%%'))
        settings.set_main_option('path_separator', 'os')
        settings.set_main_option('version_locations', folders.replace('%', '%%'))
        return settings

    def _version(self, connection: sa.Connection) -> Version:
        if not sa.inspect(connection).has_table(self.table):
            return Version(None, None)
        heads: set[str] = set(connection.scalars(sa.select(sa.column('version_num')).select_from(
            sa.table(self.table))))
        # The revisions of contraction begin with a "c".
        contracts = {head for head in heads if head.startswith('c')}
        return Version(next(iter(heads - contracts), None), next(iter(contracts), None))


@contextlib.contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    """Hold every other process off, until after the commit.

    On servers the session holds the lock, not the transaction, which MySQL ends with each table.
    SQLite needs none: there the transaction begins as that of the one writer.
    """
    if connection.dialect.name == 'sqlite':
        yield
        return
    take, give_back = _locking(connection.dialect.name)
    taken = connection.execute(sa.select(take)).scalar()
    # What is read from now on is what the one before has left.
    connection.commit()
    if taken in (0, None):
        raise errors.ConfigurationError(
            reason='cannot migrate the database: another process has held the migration lock for '
                   f'{_LOCK_SECONDS} seconds')
    try:
        yield
    finally:
        connection.execute(sa.select(give_back))


def _locking(kind: str) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    """Taking and giving back a lock that is this database's own."""
    if kind == 'postgresql':
        return sa.func.pg_advisory_lock(_LOCK_NUMBER), sa.func.pg_advisory_unlock(_LOCK_NUMBER)
    # MySQL's names are the whole server's, and end at 64 characters.
    name = sa.func.md5(sa.func.concat('blockattach_migrate:', sa.func.database()))
    return sa.func.get_lock(name, _LOCK_SECONDS), sa.func.release_lock(name)
