"""Transactions: one for reading, one for writing, on SQLite, MariaDB/MySQL and PostgreSQL."""
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import ParamSpec
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as oslo_db_exception
from oslo_db.sqlalchemy import engines
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import event

from blockattach import clock
from blockattach import secrets
from blockattach.conf import database as database_conf
from blockattach.db import quotas

_SQLITE_BUSY_SECONDS = 20
_SQLITE_WAL_TRIES = 10
_NOT_SERIALISED = '40001'
WRITER = 'blockattach_writer'
"""Execution option of a connection that is going to write."""

_P = ParamSpec('_P')
_R = TypeVar('_R')


class Database:
    """What every query needs: connections, a clock for records, the sealer for credentials."""

    def __init__(self, engine: sa.Engine, sealer: secrets.Sealer, clock: clock.Clock,
                 attachment_quota: quotas.AttachmentQuota | None = None) -> None:
        self.engine = engine
        self.sealer = sealer
        self.clock = clock
        self.attachment_quota = attachment_quota or quotas.AttachmentQuota()
        self._writers = engine.execution_options(**{WRITER: True})
        # SQLite has one writer at a time and wakes waiters by polling; a lock hands over at once.
        self._write_lock = (threading.Lock() if engine.dialect.name == 'sqlite'
                            else contextlib.nullcontext())

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """A connection for looking only."""
        with self.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def writer(self) -> Iterator[sa.Connection]:
        """One transaction: all of it, or nothing."""
        with self._write_lock, self._writers.begin() as connection:
            yield connection

    def answers(self) -> bool:
        """Whether the database can be asked now."""
        try:
            with self.reader() as connection:
                connection.execute(sa.select(1))
        except oslo_db_exception.DBError:
            return False
        return True

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


def open_engine(settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Connect as configured; an SQLite file is made where it is missing."""
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        return _open_sqlite(url, settings)
    return engines.create_engine(
        _prepare_url(url), mysql_sql_mode='TRADITIONAL',
        max_pool_size=settings.max_pool_size, max_overflow=settings.max_overflow,
        pool_timeout=settings.pool_timeout,
        connection_recycle_time=settings.connection_recycle_time,
        max_retries=settings.max_retries, retry_interval=settings.retry_interval)


def _prepare_url(url: sa.URL) -> sa.URL:
    """For MySQL and MariaDB, what oslo.db would choose otherwise.

    Its default character set holds three bytes a character, so that a name with an emoji would be
    refused; and it knows a deadlock only under the name ``mysql``.
    """
    if url.get_backend_name() == 'mariadb':
        url = url.set(drivername=url.drivername.replace('mariadb', 'mysql', 1))
    if url.get_backend_name() == 'mysql' and 'charset' not in url.query:
        url = url.update_query_dict({'charset': 'utf8mb4'})
    return url


def _open_sqlite(url: sa.URL, settings: database_conf.DatabaseSettings) -> sa.Engine:
    """SQLite in WAL: readers never wait, and a write transaction begins as one.

    oslo.db would open a connection per transaction and begin each as a reader, which fails with
    "database is locked" as soon as a second one turns writer.
    """
    # Not autobegun by the driver: the transaction begins as `_begin` says.
    engine = sa.create_engine(url, pool_size=settings.max_pool_size,
                              max_overflow=settings.max_overflow,
                              pool_timeout=settings.pool_timeout)
    event.listen(engine, 'connect', _prepare_sqlite)
    event.listen(engine, 'begin', _begin_sqlite)
    exc_filters.register_engine(engine)
    return engine


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f'PRAGMA busy_timeout={_SQLITE_BUSY_SECONDS * 1000}')
    _use_wal(cursor)
    cursor.execute('PRAGMA synchronous=FULL')
    cursor.execute('PRAGMA foreign_keys=ON')
    cursor.close()


def _use_wal(cursor: Any) -> None:
    """Kept in the file itself. Of several that change a new file at once, all but one are refused
    without a wait; those wait for the file as writers do, and look again.
    """
    for _ in range(_SQLITE_WAL_TRIES):
        try:
            cursor.execute('PRAGMA journal_mode=WAL')
            return
        except sqlite3.OperationalError:
            cursor.execute('BEGIN IMMEDIATE')
            cursor.execute('COMMIT')
    cursor.execute('PRAGMA journal_mode=WAL')


def _begin_sqlite(connection: sa.Connection) -> None:
    if connection.get_execution_options().get(WRITER):
        connection.exec_driver_sql('BEGIN IMMEDIATE')


def retried(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeat a verb, from its beginning, whose transaction the database threw out.

    That is a deadlock, a failed serialisation, and whatever the verb itself raises RetryRequest
    for. There are no savepoints: MariaDB throws out the whole transaction at a deadlock, and what
    went on after that would write the rest of it alone.
    """
    wrapped: Callable[_P, _R] = oslo_db_api.wrap_db_retry(
        max_retries=5, retry_interval=0.05, inc_retry_interval=True, max_retry_interval=1,
        jitter=True, retry_on_deadlock=True, exception_checker=_not_serialised)(verb)
    return wrapped


def _not_serialised(error: Exception) -> bool:
    """PostgreSQL could not serialise; oslo.db has no name for that."""
    return (isinstance(error, sa.exc.DBAPIError)
            and getattr(error.orig, 'pgcode', None) == _NOT_SERIALISED)
