"""Transactions: one for reading, one for writing, on SQLite, MariaDB/MySQL and PostgreSQL.

A connection may be lost at any time. Before the COMMIT nothing has happened, and a verb is
repeated as after a deadlock. During the COMMIT the outcome is unknown: then the verb reads what it
has written, on another connection, and is done or repeated. Stale connections are found when they
are taken from the pool: by the state of the socket, which costs nothing, and by a ping where that
shows something or the connection was idle (`check_freshness`).
"""
import contextlib
import datetime
import functools
import random
import select
import threading
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import ParamSpec
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as oslo_db_exception
from oslo_db.sqlalchemy import exc_filters
from oslo_log import log as oslo_log
from sqlalchemy import event

from blockattach import clock
from blockattach import errors
from blockattach import failpoints
from blockattach import secrets
from blockattach.conf import database as database_conf
from blockattach.conf import quota as quota_conf
from blockattach.db import models
from blockattach.db.engine import session_statements
from blockattach.db.engine import sqlite
from blockattach.db.engine import write_refusals
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)

_NOT_SERIALISED = '40001'
_GONE = ('cannot write into the database: its file was removed or replaced while it was served. '
         'Restart the service')
WRITER = 'blockattach_writer'
"""Execution option of a connection that is going to write."""

TRUSTED_SECONDS = 5.0
"""A connection that was used so recently counts as open unless its socket shows otherwise: with a
peer that has vanished a ping would take as long as a statement."""
_USED_AT = 'blockattach_used_at'

Happened = Callable[[sa.Connection], bool]
"""Whether the database holds what a transaction wrote. It waits for that one to end, by a lock."""

# How long to wait for the locks of a transaction whose commit was not confirmed.
_LOCK_TIMEOUT_SECONDS = 5
_LOCK_TIMEOUT = {'mysql': f'SET innodb_lock_wait_timeout = {_LOCK_TIMEOUT_SECONDS}',
                 'postgresql': f"SET lock_timeout = '{_LOCK_TIMEOUT_SECONDS}s'"}

# How long a verb rests before it is done again, at most; after the last one it is not.
_RETRY_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
VERBS: list[str] = []
"""The verbs that are `retried`, ``module.function``, of all modules that were imported."""

_P = ParamSpec('_P')
_R = TypeVar('_R')


