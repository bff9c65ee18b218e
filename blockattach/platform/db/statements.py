"""Statements of frequent requests, which are compiled once and then sent as text.

SQLAlchemy builds a statement anew for each request, looks up its text by a key of all its parts,
and describes the columns of each result. For a statement of fifty columns that takes several times
as long as the server does. Frequent statements are therefore instances of `Statement`. A statement
has one text for each kind of database, takes values by name, returns rows as named tuples, and is
executed on a connection of SQLAlchemy's pool. Event listeners are still called, and errors have
the same classes as with SQLAlchemy and oslo.db.
MariaDB parses the text once per connection (`blockattach.platform.db.session_statements`).
"""
import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Protocol
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception
from sqlalchemy.sql import visitors

from blockattach.platform.db import clock
from blockattach.platform.db import session_statements

# Logger of SQLAlchemy for statements.
_ECHO = logging.getLogger('sqlalchemy.engine.Engine')
_Process = Callable[[Any], Any]
Shape = tuple[tuple[str, bool | None], ...]
_Result = TypeVar('_Result')
_WHERE = 'where_'
# Without the handler, an error would leave the transaction open on the pooled connection.
_TRANSACTION = (
    ('DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;',
     'START TRANSACTION;'),
    ('COMMIT;', 'ELSE', 'ROLLBACK;', 'END IF;'))
"""Beginning and end of a compound statement of MariaDB that is a transaction."""


@dataclasses.dataclass(slots=True)
class Text:
    """Compiled statement for one kind of database.

    :ivar order: names of the values by position; None if the driver takes values by name
    :ivar fixed: values that are part of the statement
    :ivar stored: functions that convert values for storage, by name
    :ivar kinds: types of the returned columns
    :ivar row: function that creates a named tuple from a row; None if the statement returns no
        rows
    :ivar named: form for prepared statements; None if the database does not support them
    :ivar read: functions that convert columns of a result, by position; None before the first
        result
    """

    text: str
    order: tuple[str, ...] | None
    fixed: dict[str, Any]
    stored: tuple[tuple[str, _Process], ...]
    kinds: tuple[sa.types.TypeEngine[Any], ...]
    row: _Process | None
    named: session_statements.Named | None = None
    read: tuple[tuple[int, _Process], ...] | None = None

    def bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values by name, converted for storage."""
        found = {**self.fixed, **values}
        for name, process in self.stored:
            found[name] = process(found[name])
        return found

    def rows(self, dialect: sa.Dialect, cursor: Any) -> list[Any]:
        """Return the rows of a cursor as named tuples."""
        assert self.row is not None
        found = cursor.fetchall()
        if self.read is None:
            # Some drivers use several types for one SQLAlchemy type.
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


class Looking(Protocol):
    """Executor of a single statement, such as `engine.Database`."""

    def look(self, statement: 'Statement', values: Mapping[str, Any]) -> list[Any]:
        """Execute a statement with values by name, and return its rows."""


def value(name: str, kind: sa.types.TypeEngine[Any] | None = None) -> sa.BindParameter[Any]:
    """Return a placeholder for a value that is passed when a `Statement` is executed.

    :param kind: type of the value; None for the type of the expression with which the statement
        compares the value
    """
    return sa.bindparam(name, None, type_=kind, required=False)


def column_value(column: sa.Column[Any], prefix: str = '') -> sa.BindParameter[Any]:
    """Return a placeholder for a column value, named ``prefix`` and the name of the column.
    """
    return value(prefix + column.name, column.type)


def shape(row: Mapping[str, Any]) -> Shape:
    """Return the cache key of a statement that writes the columns of a row.

    Each item is a column name and a flag. The flag is True for a `clock.Later`, None for NULL, and
    False for any other value.
    """
    return tuple([(name, None if one is None else type(one) is clock.Later)
                  for name, one in row.items()])


def values_of(row: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
    """Return the values for a `Statement` that writes a row, by placeholder name.
    """
    return {prefix + name: one.seconds if type(one) is clock.Later else one
            for name, one in row.items() if one is not None}


def values(table: sa.Table, of_shape: Shape, prefix: str = '') -> dict[Any, Any]:
    """Return the expressions that a statement writes into the columns of a table, by column."""
    return {table.c[name]: sa.null() if later is None
            else clock.now(value(prefix + name, sa.Float())) if later
            else column_value(table.c[name], prefix) for name, later in of_shape}


class Step(NamedTuple):
    """Statement of a transaction with its values by placeholder name.

    The steps of a transaction must not share placeholder names.
    """

    statement: 'Statement'
    values: dict[str, Any]


def inserting(table: sa.Table, row: Mapping[str, Any]) -> Step:
    """Return a step that inserts a row.

    If the step is not the first step of a transaction, it is executed only if the first step has
    changed any rows.
    """
    prefix = f'{table.name}_'
    return Step(_insert(table, shape(row), prefix), values_of(row, prefix))


def updating(table: sa.Table, where: Mapping[str, Any], row: Mapping[str, Any]) -> Step:
    """Return a step that updates the rows matching ``where``, which must not contain None.

    The step must be the first step of a transaction.
    """
    return Step(_update(table, tuple(where), shape(row)),
                values_of(row) | values_of(where, _WHERE))


def together(connection: sa.Connection, *steps: Step) -> int:
    """Execute the first step, and the other steps if the first step has changed any rows.

    MariaDB and PostgreSQL execute all steps in one round trip. On PostgreSQL all steps see the
    data as of the start of the statement, without the changes of the other steps.

    :returns: number of rows that the first step changed
    """
    if takes_as_one(connection.dialect):
        one = as_one(*steps)
        return one.statement.change(connection, **one.values)
    first, *others = steps
    found = first.statement.change(connection, **first.values)
    if found:
        for step in others:
            step.statement.change(connection, **step.values)
    return found


def takes_as_one(dialect: sa.Dialect) -> bool:
    """Return True if the database executes several statements in one round trip."""
    return dialect.name == 'postgresql' or getattr(dialect, 'is_mariadb', False)


def as_one(*steps: Step, is_transaction: bool = False) -> Step:
    """Combine steps into one step, for a database for which `takes_as_one` is True.

    :param is_transaction: True to make the combined step a transaction of its own
    """
    if len(steps) == 1:
        return steps[0]
    values: dict[str, Any] = {}
    for step in steps:
        values |= step.values
    return Step(_as_one(tuple(step.statement for step in steps), is_transaction), values)


@functools.cache
def _as_one(statements: tuple['Statement', ...], is_transaction: bool) -> 'Statement':
    def build(dialect: sa.Dialect) -> Any:
        first, *others = statements
        changed = first.build(dialect)
        if dialect.name == 'mysql':
            return changed, *(one.build(dialect) for one in others)
        source = changed.returning(*changed.table.primary_key).cte('first')
        parts = []
        for number, one in enumerate(others):
            assert one.after is not None
            # PostgreSQL executes a CTE that writes even if nothing reads from it.
            part = one.after(source)
            parts.append(part.returning(sa.literal_column('1')).cte(f'other_{number}'))
        return sa.select(source).add_cte(*parts)
    # MariaDB cannot prepare compound statements.
    return Statement(build, parsed_once=False, is_transaction=is_transaction)


def insert(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Insert a row."""
    _insert(table, shape(row)).change(connection, **values_of(row))


