"""Transactions: one for reading, one for writing, on SQLite, MariaDB/MySQL and PostgreSQL.

A connection may be lost at any time. Before the COMMIT nothing has happened, and a verb is repeated
as after a deadlock. While the database commits, nobody knows: then the verb looks for what it has
written, on another connection, and is done or repeated. Connections that have grown stale in the
pool are found when they are taken from it (oslo.db's pre-ping).
"""
import contextlib
import functools
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
from oslo_log import log as oslo_log
from sqlalchemy import event

from blockattach import clock
from blockattach import errors
from blockattach import secrets
from blockattach.conf import database as database_conf
from blockattach.db import quotas
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)

_SQLITE_BUSY_SECONDS = 20
_SQLITE_WAL_TRIES = 10
_NOT_SERIALISED = '40001'
WRITER = 'blockattach_writer'
"""Execution option of a connection that is going to write."""

Happened = Callable[[sa.Connection], bool]
"""Whether the database holds what a transaction wrote. It waits for that one to end, by a lock."""

# How long a transaction whose end nobody has heard of may go on holding its locks.
_PATIENCE_SECONDS = 5
_PATIENCE = {'mysql': f'SET innodb_lock_wait_timeout = {_PATIENCE_SECONDS}',
             'postgresql': f"SET lock_timeout = '{_PATIENCE_SECONDS}s'"}

_P = ParamSpec('_P')
_R = TypeVar('_R')


class Database:
    """What every query needs: connections, a clock for records, the sealer for credentials."""

    def __init__(self, engine: sa.Engine, sealer: secrets.Sealer, clock: clock.Clock,
                 attachment_quota: quotas.AttachmentQuota | None = None,
                 telemetry: acts.Telemetry | None = None) -> None:
        self.engine = engine
        self.telemetry = telemetry or acts.Telemetry(clock)
        self.sealer = sealer
        self.clock = clock
        self.attachment_quota = attachment_quota or quotas.AttachmentQuota()
        self._writers = engine.execution_options(**{WRITER: True})
        # SQLite has one writer at a time and wakes waiters by polling; a lock hands over at once.
        self._write_lock = (threading.Lock() if engine.dialect.name == 'sqlite'
                            else contextlib.nullcontext())

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """A connection for looking only.

        :raises DatabaseUnavailable: it is not there
        """
        try:
            with self.telemetry.transaction('read'), _connect(self.engine) as connection:
                yield connection
        except oslo_db_exception.DBConnectionError as exc:
            raise errors.DatabaseUnavailable() from exc

    @contextlib.contextmanager
    def writer(self, happened: Happened | None = None) -> Iterator[sa.Connection]:
        """One transaction: all of it, or nothing. For a verb that is `retried`.

        :param happened: asked when the connection was lost while the database committed; None: the
            verb may be done twice
        :raises OutcomeUnknown: that could not be found out
        """
        with (self.telemetry.transaction('write'), self._write_lock,
              _connect(self._writers) as connection):
            connection.begin()
            yield connection
            try:
                connection.commit()
                return
            except oslo_db_exception.DBConnectionError as exc:
                if happened is None:
                    raise
                lost = exc
        if self._found_out(happened, lost):
            LOG.warning('Connection was lost during a commit: the change is stored')
            return
        LOG.warning('Connection was lost during a commit: the change is not stored, and repeated')
        raise lost

    def _found_out(self, happened: Happened, lost: Exception) -> bool:
        try:
            return _patiently(_ask)(self._writers, happened)
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            LOG.error('Cannot find out whether a change is stored', exc_info=exc)
            raise errors.OutcomeUnknown() from lost

    def answers(self) -> bool:
        """Whether the database can be asked now."""
        try:
            with self.reader() as connection:
                connection.execute(sa.select(1))
        except (errors.DatabaseUnavailable, oslo_db_exception.DBError):
            return False
        return True

    def connections(self) -> tuple[int, int]:
        """How many connections are in use, and how many are open and idle."""
        pool = self.engine.pool
        if not isinstance(pool, sa.pool.QueuePool):
            return 0, 0
        return pool.checkedout(), pool.checkedin()

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


def open_engine(settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Connect as configured; an SQLite file is made where it is missing."""
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        return _open_sqlite(url, settings)
    made: sa.Engine = engines.create_engine(
        _prepare_url(url), mysql_sql_mode='TRADITIONAL',
        max_pool_size=settings.max_pool_size, max_overflow=settings.max_overflow,
        pool_timeout=settings.pool_timeout,
        connection_recycle_time=settings.connection_recycle_time,
        max_retries=settings.max_retries, retry_interval=settings.retry_interval)
    # Values stay out of logs and errors; oslo.db has no word for that.
    made.hide_parameters = True
    return made


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
                              pool_timeout=settings.pool_timeout, hide_parameters=True)
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


def _connect(engine: sa.Engine) -> sa.Connection:
    """A connection of the pool.

    :raises DBConnectionError: for whatever reason there is none; oslo.db does not know them all
    """
    try:
        return engine.connect()
    except (sa.exc.OperationalError, sa.exc.TimeoutError) as exc:
        raise oslo_db_exception.DBConnectionError(exc) from exc


def _ask(engine: sa.Engine, happened: Happened) -> bool:
    with _connect(engine) as connection:
        # What is set for this session ends with it.
        connection.detach()
        connection.exec_driver_sql(_PATIENCE[connection.dialect.name])
        return happened(connection)


def _patiently(ask: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeat a look as long as a database may take to start again."""
    wrapped: Callable[_P, _R] = oslo_db_api.wrap_db_retry(
        max_retries=7, retry_interval=0.1, inc_retry_interval=True, max_retry_interval=5,
        retry_on_disconnect=True)(ask)
    return wrapped


def retried(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeat a verb, from its beginning, whose transaction the database threw out, or whose
    connection was lost before it had committed.

    Thrown out by a deadlock, a failed serialisation, or whatever the verb itself raises
    RetryRequest for. There are no savepoints: MariaDB throws out the whole transaction at a
    deadlock, and what went on after that would write the rest of it alone.

    :raises DatabaseUnavailable: it stays away
    """
    wrapped: Callable[_P, _R] = oslo_db_api.wrap_db_retry(
        max_retries=5, retry_interval=0.05, inc_retry_interval=True, max_retry_interval=1,
        jitter=True, retry_on_deadlock=True, retry_on_disconnect=True,
        exception_checker=_not_serialised)(_counted(verb))

    @functools.wraps(verb)
    def told(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return wrapped(*args, **kwargs)
        except oslo_db_exception.DBConnectionError as exc:
            raise errors.DatabaseUnavailable() from exc
    return told


def _is_thrown_out(error: Exception) -> bool:
    """Whether the database asks for the whole of it once more."""
    return isinstance(error, oslo_db_exception.DBDeadlock) or _not_serialised(error)


def _not_serialised(error: Exception) -> bool:
    """PostgreSQL could not serialise; oslo.db has no name for that."""
    return (isinstance(error, sa.exc.DBAPIError)
            and getattr(error.orig, 'pgcode', None) == _NOT_SERIALISED)


def _counted(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Count each time that the database throws the verb's transaction out."""
    name = f'{verb.__module__.rpartition(".")[2]}.{verb.__name__}'

    @functools.wraps(verb)
    def tried(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return verb(*args, **kwargs)
        except (oslo_db_exception.DBError, sa.exc.DBAPIError) as exc:
            if isinstance(exc, oslo_db_exception.DBConnectionError) or _is_thrown_out(exc):
                database: Any = args[0]
                database.telemetry.database_retry(name)
            raise
    return tried