class Database:
    """What every query needs: connections, a clock for records, the sealer for credentials."""

    def __init__(self, engine: sa.Engine, sealer: secrets.Sealer, clock: clock.Clock,
                 quota: quota_conf.QuotaSettings = quota_conf.NONE,
                 telemetry: acts.Telemetry | None = None,
                 readers: sa.Engine | None = None) -> None:
        """
        :param quota: what a project may have that was given no limits of its own
        :param readers: what `open_readers` has opened; None: readers use the writers' pool
        """
        self.engine = engine
        self._readers = readers or engine
        self.telemetry = telemetry or acts.Telemetry(clock)
        self.sealer = sealer
        self.clock = clock
        self.quota = quota
        self.limit_source: Callable[[str], Mapping[str, int]] | None = None
        """What a project may have, by name, where that is kept elsewhere; None: it is here."""
        self.counted: dict[tuple[str, str], tuple[int, Iterator[bool]]] = {}
        """What projects had when `blockattach.db.quotas` counted it, and what may follow."""
        self._writers = engine.execution_options(**{WRITER: True})
        self._file = sqlite.File(engine)
        self._refuses = False
        # SQLite has one writer at a time and wakes waiters by polling; a lock hands over at once.
        self._write_lock = (threading.Lock() if engine.dialect.name == 'sqlite'
                            else contextlib.nullcontext())

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """A connection for looking only. Each statement sees what is there when it is sent.

        :raises DatabaseUnavailable: it is not there
        """
        try:
            with self.telemetry.transaction('read'), _connect(self._readers) as connection:
                yield connection
        except oslo_db_exception.DBConnectionError as exc:
            raise errors.DatabaseUnavailable() from exc

    @contextlib.contextmanager
    def writer(self, happened: Happened | None = None) -> Iterator[sa.Connection]:
        """One transaction: all of it, or nothing. For a verb that is `retried`.

        :param happened: asked when the connection was lost while the database committed; None: the
            verb may be done twice
        :raises OutcomeUnknown: that could not be found out
        :raises DatabaseNotWritable: it takes nothing more now; nothing was written
        """
        if self._file.is_gone():
            raise errors.DatabaseNotWritable(_GONE)
        lost = None
        try:
            with (self.telemetry.transaction('write'), self._write_lock,
                  _connect(self._writers) as connection):
                begin(connection)
                yield connection
                failpoints.point('db.engine.before_commit')
                try:
                    connection.commit()
                    failpoints.point('db.engine.after_commit')
                except oslo_db_exception.DBConnectionError as exc:
                    if happened is None:
                        raise
                    lost = exc
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            if not write_refusals.is_refusal(exc):
                raise
            self._refuses = True
            raise errors.DatabaseNotWritable() from exc
        self._refuses = False
        if happened is not None and lost is not None:
            self._find_out(happened, lost)

    def _find_out(self, happened: Happened, lost: Exception) -> None:
        """Return if a change is stored whose commit was not confirmed."""
        # As long as a database may take to restart.
        retry = oslo_db_api.wrap_db_retry(
            max_retries=7, retry_interval=0.1, inc_retry_interval=True, max_retry_interval=5,
            retry_on_disconnect=True)
        try:
            is_stored = retry(_ask)(self._writers, happened)
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            LOG.error('Cannot find out whether a change is stored', exc_info=exc)
            raise errors.OutcomeUnknown() from lost
        if not is_stored:
            LOG.warning('Connection was lost during a commit: the change is not stored, and '
                        'repeated')
            raise lost
        LOG.warning('Connection was lost during a commit: the change is stored')

    def rest(self, seconds: float) -> None:
        """Wait for a random part of so many seconds, so that others go first."""
        self.clock.wait(threading.Event(), random.uniform(0, seconds))

    def new_id(self) -> str:
        """A UUID for a new row."""
        return str(uuid.uuid4())

    def wrong(self) -> str | None:
        """Why it cannot be used now, in a line; None: it can."""
        if self._file.is_gone():
            return _GONE
        try:
            with self.reader() as connection:
                connection.execute(sa.select(1))
            if self._refuses:
                self._write_nothing()
        except errors.DatabaseNotWritable as exc:
            return str(exc)
        except (errors.DatabaseUnavailable, oslo_db_exception.DBError):
            return 'cannot reach the database'
        return None

    def _write_nothing(self) -> None:
        """A transaction that writes, and leaves nothing, to see whether that is possible again."""
        mine = self.new_id()
        with self.writer() as connection:
            connection.execute(models.leases.insert().values(
                volume_id=mine, initiator='', owner='', deadline=self.clock.utcnow()))
            connection.execute(models.leases.delete().where(models.leases.c.volume_id == mine))

    def connections(self) -> tuple[int, int]:
        """How many connections are in use, and how many are open and idle."""
        pools = [engine.pool for engine in {self.engine, self._readers}
                 if isinstance(engine.pool, sa.pool.QueuePool)]
        return (sum(pool.checkedout() for pool in pools),
                sum(pool.checkedin() for pool in pools))

    def close(self) -> None:
        """Give the connections back."""
        for engine in {self.engine, self._readers}:
            engine.dispose()


def inserted(key: sa.Column[str], value: str) -> Happened:
    """Whether a verb has written the row that it makes, under the key that it has given it."""
    return lambda connection: connection.execute(
        sa.select(key).where(key == value).with_for_update()).first() is not None