def update(connection: sa.Connection, table: sa.Table, where: Mapping[str, Any],
           row: Mapping[str, Any]) -> int:
    """Update the rows matching ``where``, which must not contain None.

    :returns: number of matching rows
    """
    return together(connection, updating(table, where, row))


@functools.cache
def _insert(table: sa.Table, of_shape: Shape, prefix: str = '') -> 'Statement':
    written = values(table, of_shape, prefix)

    def after(source: sa.CTE) -> sa.Insert:
        given = {column: sa.literal(column.default.arg, column.type) for column in table.c
                 if isinstance(column.default, sa.ColumnDefault)} | written
        return table.insert().from_select(
            list(given), sa.select(*given.values()).select_from(source), include_defaults=False)

    return Statement(lambda dialect: table.insert().values(written), after=after)


@functools.cache
def _update(table: sa.Table, where: tuple[str, ...], of_shape: Shape) -> 'Statement':
    return Statement(lambda dialect: table.update().where(
        *(table.c[name] == column_value(table.c[name], _WHERE) for name in where),
    ).values(values(table, of_shape)))


class Statement:
    """Statement that is executed with a value for each placeholder made by `value`."""

    def __init__(self, build: Callable[[sa.Dialect], Any], parsed_once: bool = True,
                 after: Callable[[sa.CTE], Any] | None = None,
                 is_transaction: bool = False) -> None:
        """
        :param build: function that builds the statement, called once for each kind of database.
            For MariaDB it may return a tuple, whose later statements are executed only if the
            first statement changes any rows
        :param parsed_once: False if the text is too long to be prepared on each connection
        :param after: function that builds a variant for PostgreSQL, which does nothing if the
            given CTE has no rows; None if the statement is always the first step
        :param is_transaction: True to execute a tuple of statements as a transaction of its own
        """
        self.build = build
        self.after = after
        self._parsed_once = parsed_once
        self._is_transaction = is_transaction
        self._texts: dict[tuple[str, str], Text] = {}

    def rows(self, on: 'sa.Connection | Looking', /, **values: Any) -> list[Any]:
        """Return the selected rows as named tuples."""
        if not isinstance(on, sa.Connection):
            return on.look(self, values)
        text = self.text(on.dialect)
        return _execute_within(on, text, values, lambda cursor: text.rows(on.dialect, cursor))

    def first(self, on: 'sa.Connection | Looking', /, **values: Any) -> Any:
        """Return the first selected row as a named tuple, or None if no row is selected."""
        found = self.rows(on, **values)
        return found[0] if found else None

    def change(self, connection: sa.Connection, /, **values: Any) -> int:
        """Execute the statement and return the number of matched rows."""
        return _execute_within(connection, self.text(connection.dialect), values, row_count)

    def text(self, dialect: sa.Dialect) -> Text:
        """Return the compiled statement, which is cached for each kind of database."""
        kind = dialect.name, dialect.driver
        found = self._texts.get(kind)
        if found is None:
            found = self._texts[kind] = _compile(
                self.build(dialect), dialect, self._parsed_once, self._is_transaction)
        return found


