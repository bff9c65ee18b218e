"""Statements of the hot paths: put together and compiled once, then sent as text.

SQLAlchemy puts a statement together anew for each request, finds its text by a key that it makes
of all its parts, and describes the columns of each result; for a statement of fifty columns that
takes several times as long as the server does. What is asked again and again is a `Statement`
instead: one text for each kind of database, values by name, rows as named tuples, on a connection
of SQLAlchemy's pool. Listeners of statements are called, and errors have the names that they have
otherwise. MariaDB parses the text once for each connection
(`blockattach.platform.db.session_statements`).
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

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception
from sqlalchemy.sql import visitors

from blockattach.platform.db import clock
from blockattach.platform.db import session_statements

# Where SQLAlchemy shows its statements.
_ECHO = logging.getLogger('sqlalchemy.engine.Engine')
_Process = Callable[[Any], Any]
Shape = tuple[tuple[str, bool | None], ...]
_WHERE = 'where_'
_TRANSACTION = (
    ('DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;',
     'START TRANSACTION;'),
    ('COMMIT;', 'ELSE', 'ROLLBACK;', 'END IF;'))
"""What a block of MariaDB begins and ends with that is a transaction."""


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
    stored: tuple[tuple[str, _Process], ...]
    kinds: tuple[sa.types.TypeEngine[Any], ...]
    row: _Process | None
    named: session_statements.Named | None = None
    read: tuple[tuple[int, _Process], ...] | None = None

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


class Looking(Protocol):
    """Where a statement can be sent by itself."""

    def look(self, statement: 'Statement', values: Mapping[str, Any]) -> list[Any]:
        """The rows that it selects."""


def value(name: str, kind: sa.types.TypeEngine[Any] | None = None) -> sa.BindParameter[Any]:
    """A value of a `Statement`, given when it is executed.

    :param kind: None: that of whatever it is compared with
    """
    return sa.bindparam(name, None, type_=kind, required=False)


def column_value(column: sa.Column[Any], prefix: str = '') -> sa.BindParameter[Any]:
    """The value of a column, by the column's name behind a prefix."""
    return value(prefix + column.name, column.type)


def shape(row: Mapping[str, Any]) -> Shape:
    """The key of a statement that writes these columns: their names, and which of them are set to
    a time from now (True) or emptied (None).
    """
    return tuple([(name, None if one is None else type(one) is clock.Later)
                  for name, one in row.items()])


def values_of(row: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
    """The columns of a row as values of a `Statement`."""
    return {prefix + name: one.seconds if type(one) is clock.Later else one
            for name, one in row.items() if one is not None}


def values(table: sa.Table, of_shape: Shape, prefix: str = '') -> dict[Any, Any]:
    """What a statement writes into a table."""
    return {table.c[name]: sa.null() if later is None
            else clock.now(value(prefix + name, sa.Float())) if later
            else column_value(table.c[name], prefix) for name, later in of_shape}


class Step(NamedTuple):
    """A statement of a transaction, and its values: no name of another step's."""

    statement: 'Statement'
    values: dict[str, Any]


def inserting(table: sa.Table, row: Mapping[str, Any]) -> Step:
    """Write a new row, once the first step has found what it changes."""
    prefix = f'{table.name}_'
    return Step(_insert(table, shape(row), prefix), values_of(row, prefix))


def updating(table: sa.Table, where: Mapping[str, Any], row: Mapping[str, Any]) -> Step:
    """Change the rows that have these values, none of which is None."""
    return Step(_update(table, tuple(where), shape(row)),
                values_of(row) | values_of(where, _WHERE))


def together(connection: sa.Connection, *steps: Step) -> int:
    """Execute steps, the others only if the first finds anything to change; 0: it did not.

    One way to the server, where it takes several statements as one: MariaDB and PostgreSQL. On
    PostgreSQL none of them sees what another one of them writes, nor what others write meanwhile.
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
    """Whether this kind of database takes several statements as one."""
    return dialect.name == 'postgresql' or getattr(dialect, 'is_mariadb', False)


def as_one(*steps: Step, is_transaction: bool = False) -> Step:
    """Steps as one, for a database that takes them so.

    :param is_transaction: it is one by itself: all of it, or nothing
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
            part = one.after(source)
            parts.append(part.returning(sa.literal_column('1')).cte(f'other_{number}'))
        return sa.select(source).add_cte(*parts)
    # MariaDB prepares no such statement.
    return Statement(build, parsed_once=False, is_transaction=is_transaction)


def insert(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Write a new row."""
    _insert(table, shape(row)).change(connection, **values_of(row))


def update(connection: sa.Connection, table: sa.Table, where: Mapping[str, Any],
           row: Mapping[str, Any]) -> int:
    """Change the rows that have these values, none of which is None; how many have them."""
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
    """One statement, executed with a value for each `value` in it."""

    def __init__(self, build: Callable[[sa.Dialect], Any], parsed_once: bool = True,
                 after: Callable[[sa.CTE], Any] | None = None,
                 is_transaction: bool = False) -> None:
        """
        :param build: puts it together; called once for each kind of database. A tuple is for
            MariaDB: the others are executed if the first finds anything to change
        :param parsed_once: False: too long for a server to keep it for each connection
        :param after: puts it together so that it does nothing if that has no row
        :param is_transaction: a tuple is a transaction by itself
        """
        self.build = build
        self.after = after
        self._parsed_once = parsed_once
        self._is_transaction = is_transaction
        self._texts: dict[tuple[str, str], Text] = {}

    def rows(self, on: 'sa.Connection | Looking', /, **values: Any) -> list[Any]:
        """What it selects: named tuples."""
        if not isinstance(on, sa.Connection):
            return on.look(self, values)
        text = self.text(on.dialect)
        with within(on, text, values) as cursor:
            return text.rows(on.dialect, cursor)

    def first(self, on: 'sa.Connection | Looking', /, **values: Any) -> Any:
        """The first row that it selects; None: there is none."""
        found = self.rows(on, **values)
        return found[0] if found else None

    def change(self, connection: sa.Connection, /, **values: Any) -> int:
        """How many rows it found to change."""
        with within(connection, self.text(connection.dialect), values) as cursor:
            return int(cursor.rowcount)

    def text(self, dialect: sa.Dialect) -> Text:
        """What this kind of database is sent."""
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
    # What the compiler adds itself, under names of its own making.
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
    """A value that is part of the statement, as a word of its text: nothing to be sent for it."""
    if isinstance(element, sa.BindParameter) and element.unique:
        return element.render_literal_execute()
    return None


def _block(parts: list[Text], is_transaction: bool) -> Text:
    """Statements as MariaDB takes them in one, with values by position."""
    texts: list[str] = []
    order: list[str] = []
    fixed: dict[str, Any] = {}
    for number, part in enumerate(parts):
        text, names = session_statements.positional(part.text, part.order)
        texts.append(f'{text};')
        # Names that the compiler has made are the same in each.
        order += [f'{number}.{name}' if name in part.fixed else name for name in names]
        fixed |= {f'{number}.{name}': given for name, given in part.fixed.items()}
    before, after = _TRANSACTION if is_transaction else ((), ('END IF;',))
    text = '\n'.join(('BEGIN NOT ATOMIC', *before, texts[0], 'IF ROW_COUNT() > 0 THEN',
                      *texts[1:], *after, 'END'))
    return Text(
        text, tuple(order), fixed,
        tuple(itertools.chain(*(part.stored for part in parts))), (), None)


def _row(names: list[str]) -> _Process:
    # The type checker wants the names written out.
    made: Any = collections.namedtuple
    found: _Process = made('Row', names)._make
    return found


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
