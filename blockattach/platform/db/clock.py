"""Time of the database server, the only clock for deadlines that several processes compare."""
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

# MySQL's DATETIME drops fractions of a second by default.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
"""Column type of all timestamps."""


class DatabaseTime(expression.FunctionElement[Any]):
    """SQL expression for the UTC time of the database server, plus an offset in seconds."""

    inherit_cache = True
    name = 'database_time'
    type = Timestamp


class Later(NamedTuple):
    """Column value that is ``seconds`` after the current time of the database server."""

    seconds: float


def now(offset_seconds: float | sa.BindParameter[Any] = 0) -> DatabaseTime:
    """Return an SQL expression for the time of the database server.

    The expression never contains the time of this process.

    :param offset_seconds: seconds to add; may be negative
    """
    if isinstance(offset_seconds, sa.BindParameter):
        return DatabaseTime(offset_seconds)
    return DatabaseTime(sa.literal(float(offset_seconds), sa.Float))


@compiler.compiles(DatabaseTime, 'sqlite')
def _sqlite(element: DatabaseTime, generator: Any, **options: Any) -> str:
    # strftime has milliseconds, but SQLAlchemy reads the digits after the dot as microseconds.
    offset = generator.process(element.clauses, **options)
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {offset} || ' seconds') || '000')"


@compiler.compiles(DatabaseTime, 'mysql')
@compiler.compiles(DatabaseTime, 'mariadb')
def _mysql(element: DatabaseTime, generator: Any, **options: Any) -> str:
    offset = generator.process(element.clauses, **options)
    return f'(UTC_TIMESTAMP(6) + INTERVAL {offset} SECOND)'


@compiler.compiles(DatabaseTime, 'postgresql')
def _postgresql(element: DatabaseTime, generator: Any, **options: Any) -> str:
    offset = generator.process(element.clauses, **options)
    # clock_timestamp() may differ from row to row, so comparisons with it would use no index.
    return f"(timezone('utc', statement_timestamp()) + make_interval(secs => {offset}))"