def _compile(statement: Any, dialect: sa.Dialect, parsed_once: bool,
             is_transaction: bool = False) -> Text:
    if isinstance(statement, tuple):
        return _block([_compile(one, dialect, False) for one in statement], is_transaction)
    compiled = visitors.replacement_traverse(statement, {}, _written_out).compile(
        dialect=dialect, compile_kwargs={'render_postcompile': True})
    parameters = {name: one for one, name in compiled.bind_names.items()}
    stored = {
        name: process for name, one in parameters.items()
        if (process := one.type.dialect_impl(dialect).bind_processor(dialect)) is not None}
    # Parameters that the compiler adds under generated names.
    fixed = {name: stored[name](given) if name in stored else given
             for name, given in compiled.params.items()
             if name not in parameters or parameters[name].unique}
    for column in getattr(compiled, 'insert_prefetch', ()):
        fixed[column.key] = column.default.arg
    selected = statement.selected_columns if isinstance(statement, sa.SelectBase) else ()
    text = str(compiled)
    order = tuple(compiled.positiontup) if compiled.positional else None
    return Text(
        text, order, fixed,
        tuple((name, process) for name, process in stored.items()
              if name not in fixed and not parameters[name].unique),
        tuple(column.type for column in selected),
        _row([str(column.key) for column in selected]) if selected else None,
        session_statements.named(text, order)
        if parsed_once and getattr(dialect, 'is_mariadb', False) else None)


def _written_out(element: Any, **_: Any) -> Any:
    """Return a literal for a value that is part of the statement and must not be bound."""
    if isinstance(element, sa.BindParameter) and element.unique:
        return element.render_literal_execute()
    return None


def _block(parts: list[Text], is_transaction: bool) -> Text:
    """Combine statements into a compound statement of MariaDB, with values by position."""
    texts: list[str] = []
    order: list[str] = []
    fixed: dict[str, Any] = {}
    for number, part in enumerate(parts):
        text, names = session_statements.positional(part.text, part.order)
        texts.append(f'{text};')
        # The names of fixed values are generated, and may be the same in several statements.
        order += [f'{number}.{name}' if name in part.fixed else name for name in names]
        fixed |= {f'{number}.{name}': given for name, given in part.fixed.items()}
    before, after = _TRANSACTION if is_transaction else ((), ('END IF;',))
    text = '\n'.join(('BEGIN NOT ATOMIC', *before, texts[0], 'IF ROW_COUNT() > 0 THEN',
                      *texts[1:], *after, 'END'))
    return Text(
        text, tuple(order), fixed,
        tuple(itertools.chain(*(part.stored for part in parts))), (), None)


def _row(names: list[str]) -> _Process:
    # Any, because the type checker requires literal field names.
    made: Any = collections.namedtuple
    found: _Process = made('Row', names)._make
    return found


