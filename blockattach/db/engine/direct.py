"""Statements as texts, sent on a connection of SQLAlchemy's pool.

Not by SQLAlchemy's `Connection`, which describes the columns of each result and so takes longer
for a wide row than the server does. Listeners of statements are called, and errors have the names
that they have otherwise.
"""
import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach.db.engine import session_statements

# Where SQLAlchemy shows its statements.
_ECHO = logging.getLogger('sqlalchemy.engine.Engine')
Process = Callable[[Any], Any]


@dataclasses.dataclass(slots=True)
class Text:
    """What one kind of database is sent.

    :ivar order: names of the values by position; None: the driver takes them by name
    :ivar fixed: values that are part of the statement
    :ivar stored: how values are stored, by name
    :ivar kinds: of the columns that it returns
    :ivar row: None: it returns no rows
    :ivar named: for databases that call it by name; None: this one does not
    :ivar read: how columns are read, by position; None: not known before the first answer
    """

    text: str
    order: tuple[str, ...] | None
    fixed: dict[str, Any]
    stored: tuple[tuple[str, Process], ...]
    kinds: tuple[sa.types.TypeEngine[Any], ...]
    row: Process | None
    named: session_statements.Named | None = None
    read: tuple[tuple[int, Process], ...] | None = None

    def bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All its values, by name, as they are stored."""
        found = {**self.fixed, **values}
        for name, process in self.stored:
            found[name] = process(found[name])
        return found

    def rows(self, dialect: sa.Dialect, cursor: Any) -> list[Any]:
        """What a cursor has found: named tuples."""
        assert self.row is not None
        found = cursor.fetchall()
        if self.read is None:
            # Some drivers have several types for one of ours.
            read = [(position, kind.dialect_impl(dialect).result_processor(
                dialect, cursor.description[position][1]))
                for position, kind in enumerate(self.kinds)]
            self.read = tuple((position, one) for position, one in read if one is not None)
        if not self.read:
            return list(map(self.row, found))
        rows = []
        for one in found:
            changed = list(one)
            for position, process in self.read:
                changed[position] = process(changed[position])
            rows.append(self.row(changed))
        return rows


class _Context(sa.engine.ExceptionContext):
    """What listeners of errors look at, oslo.db's filters among them."""

    def __init__(self, dialect: sa.Dialect, found: BaseException, wrapped: sa.exc.StatementError,
                 is_disconnect: bool) -> None:
        self.dialect = dialect
        self.connection = None
        self.original_exception = found
        self.sqlalchemy_exception = wrapped
        self.is_disconnect = is_disconnect
        self.is_pre_ping = False


def connect(engine: sa.Engine) -> sa.Connection:
    """A connection of the pool, as SQLAlchemy's.

    :raises DBConnectionError: for whatever reason there is none; oslo.db does not know them all
    """
    with _connecting(engine):
        return engine.connect()


@contextlib.contextmanager
def borrowed(engine: sa.Engine) -> Iterator[sa.PoolProxiedConnection]:
    """A connection of the pool, for statements by themselves; it is given back without an open
    transaction.

    :raises DBConnectionError: for whatever reason there is none
    """
    with _connecting(engine):
        pooled = engine.raw_connection()
    try:
        yield pooled
    except oslo_db_exception.DBConnectionError:
        pooled.invalidate()
        raise
    except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError):
        try:
            pooled.rollback()
        except engine.dialect.loaded_dbapi.Error:
            pooled.invalidate()
        raise
    except BaseException:
        # It may be in the midst of a statement.
        pooled.invalidate()
        raise
    finally:
        pooled.close()


@contextlib.contextmanager
def within(connection: sa.Connection, text: Text, values: Mapping[str, Any]) -> Iterator[Any]:
    """`sent` within a transaction of SQLAlchemy's."""
    if not connection.in_transaction():
        # As SQLAlchemy does it: so the transaction ends when the connection is given back.
        connection.begin()
    try:
        with sent(connection.engine, connection.connection, text, values) as cursor:
            yield cursor
    except oslo_db_exception.DBConnectionError:
        connection.invalidate()
        raise


@contextlib.contextmanager
def sent(engine: sa.Engine, pooled: sa.PoolProxiedConnection, text: Text,
         values: Mapping[str, Any]) -> Iterator[Any]:
    """The cursor of a statement that has been executed, until its rows are read.

    :raises DBError: as oslo.db names what the database says
    """
    dialect = engine.dialect
    error = dialect.loaded_dbapi.Error
    bound = text.bound(values)
    parameters: Any = bound
    if text.order is not None:
        parameters = tuple([bound[name] for name in text.order])
    if _ECHO.isEnabledFor(logging.INFO):
        # Shown with SQLAlchemy's echo as well; values never are.
        _ECHO.info('%s', text.text)
    cursor = None
    try:
        cursor = pooled.cursor()
        for look in engine.dispatch.before_cursor_execute:
            look(None, cursor, text.text, parameters, None, False)
        if text.named is None or not session_statements.execute(
                pooled.info, cursor, text.named, bound, error):
            dialect.do_execute(cursor, text.text, parameters)
        yield cursor
        for look in engine.dispatch.after_cursor_execute:
            look(None, cursor, text.text, parameters, None, False)
    except error as exc:
        raise _named(dialect, pooled, cursor, text, exc) from exc
    finally:
        if cursor is not None:
            # What was to be read is read.
            with contextlib.suppress(error):
                cursor.close()


@contextlib.contextmanager
def _connecting(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except (sa.exc.OperationalError, sa.exc.TimeoutError,
            engine.dialect.loaded_dbapi.Error) as exc:
        raise oslo_db_exception.DBConnectionError(exc) from exc


def _named(dialect: sa.Dialect, pooled: sa.PoolProxiedConnection, cursor: Any, text: Text,
           found: Any) -> Exception:
    """What SQLAlchemy and oslo.db would raise."""
    is_disconnect = dialect.is_disconnect(found, pooled, cursor)
    wrapped = sa.exc.DBAPIError.instance(
        text.text, None, found, dialect.loaded_dbapi.Error, hide_parameters=True,
        connection_invalidated=is_disconnect, dialect=dialect)
    named, context = wrapped, _Context(dialect, found, wrapped, is_disconnect)
    for name in dialect.dispatch.handle_error:
        named = name(context) or named
    return named