def open_engine(settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Connect as configured; an SQLite file is made where it is missing."""
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        made = sqlite.open_engine(url, settings)
        _name_errors(made)
        return made
    # On PostgreSQL a transaction that has waited for a row sees what was written meanwhile,
    # whatever the database's default isolation is.
    made = _open_server(url, settings, isolation_level=(
        'READ COMMITTED' if url.get_backend_name() == 'postgresql' else None))
    _await_server(made, settings, clock.Clock())
    return made


def open_readers(settings: database_conf.DatabaseSettings) -> sa.Engine | None:
    """Connections that only read, each statement by itself: there is no transaction to end, which
    would be one more way to the server for each look. None: SQLite, to which there is no way.
    """
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        return None
    return _open_server(url, settings, isolation_level='AUTOCOMMIT',
                        skip_autocommit_rollback=True)


def _open_server(url: sa.URL, settings: database_conf.DatabaseSettings,
                 **more: Any) -> sa.Engine:
    """MySQL, MariaDB or PostgreSQL.

    Not by oslo.db, which asks a connection whether it is there each time that one is needed, and
    has SQLAlchemy call listeners of every statement, for the sake of savepoints and green threads.
    A connection comes back to the pool when its transaction has ended: the pool ends none again.
    """
    url = _prepare_url(url)
    kind = url.get_backend_name()
    # oslo.db's own choice; a server may have another one.
    arguments = {'client_encoding': 'utf8'} if kind == 'postgresql' else _quick_times(url)
    made = sa.create_engine(
        url, pool_size=settings.max_pool_size, max_overflow=settings.max_overflow,
        pool_timeout=settings.pool_timeout, pool_recycle=settings.connection_recycle_time,
        hide_parameters=True, pool_use_lifo=True, pool_reset_on_return=None,
        connect_args=arguments, **more)
    if kind == 'mysql':
        event.listen(made, 'connect', functools.partial(
            _prepare_mysql, settings.prepare_statements))
    _name_errors(made)
    check_freshness(made, clock.Clock())
    return made


def _quick_times(url: sa.URL) -> dict[str, Any]:
    """Has PyMySQL and mysqlclient read times by the standard library, which does it in C.

    Both do it in Python, which takes a tenth of the time of a long list.
    """
    module = url.get_dialect().import_dbapi()
    if not hasattr(module, 'converters'):
        return {}
    return {'conv': {**module.converters.conversions,
                     module.constants.FIELD_TYPE.DATETIME: datetime.datetime.fromisoformat}}


def _name_errors(made: sa.Engine) -> None:
    """Translate errors to oslo.db's, which are one set for every database."""
    event.listen(made, 'handle_error', exc_filters.handler, retval=True)


def _await_server(made: sa.Engine, settings: database_conf.DatabaseSettings,
                  time: clock.Clock) -> None:
    """Wait for the server as long as configured; not at all without ``max_retries``.

    :raises DBConnectionError: it is still not there
    """
    never = threading.Event()
    attempt = 0
    while settings.max_retries:
        attempt += 1
        try:
            with _connect(made):
                return
        except oslo_db_exception.DBConnectionError:
            if attempt == settings.max_retries:
                raise
            LOG.warning('Cannot reach the database yet')
            time.wait(never, settings.retry_interval)


def _prepare_mysql(prepare: bool, connection: Any, record: Any) -> None:
    """What does not fit into a column is an error, and not cut off.

    :param prepare: whether statements may be called by name, where the server can (MariaDB)
    """
    if prepare:
        session_statements.allow(record.info)
    cursor = connection.cursor()
    cursor.execute("SET SESSION sql_mode = 'TRADITIONAL'")
    cursor.close()


def check_freshness(engine: sa.Engine, time: clock.Clock) -> None:
    """Check whether a pooled connection can be used: in place of a ping each time it is taken.

    A server that ends a connection closes its socket, which then becomes readable. A quiet one
    that was used a moment ago is trusted; any other is pinged.
    """
    error = engine.dialect.loaded_dbapi.Error

    def used(connection: Any, record: Any) -> None:
        record.info[_USED_AT] = time.monotonic()

    def look(connection: Any, record: Any, proxy: Any) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or (time.monotonic() - used_at < TRUSTED_SECONDS
                               and _is_silent(connection, error)):
            return
        try:
            engine.dialect.do_ping(connection)
        except error as exc:
            # Whatever ended this one has ended those beside it.
            raise sa.exc.InvalidatePoolError() from exc

    event.listen(engine, 'checkin', used)
    event.listen(engine, 'checkout', look)


def _is_silent(connection: Any, error: type[Exception]) -> bool:
    """Whether nothing, not even an end, waits in the socket; False: nobody knows."""
    poll = select.poll()
    try:
        # PyMySQL has its socket in a private attribute; psycopg2 and mysqlclient have fileno().
        poll.register(getattr(connection, '_sock', connection), select.POLLIN)
        return not poll.poll(0)
    except (TypeError, ValueError, OSError, error):
        return False


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


def begin(connection: sa.Connection) -> sa.RootTransaction:
    """Begin a transaction that is going to write: on SQLite as the one that writes."""
    begun = connection.begin()
    if connection.dialect.name == 'sqlite':
        connection.exec_driver_sql('BEGIN IMMEDIATE')
    return begun


def _connect(engine: sa.Engine) -> sa.Connection:
    """A connection of the pool.

    :raises DBConnectionError: for whatever reason there is none; oslo.db does not know them all
    """
    try:
        return engine.connect()
    except (sa.exc.OperationalError, sa.exc.TimeoutError) as exc:
        raise oslo_db_exception.DBConnectionError(exc) from exc


def _ask(engine: sa.Engine, happened: Happened) -> bool:
    lock_timeout = _LOCK_TIMEOUT.get(engine.dialect.name)
    with _connect(engine) as connection:
        if lock_timeout is not None:
            # What is set for this session ends with it.
            connection.detach()
            connection.exec_driver_sql(lock_timeout)
        return happened(connection)


def retried(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeat a verb, from its beginning, whose transaction the database rolled back, or whose
    connection was lost before it had committed.

    Rolled back by a deadlock, a failed serialisation, or a RetryRequest of the verb itself. There
    are no savepoints: at a deadlock MariaDB rolls back the whole transaction, and statements after
    that would write the rest of it alone.

    Not by oslo.db's wrap_db_retry: it rests by the system's own clock, does not know the failed
    serialisations of PostgreSQL, and has no place where a retry could be counted. Nor by tenacity,
    which takes ten microseconds more for each verb that goes well, and would have to be given all
    of that too.

    :raises DatabaseUnavailable: it stays away
    """
    name = f'{verb.__module__.rpartition(".")[2]}.{verb.__name__}'
    before, after = f'db.{name}.before', f'db.{name}.after'

    @functools.wraps(verb)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        failpoints.point(before)
        database: Any = args[0]
        for seconds in (*_RETRY_SECONDS, None):
            try:
                result = verb(*args, **kwargs)
                break
            except Exception as exc:
                if isinstance(exc, oslo_db_exception.DBConnectionError) or _is_thrown_out(exc):
                    database.telemetry.database_retry(name)
                elif not isinstance(exc, oslo_db_exception.RetryRequest):
                    raise
                if seconds is None:
                    LOG.error('Cannot complete a transaction: all retries have failed',
                              exc_info=exc)
                    if isinstance(exc, oslo_db_exception.DBConnectionError):
                        raise errors.DatabaseUnavailable() from exc
                    if isinstance(exc, oslo_db_exception.RetryRequest):
                        raise exc.inner_exc from exc
                    raise
            database.rest(seconds)
        failpoints.point(after)
        return result
    VERBS.append(name)
    return wrapped


def _is_thrown_out(error: Exception) -> bool:
    """Whether the database asks for the whole of it once more."""
    return isinstance(error, oslo_db_exception.DBDeadlock) or (
        # PostgreSQL could not serialise; oslo.db has no name for that.
        isinstance(error, sa.exc.DBAPIError)
        and getattr(error.orig, 'pgcode', None) == _NOT_SERIALISED)