class _Context(sa.engine.ExceptionContext):
    """Exception context passed to error listeners, such as the filters of oslo.db."""

    def __init__(self, dialect: sa.Dialect, error: BaseException, wrapped: sa.exc.StatementError,
                 is_disconnect: bool) -> None:
        self.dialect = dialect
        self.connection = None
        self.original_exception = error
        self.sqlalchemy_exception = wrapped
        self.is_disconnect = is_disconnect
        self.is_pre_ping = False


def connect(engine: sa.Engine) -> sa.Connection:
    """Return a SQLAlchemy connection from the pool.

    :raises DBConnectionError: no connection is available, also if oslo.db does not translate the
        error of the driver
    """
    with _connecting(engine):
        return engine.connect()


@contextlib.contextmanager
def borrowed(engine: sa.Engine) -> Iterator[sa.PoolProxiedConnection]:
    """Borrow a pooled connection for single statements.

    The connection is returned without an open transaction.

    :raises DBConnectionError: no connection is available
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
            # The pool does not reset connections when they are returned (see `opening`).
            pooled.rollback()
        except engine.dialect.loaded_dbapi.Error:
            pooled.invalidate()
        raise
    except BaseException:
        # The connection may still be executing a statement.
        pooled.invalidate()
        raise
    finally:
        pooled.close()


def _execute_within(connection: sa.Connection, text: Text, values: Mapping[str, Any],
                    read: Callable[[Any], _Result]) -> _Result:
    """Execute a statement as `execute` does, within a transaction of SQLAlchemy."""
    if not connection.in_transaction():
        # Like SQLAlchemy's autobegin, so that returning the connection ends the transaction.
        connection.begin()
    try:
        return execute(connection.engine, connection.connection, text, values, read)
    except oslo_db_exception.DBConnectionError:
        connection.invalidate()
        raise


def row_count(cursor: Any) -> int:
    """Return the number of rows that the statement of a cursor has matched."""
    return int(cursor.rowcount)


def execute(engine: sa.Engine, pooled: sa.PoolProxiedConnection, text: Text,
            values: Mapping[str, Any], read: Callable[[Any], _Result]) -> _Result:
    """Execute a statement, and return the result of calling ``read`` with its cursor.

    :raises DBError: error of the database, as translated by oslo.db
    """
    dialect = engine.dialect
    error = dialect.loaded_dbapi.Error
    bound = text.bound(values)
    parameters: Any = bound
    if text.order is not None:
        parameters = tuple([bound[name] for name in text.order])
    if _ECHO.isEnabledFor(logging.INFO):
        # Log the text like SQLAlchemy's echo, but never the values.
        _ECHO.info('%s', text.text)
    cursor = None
    try:
        cursor = pooled.cursor()
        for look in engine.dispatch.before_cursor_execute:
            look(None, cursor, text.text, parameters, None, False)
        if text.named is None or not session_statements.execute(
                pooled.info, cursor, text.named, bound, error):
            dialect.do_execute(cursor, text.text, parameters)
        result = read(cursor)
        for look in engine.dispatch.after_cursor_execute:
            look(None, cursor, text.text, parameters, None, False)
        return result
    except error as exc:
        raise _named(dialect, pooled, cursor, text, exc) from exc
    finally:
        if cursor is not None:
            # All rows have been read, so errors no longer matter.
            with contextlib.suppress(error):
                cursor.close()


@contextlib.contextmanager
def _connecting(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    # An exhausted pool counts as a lost connection, because nothing was sent in either case.
    except (sa.exc.OperationalError, sa.exc.TimeoutError,
            engine.dialect.loaded_dbapi.Error) as exc:
        raise oslo_db_exception.DBConnectionError(exc) from exc


def _named(dialect: sa.Dialect, pooled: sa.PoolProxiedConnection, cursor: Any, text: Text,
           error: Any) -> Exception:
    """Return the error that SQLAlchemy and oslo.db would raise for an error of the driver."""
    is_disconnect = dialect.is_disconnect(error, pooled, cursor)
    wrapped = sa.exc.DBAPIError.instance(
        text.text, None, error, dialect.loaded_dbapi.Error, hide_parameters=True,
        connection_invalidated=is_disconnect, dialect=dialect)
    named, context = wrapped, _Context(dialect, error, wrapped, is_disconnect)
    for name in dialect.dispatch.handle_error:
        named = name(context) or named
    return named
