"""Transactions: one for reading, one for writing, on SQLite, MariaDB/MySQL and PostgreSQL.

A connection may be lost at any time. Before the COMMIT nothing has happened, and a verb is
repeated as after a deadlock. During the COMMIT the outcome is unknown: then the verb reads what it
has written, on another connection, and is done or repeated.
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
from blockattach.platform.db import write_refusals
from blockattach.platform.telemetry import acts

LOG = oslo_log.getLogger(__name__)

_NOT_SERIALISED = '40001'
_GONE = ('Cannot write to the database: the database file was removed or replaced. Restart the '
         'service.')
WRITER = 'blockattach_writer'
"""Execution option of a connection that is going to write."""

Happened = Callable[[sa.Connection], bool]
"""Whether the database holds what a transaction wrote. It waits for that one to end, by a lock."""

WriteProbe = Callable[[sa.Connection], None]
"""Writes something and deletes it again in the same transaction."""

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
    """Connections, and a clock for the times in rows."""

    def __init__(self, engine: sa.Engine, clock: clock.Clock,
                 telemetry: acts.Telemetry | None = None,
                 readers: sa.Engine | None = None,
                 write_probe: WriteProbe | None = None) -> None:
        """
        :param readers: what `opening.open_readers` has opened; None: readers use the writers' pool
        :param write_probe: shows `wrong` whether a database that refused to write accepts writes
        """
        self.engine = engine
        self._readers = readers or engine
        self.telemetry = telemetry or acts.Telemetry(clock)
        self.clock = clock
        # A statement by itself leaves a transaction open on the writers' connections to a server.
        self._is_by_itself = readers is not None or engine.dialect.name == 'sqlite'
        self._writers = engine.execution_options(**{WRITER: True})
        self._file = sqlite.File(engine)
        self._refuses = False
        self._write_probe = write_probe
        # SQLite has one writer at a time and wakes waiters by polling; a lock hands over at once.
        self._write_lock = (threading.Lock() if engine.dialect.name == 'sqlite'
                            else contextlib.nullcontext())

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """A connection for looking only. Each statement sees what is there when it is sent.

        :raises DatabaseUnavailable: it is not there
        """
        try:
            with (self.telemetry.transaction('read'),
                  statements.connect(self._readers) as connection):
                yield connection
        except oslo_db_exception.DBConnectionError as exc:
            raise errors.DatabaseUnavailable() from exc

    @property
    def engines(self) -> set[sa.Engine]:
        """The pools of connections."""
        return {self.engine, self._readers}

    @property
    def takes_as_one(self) -> bool:
        """Whether a transaction can be one way to the server, by `change`. Not known before
        something was looked at.
        """
        return self._readers is not self.engine and statements.takes_as_one(self._readers.dialect)

    def look(self, statement: statements.Statement, values: Mapping[str, Any]) -> list[Any]:
        """The rows of a statement by itself, as in `reader`."""
        if self._is_by_itself:
            try:
                with (self.telemetry.transaction('read'),
                      statements.borrowed(self._readers) as pooled):
                    # A dialect knows its server from the first connection on.
                    text = statement.text(self._readers.dialect)
                    with statements.sent(self._readers, pooled, text, values) as cursor:
                        return text.rows(self._readers.dialect, cursor)
            except oslo_db_exception.DBConnectionError as exc:
                raise errors.DatabaseUnavailable() from exc
        with self.reader() as connection:
            return statement.rows(connection, **values)

    def change(self, happened: Happened, *steps: statements.Step) -> int:
        """A transaction that is one way to the server, where it `takes_as_one`: the others are
        executed if the first finds anything to change; 0: it did not, and nothing is written.

        What was sent on a connection that was lost holds no lock until it arrives, so it may come
        after the question whether it has. The same steps are sent again then, and a second copy
        finds nothing: that is required of the first step.

        For parameters and errors see `writer`.
        """
        step = statements.as_one(*steps, is_transaction=True)
        lost: Exception | None = None
        for seconds in (*_RETRY_SECONDS, None):
            try:
                found, failure = self._send(step)
            except oslo_db_exception.DBConnectionError as exc:
                if lost is None:
                    raise
                found, failure = 0, exc
            if failure is None and (found or lost is None):
                return found
            lost = failure or lost
            assert lost is not None
            if self._is_stored(happened, lost):
                return 1
            if failure is None:
                return 0
            if seconds is not None:
                self.rest(seconds)
        raise errors.OutcomeUnknown() from lost

    def _send(self, step: statements.Step) -> tuple[int, Exception | None]:
        """What the first step has found; and how the connection was lost meanwhile, if it was.

        :raises DBConnectionError: there is none, so nothing was sent
        """
        with self._refusing(), statements.borrowed(self._readers) as pooled:
            text = step.statement.text(self._readers.dialect)
            failpoints.point('db.engine.before_commit')
            try:
                with statements.sent(self._readers, pooled, text, step.values) as cursor:
                    found = int(cursor.rowcount)
                failpoints.point('db.engine.after_commit')
            except oslo_db_exception.DBConnectionError as exc:
                pooled.invalidate()
                return 0, exc
        return found, None

    @contextlib.contextmanager
    def writer(self, happened: Happened | None = None) -> Iterator[sa.Connection]:
        """One transaction: all of it, or nothing. For a verb that is `retried`.

        :param happened: asked when the connection was lost while the database committed; None: the
            verb may be done twice
        :raises OutcomeUnknown: that could not be found out
        :raises DatabaseNotWritable: it takes nothing more now; nothing was written
        """
        lost = None
        with self._refusing(), self._write_lock, statements.connect(self._writers) as connection:
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
        if happened is not None and lost is not None and not self._is_stored(happened, lost):
            raise lost

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """A transaction that writes.

        :raises DatabaseNotWritable: it takes nothing more now
        """
        if self._file.is_gone():
            raise errors.DatabaseNotWritable(_GONE)
        try:
            with self.telemetry.transaction('write'):
                yield
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            if not write_refusals.is_refusal(exc):
                raise
            self._refuses = True
            raise errors.DatabaseNotWritable() from exc
        self._refuses = False

    def _is_stored(self, happened: Happened, lost: Exception) -> bool:
        """Whether a change is stored whose commit was not confirmed.

        :raises OutcomeUnknown: that could not be found out
        """
        # As long as a database may take to restart.
        retry = oslo_db_api.wrap_db_retry(
            max_retries=7, retry_interval=0.1, inc_retry_interval=True, max_retry_interval=5,
            retry_on_disconnect=True)
        try:
            is_stored = retry(_ask)(self._writers, happened)
        except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            LOG.error('Failed to determine the outcome of a commit', exc_info=exc)
            raise errors.OutcomeUnknown() from lost
        LOG.warning('Lost the database connection during a commit: %s',
                    'transaction committed' if is_stored
                    else 'transaction not committed, retrying')
        return is_stored

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
            if self._refuses and self._write_probe is not None:
                with self.writer() as connection:
                    self._write_probe(connection)
        except errors.DatabaseNotWritable as exc:
            return str(exc)
        except (errors.DatabaseUnavailable, oslo_db_exception.DBError):
            return 'cannot reach the database'
        return None

    def connections(self) -> tuple[int, int]:
        """How many connections are in use, and how many are open and idle."""
        pools = [engine.pool for engine in self.engines
                 if isinstance(engine.pool, sa.pool.QueuePool)]
        return (sum(pool.checkedout() for pool in pools),
                sum(pool.checkedin() for pool in pools))

    def close(self) -> None:
        """Give the connections back."""
        for engine in self.engines:
            engine.dispose()


def inserted(key: sa.Column[str], value: str) -> Happened:
    """Whether a verb has written the row that it makes, under the key that it has given it."""
    return lambda connection: connection.execute(
        sa.select(key).where(key == value).with_for_update()).first() is not None


def begin(connection: sa.Connection) -> sa.RootTransaction:
    """Begin a transaction that is going to write: on SQLite as the one that writes."""
    begun = connection.begin()
    if connection.dialect.name == 'sqlite':
        connection.exec_driver_sql('BEGIN IMMEDIATE')
    return begun


def _ask(engine: sa.Engine, happened: Happened) -> bool:
    lock_timeout = _LOCK_TIMEOUT.get(engine.dialect.name)
    with statements.connect(engine) as connection:
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
    """Whether the database asks for the whole of it once more."""
    return isinstance(error, oslo_db_exception.DBDeadlock) or (
        # PostgreSQL could not serialise; oslo.db has no name for that.
        isinstance(error, sa.exc.DBAPIError)
        and getattr(error.orig, 'pgcode', None) == _NOT_SERIALISED)
