"""Read and write transactions on SQLite, MariaDB/MySQL and PostgreSQL.

A connection may be lost at any time. If it is lost before the COMMIT, nothing was changed, and the
operation is retried as after a deadlock. If it is lost during the COMMIT, the outcome is unknown.
An operation that may be executed twice is then retried. For any other operation, a query on
another connection determines whether the changes are stored. If the changes are not stored, the
operation is retried.
"""
import contextlib
import functools
import random
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
from oslo_log import log as oslo_log

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.db import sqlite
from blockattach.platform.db import statements
from blockattach.platform.telemetry import acts

LOG = oslo_log.getLogger(__name__)

_SQLITE = ('database or disk is full', 'attempt to write a readonly database')
_MYSQL = {
    1021: 'ER_DISK_FULL',
    1114: 'ER_RECORD_FILE_FULL',
    # Raised on a server with read_only = ON, such as a replica after a failover.
    1290: 'ER_OPTION_PREVENTS_STATEMENT',
    1792: 'ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION',
    1836: 'ER_READ_ONLY_MODE',
}
_POSTGRESQL = {'25006': 'read_only_sql_transaction', '53100': 'disk_full'}
_NOT_SERIALISED = '40001'
_GONE = ('Cannot write to the database: the database file was removed or replaced. Restart the '
         'service.')
WRITER = 'blockattach_writer'
"""Execution option of connections that are used for writing."""

Happened = Callable[[sa.Connection], bool]
"""Callback that returns True if the changes of a transaction are stored.

The callback must read with a lock, so that it waits until the transaction has ended.
"""

WriteProbe = Callable[[sa.Connection], None]
"""Callback that writes a row and deletes the row in the same transaction."""

# Maximum wait for the locks of a transaction whose commit was not confirmed.
_LOCK_TIMEOUT_SECONDS = 5
_LOCK_TIMEOUT = {'mysql': f'SET innodb_lock_wait_timeout = {_LOCK_TIMEOUT_SECONDS}',
                 'postgresql': f"SET lock_timeout = '{_LOCK_TIMEOUT_SECONDS}s'"}

# Maximum delays before the retries of an operation. There is one retry for each delay.
_RETRY_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
VERBS: list[str] = []
"""Names (``module.function``) of all functions decorated with `retried` in imported modules."""

_P = ParamSpec('_P')
_R = TypeVar('_R')


def _is_refusal(error: BaseException) -> bool:
    """Return True if an error, or an error wrapped in it, shows that a write was rejected."""
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, 'pgcode', None) in _POSTGRESQL:
            return True
        if type(cause).__module__ == 'sqlite3':
            return any(text in str(cause) for text in _SQLITE)
        if cause.args and isinstance(cause.args[0], int) and cause.args[0] in _MYSQL:
            return True
        cause = getattr(cause, 'inner_exception', None) or getattr(cause, 'orig', None)
    return False


