"""Bring a database to the tables of this release. Any number of processes may ask at once."""
import contextlib
import io
import pathlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import command
from alembic import config as alembic_config
from alembic import script
from alembic.runtime import migration
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine as engines

LOG = oslo_log.getLogger(__name__)

_SCRIPTS = pathlib.Path(__file__).parent / 'migrations'
# "blockatt" in ASCII: PostgreSQL names advisory locks by number.
_LOCK_NUMBER = 0x626c6f636b617474
_LOCK_SECONDS = 300


def upgrade(engine: sa.Engine) -> None:
    """Run the revisions that the database lacks; a second process waits and finds nothing to do.

    On SQLite and PostgreSQL all of it happens or nothing. MySQL commits each statement by itself:
    after a failure there, restore or drop the database.

    :raises ConfigurationError: another process has been at it for five minutes, or the database
        is of a newer release
    """
    writers = engine.execution_options(**{engines.WRITER: True})
    with writers.connect() as connection, _alone(connection), connection.begin():
        before = _revision(connection)
        if before == expected():
            return
        _refuse_newer(before)
        settings = _settings()
        settings.attributes['connection'] = connection
        command.upgrade(settings, 'head')
    LOG.info('Database is migrated%s', log.fields(old=before, new=expected()))


def check(engine: sa.Engine) -> None:
    """Make sure that the database has the tables of this release; changes nothing.

    :raises ConfigurationError: it has older ones, newer ones, or none
    """
    found = version(engine)
    if found == expected():
        return
    _refuse_newer(found)
    raise errors.ConfigurationError(
        reason=f'the database is at revision {found} and not at {expected()}: run '
               'blockattach-manage db sync')


def _refuse_newer(revision: str | None) -> None:
    known = {step.revision for step in script.ScriptDirectory.from_config(
        _settings()).walk_revisions()}
    if revision is not None and revision not in known:
        raise errors.ConfigurationError(
            reason=f'the database is of a newer release: it is at revision {revision}, and this '
                   f'release ends at {expected()}')


def version(engine: sa.Engine) -> str | None:
    """The revision that the database is at; None: it is empty."""
    with engine.connect() as connection:
        return _revision(connection)


def expected() -> str:
    """The revision that this release works with."""
    head = script.ScriptDirectory.from_config(_settings()).get_current_head()
    assert head is not None
    return head


def sql(url: str) -> str:
    """The statements for an empty database of the URL's kind, to be run by hand; connects nowhere.
    """
    text = io.StringIO()
    settings = _settings(text)
    # ConfigParser would take a percent sign for a reference.
    settings.set_main_option('sqlalchemy.url', url.replace('%', '%%'))
    command.upgrade(settings, 'head', sql=True)
    return text.getvalue()


def _settings(output: io.StringIO | None = None) -> alembic_config.Config:
    settings = alembic_config.Config(output_buffer=output) if output else alembic_config.Config()
    settings.set_main_option('script_location', str(_SCRIPTS).replace('%', '%%'))
    return settings


def _revision(connection: sa.Connection) -> str | None:
    return migration.MigrationContext.configure(connection).get_current_revision()


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
            reason='cannot migrate the database: another process has been at it for '
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
