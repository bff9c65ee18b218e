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
from typing import Any
from typing import Self

import sqlalchemy as sa
from cryptography import fernet
from oslo_db import exception as oslo_db_exception

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

# For whoever still holds a row of a database that is given back.
_SHORT_WAIT = {MYSQL: 'SET innodb_lock_wait_timeout = 2', POSTGRESQL: "SET lock_timeout = '2s'"}


class DatabaseFixture:
    """A database that is there from construction until `close`; also a context manager.

    ``database`` is it as queries take it, ``url`` how another process would find it, ``path`` the
    SQLite file (None on a server).
    """

    def __init__(self, kind: str = SQLITE, clock: clocks.Clock | None = None,
                 migrated: bool = True, fresh: bool = False) -> None:
        """Make it.

        :param kind: one of `KINDS`
        :param migrated: False: without any table
        :param fresh: not even its statistics know of anybody before
        """
        self.kind = kind
        self.path: pathlib.Path | None = None
        self._clock = clock or clocks.Clock()
        self._sealer = secrets.Sealer([fernet.Fernet.generate_key()])
        self._opened: list[engine.Database] = []
        self._spares = _spares(kind) if migrated and not fresh and kind != SQLITE else None
        if kind == SQLITE:
            self._directory = tempfile.mkdtemp(prefix='blockattach-')
            self.path = pathlib.Path(self._directory) / 'blockattach.sqlite'
            self.url = f'sqlite:///{self.path}'
            if migrated:
                shutil.copyfile(_template(), self.path)
        elif self._spares is not None:
            self.url = self._spares.take()
        else:
            self.url = _create(kind)
        try:
            self.database = self.open()
            if migrated and fresh:
                migrate.upgrade(self.database.engine)
        except BaseException:
            self.close()
            raise

    def open(self, clock: clocks.Clock | None = None, url: str | None = None) -> engine.Database:
        """Connections of their own to the same rows, as another process has; closed with it.

        :param clock: that process's idea of the time
        :param url: another way to the same server
        """
        opened = engine.Database(open_engine(url or self.url), self._sealer, clock or self._clock)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Forget it, with all that is in it."""
        for opened in self._opened:
            opened.close()
        if self.kind == SQLITE:
            shutil.rmtree(self._directory)
        elif self._spares is not None:
            self._spares.give_back(self.url)
        else:
            _drop(self.kind, self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()


class _Spares:
    """Migrated databases of one server: making one takes long, so each is emptied and used again.

    They are dropped when the process ends.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._free: list[str] = []
        self._tables = sa.MetaData()
        self._rows: dict[sa.Table, list[dict[str, Any]]] = {}
        atexit.register(self._drop_all)

    def take(self) -> str:
        """The URL of one that is as its migrations left it."""
        if self._free:
            return self._free.pop()
        url = _create(self._kind)
        made = open_engine(url)
        migrate.upgrade(made)
        if not self._rows:
            self._tables.reflect(made)
            with made.connect() as connection:
                self._rows = {table: [dict(row) for row in connection.execute(
                    table.select()).mappings()] for table in self._tables.sorted_tables}
        made.dispose()
        return url

    def give_back(self, url: str) -> None:
        """Empty it; what cannot be emptied is dropped."""
        used = open_engine(url)
        try:
            with used.begin() as connection:
                connection.exec_driver_sql(_SHORT_WAIT[self._kind])
                for table in reversed(self._tables.sorted_tables):
                    connection.execute(table.delete())
                for table, rows in self._rows.items():
                    if rows:
                        connection.execute(table.insert(), rows)
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError):
            _drop(self._kind, url)
        else:
            self._free.append(url)
        finally:
            used.dispose()

    def _drop_all(self) -> None:
        for url in self._free:
            _drop(self._kind, url)


@functools.cache
def _spares(kind: str) -> _Spares:
    return _Spares(kind)


def _create(kind: str) -> str:
    name = f'blockattach_test_{uuid.uuid4().hex[:16]}'
    _administer(kind, f'CREATE DATABASE {name}')
    return _server_url(kind).set(database=name).render_as_string(False)


def _drop(kind: str, url: str) -> None:
    force = ' WITH (FORCE)' if kind == POSTGRESQL else ''
    _administer(kind, f'DROP DATABASE {sa.make_url(url).database}{force}')


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