class Database:
    """Connection pools of a database, and the clock for timestamps in rows."""

    def __init__(self, engine: sa.Engine, clock: clock.Clock,
                 telemetry: acts.Telemetry | None = None,
                 readers: sa.Engine | None = None,
                 write_probe: WriteProbe | None = None) -> None:
        """
        :param readers: engine from `opening.open_readers`; None if readers use the pool of the
            writers
        :param write_probe: callback by which `wrong` checks whether a database that has rejected a
            write accepts writes again
        """
        self.engine = engine
        self._readers = readers or engine
        self.telemetry = telemetry or acts.Telemetry(clock)
        self.clock = clock
        # True if `look` may send a single statement without a transaction. Writers' connections to
        # a server are not in autocommit mode, so the statement would leave a transaction open.
        self._is_by_itself = readers is not None or engine.dialect.name == 'sqlite'
        self._writers = engine.execution_options(**{WRITER: True})
        self._file = sqlite.File(engine)
        self._refuses = False
        self._write_probe = write_probe
        # SQLite allows a single writer, and further writers poll. The lock wakes the next writer
        # of this process without a delay.
        self._write_lock = (threading.Lock() if engine.dialect.name == 'sqlite'
                            else contextlib.nullcontext())

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """Open a read-only connection. Each statement sees the data as of its own start.

        :raises DatabaseUnavailable: the database is not reachable
        """
        try:
            with (self.telemetry.transaction('read'),
                  statements.connect(self._readers) as connection):
                yield connection
        except oslo_db_exception.DBConnectionError as exc:
            raise errors.DatabaseUnavailable() from exc

    @property
    def engines(self) -> set[sa.Engine]:
        """Engines in use, one for each connection pool."""
        return {self.engine, self._readers}

    @property
    def takes_as_one(self) -> bool:
        """True if `change` can send a whole transaction in one round trip.

        The value is only known after the first read.
        """
        return self._readers is not self.engine and statements.takes_as_one(self._readers.dialect)

    def look(self, statement: statements.Statement, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a single statement, executed as in `reader`.

        :raises DatabaseUnavailable: the database is not reachable
        """
        if self._is_by_itself:
            try:
                with (self.telemetry.transaction('read'),
                      statements.borrowed(self._readers) as pooled):
                    # The dialect is only initialized by the first connection.
                    text = statement.text(self._readers.dialect)
                    return statements.execute(
                        self._readers, pooled, text, values,
                        lambda cursor: text.rows(self._readers.dialect, cursor))
            except oslo_db_exception.DBConnectionError as exc:
                raise errors.DatabaseUnavailable() from exc
        with self.reader() as connection:
            return statement.rows(connection, **values)

    def change(self, happened: Happened, *steps: statements.Step) -> int:
        """Execute a transaction in one round trip, which requires `takes_as_one`.

        The steps after the first one are executed only if the first step changes any rows. The
        steps may be sent again, so the first step must change nothing when it is executed a second
        time.

        See `writer` for the parameter ``happened`` and the errors.

        :returns: number of rows that the first step changed, or 0 if nothing was written. If the
            connection was lost and the changes were found stored, the result is 1
        """
        step = statements.as_one(*steps, is_transaction=True)
        lost: Exception | None = None
        for seconds in (*_RETRY_SECONDS, None):
            try:
                found, failure = self._send(step)
            except oslo_db_exception.DBConnectionError as exc:
                # Nothing was sent yet, so `retried` may repeat the whole operation.
                if lost is None:
                    raise
                # An earlier attempt was sent, and may still arrive. Its outcome is determined
                # first.
                found, failure = 0, exc
            if failure is None and (found or lost is None):
                return found
            lost = failure or lost
            assert lost is not None
            # A statement that was sent on a lost connection holds no lock until it arrives, so it
            # may arrive after this check. The same steps are then sent again.
            if self._is_stored(happened, lost):
                return 1
            if failure is None:
                return 0
            if seconds is not None:
                self.rest(seconds)
        raise errors.OutcomeUnknown() from lost

    def _send(self, step: statements.Step) -> tuple[int, Exception | None]:
        """Send a transaction.

        :returns: number of rows that the first step changed, and the error if the connection was
            lost
        :raises DBConnectionError: no connection is available, so nothing was sent
        """
        with self._refusing(), statements.borrowed(self._readers) as pooled:
            text = step.statement.text(self._readers.dialect)
            failpoints.point('db.engine.before_commit')
            try:
                found = statements.execute(self._readers, pooled, text, step.values,
                                           statements.row_count)
                failpoints.point('db.engine.after_commit')
            except oslo_db_exception.DBConnectionError as exc:
                pooled.invalidate()
                return 0, exc
        return found, None

    @contextlib.contextmanager
    def writer(self, happened: Happened | None = None) -> Iterator[sa.Connection]:
        """Run a write transaction, which is committed at the end of the context.

        The calling function must be decorated with `retried`.

        :param happened: callback that is called if the connection was lost during the commit; None
            if the operation may be executed twice
        :raises OutcomeUnknown: the outcome of the commit could not be determined
        :raises DatabaseNotWritable: the database rejects writes; nothing was written
        """
        lost = None
        # The lock is taken before the connection, so that waiting threads hold no connection of
        # the pool.
        with self._refusing(), self._write_lock, statements.connect(self._writers) as connection:
            begin(connection)
            yield connection
            failpoints.point('db.engine.before_commit')
            try:
                connection.commit()
                failpoints.point('db.engine.after_commit')
            except oslo_db_exception.DBConnectionError as exc:
                # The operation may be executed twice, so `retried` repeats the operation without a
                # check.
                if happened is None:
                    raise
                lost = exc
        if happened is not None and lost is not None and not self._is_stored(happened, lost):
            raise lost

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Measure a write transaction and translate rejected writes.

        :raises DatabaseNotWritable: the database rejects writes
        """
        if self._file.is_gone():
            raise errors.DatabaseNotWritable(_GONE)
        try:
            with self.telemetry.transaction('write'):
                yield
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            if not _is_refusal(exc):
                raise
            self._refuses = True
            raise errors.DatabaseNotWritable() from exc
        self._refuses = False

    def _is_stored(self, happened: Happened, lost: Exception) -> bool:
        """Return True if a change is stored although its commit was not confirmed.

        :raises OutcomeUnknown: the outcome could not be determined
        """
        # The retries take long enough for a restart of the database.
        retry = oslo_db_api.wrap_db_retry(
            max_retries=7, retry_interval=0.1, inc_retry_interval=True, max_retry_interval=5,
            retry_on_disconnect=True)
        try:
            is_stored = retry(_ask)(self._writers, happened)
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            LOG.error('Failed to determine the outcome of a commit', exc_info=exc)
            raise errors.OutcomeUnknown() from lost
        if is_stored:
            LOG.warning('Lost the database connection during commit, transaction was committed')
        else:
            LOG.warning('Lost the database connection during commit, retrying transaction')
        return is_stored

    def rest(self, seconds: float) -> None:
        """Wait for a random time of up to ``seconds``, so that other transactions go first."""
        self.clock.wait(threading.Event(), random.uniform(0, seconds))

    def new_id(self) -> str:
        """Return a UUID for a new row."""
        return str(uuid.uuid4())

    def wrong(self) -> str | None:
        """Return the reason why the database is not usable, as one line; None if it is usable.
        """
        if self._file.is_gone():
            return _GONE
        try:
            with self.reader() as connection:
                connection.execute(sa.select(1))
            # Only a successful write clears `_refuses`. Without the probe, a process that gets no
            # more requests would report the failure forever.
            if self._refuses and self._write_probe is not None:
                with self.writer() as connection:
                    self._write_probe(connection)
        except errors.DatabaseNotWritable as exc:
            return str(exc)
        except (errors.DatabaseUnavailable, oslo_db_exception.DBError):
            return 'cannot reach the database'
        return None

    def connections(self) -> tuple[int, int]:
        """Return the numbers of busy and of idle connections."""
        pools = [engine.pool for engine in self.engines
                 if isinstance(engine.pool, sa.pool.QueuePool)]
        return (sum(pool.checkedout() for pool in pools),
                sum(pool.checkedin() for pool in pools))

    def close(self) -> None:
        for engine in self.engines:
            engine.dispose()


def inserted(key: sa.Column[str], value: str) -> Happened:
    """Return a callback that checks if the row with a new key was inserted."""
    return lambda connection: connection.execute(
        sa.select(key).where(key == value).with_for_update()).first() is not None


def begin(connection: sa.Connection) -> sa.RootTransaction:
    """Begin a write transaction. On SQLite this acquires the write lock."""
    begun = connection.begin()
    if connection.dialect.name == 'sqlite':
        # A transaction that reads first and writes later fails with SQLITE_BUSY_SNAPSHOT if
        # another transaction has committed meanwhile. IMMEDIATE takes the write lock before the
        # first read.
        connection.exec_driver_sql('BEGIN IMMEDIATE')
    return begun


def _ask(engine: sa.Engine, happened: Happened) -> bool:
    lock_timeout = _LOCK_TIMEOUT.get(engine.dialect.name)
    with statements.connect(engine) as connection:
        if lock_timeout is not None:
            # Detached from the pool, because the setting applies to the whole session.
            connection.detach()
            connection.exec_driver_sql(lock_timeout)
        return happened(connection)


def retried(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Retry an operation whose transaction was rolled back or whose connection was lost.

    If the connection was lost during the commit, the operation is retried if its changes are not
    stored, or if it may be executed twice (`Database.writer`). Transactions are rolled back after
    a deadlock, a serialization failure, or a RetryRequest of the operation itself.

    There are no savepoints, because MariaDB rolls back the whole transaction at a deadlock. The
    statements after a savepoint would then be committed without the statements before it.

    If the last retry fails as well, its error is raised. A RetryRequest is replaced with its inner
    exception.

    :raises DatabaseUnavailable: the database is not reachable after all retries
    """
    # Not oslo.db's wrap_db_retry: it sleeps by the system clock, does not detect serialization
    # failures of PostgreSQL, and cannot count retries. Not tenacity: it adds ten microseconds to
    # each successful operation, and would need the same code for errors.
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
                    LOG.error('Failed to complete a transaction after all retries', exc_info=exc)
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
    """Return True if the database rolled back the transaction, which must be retried."""
    return isinstance(error, oslo_db_exception.DBDeadlock) or (
        # Serialization failure of PostgreSQL, for which oslo.db has no class.
        isinstance(error, sa.exc.DBAPIError)
        and getattr(error.orig, 'pgcode', None) == _NOT_SERIALISED)
