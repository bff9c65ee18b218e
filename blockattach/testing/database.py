"""A fresh, migrated database: SQLite in a directory of its own, or one more on a server.

Servers are found as `blockattach.testing.servers` says: ``BLOCKATTACH_TEST_MYSQL`` and
``BLOCKATTACH_TEST_POSTGRESQL`` are URLs of an account that may make databases.
"""
import atexit
import functools
import pathlib
import shutil
import tempfile
import uuid
from types import TracebackType
from typing import Self

import sqlalchemy as sa
from cryptography import fernet

from blockattach import clock as clocks
from blockattach import secrets
from blockattach.conf import database as database_conf
from blockattach.db import engine
from blockattach.db import migrate
from blockattach.testing import servers

SQLITE = 'sqlite'
MYSQL = servers.MYSQL
POSTGRESQL = servers.POSTGRESQL
KINDS = (SQLITE, MYSQL, POSTGRESQL)


class DatabaseFixture:
    """A database that is there from construction until `close`; also a context manager.

    ``database`` is it as queries take it, ``url`` how another process would find it, ``path`` the
    SQLite file (None on a server).
    """

    def __init__(self, kind: str = SQLITE, clock: clocks.Clock | None = None,
                 migrated: bool = True) -> None:
        """Make it.

        :param kind: one of `KINDS`
        :param migrated: False: without any table
        """
        self.kind = kind
        self.path: pathlib.Path | None = None
        self._clock = clock or clocks.Clock()
        self._sealer = secrets.Sealer([fernet.Fernet.generate_key()])
        self._opened: list[engine.Database] = []
        if kind == SQLITE:
            self._directory = tempfile.mkdtemp(prefix='blockattach-')
            self.path = pathlib.Path(self._directory) / 'blockattach.sqlite'
            self.url = f'sqlite:///{self.path}'
            if migrated:
                shutil.copyfile(_template(), self.path)
        else:
            self._name = f'blockattach_test_{uuid.uuid4().hex[:16]}'
            self.url = _server_url(kind).set(database=self._name).render_as_string(False)
            _administer(kind, f'CREATE DATABASE {self._name}')
        try:
            self.database = self.open()
            if migrated and kind != SQLITE:
                migrate.upgrade(self.database.engine)
        except BaseException:
            self.close()
            raise

    def open(self, clock: clocks.Clock | None = None) -> engine.Database:
        """Connections of their own to the same rows, as another process has; closed with it.

        :param clock: that process's idea of the time
        """
        opened = engine.Database(open_engine(self.url), self._sealer, clock or self._clock)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Forget it, with all that is in it."""
        for opened in self._opened:
            opened.close()
        if self.kind == SQLITE:
            shutil.rmtree(self._directory)
        else:
            force = ' WITH (FORCE)' if self.kind == POSTGRESQL else ''
            _administer(self.kind, f'DROP DATABASE {self._name}{force}')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()


def open_engine(url: str) -> sa.Engine:
    """Connect as the service does, but without trying for long."""
    return engine.open_engine(database_conf.DatabaseSettings(
        url, max_pool_size=20, max_overflow=0, pool_timeout=120, max_retries=0))


@functools.cache
def why_missing(kind: str) -> str | None:
    """Why databases of this kind cannot be had here; None: they can. SQLite always can."""
    if kind == SQLITE:
        return None
    try:
        _administer(kind, 'SELECT 1')
    except (ImportError, sa.exc.SQLAlchemyError) as exc:
        return f'no {kind} at {_server_url(kind)!r}: {str(exc).splitlines()[0]}'
    return None


def _server_url(kind: str) -> sa.URL:
    return sa.make_url(servers.url(kind))


def _administer(kind: str, statement: str) -> None:
    # A database can be made only outside of a transaction.
    server = sa.create_engine(_server_url(kind), isolation_level='AUTOCOMMIT',
                              poolclass=sa.NullPool)
    with server.connect() as connection:
        connection.execute(sa.text(statement))


@functools.cache
def _template() -> pathlib.Path:
    """A migrated SQLite file to copy: made once in a process, removed at its end."""
    directory = tempfile.mkdtemp(prefix='blockattach-template-')
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = pathlib.Path(directory) / 'template.sqlite'
    made = open_engine(f'sqlite:///{path}')
    migrate.upgrade(made)
    # The last connection that is closed writes everything into the file itself.
    made.dispose()
    return path
