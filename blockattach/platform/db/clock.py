"""The database's time: the only one that several processes compare deadlines by."""
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

# MySQL's DATETIME drops fractions of a second by default.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
"""Column type of every point in time."""


class DatabaseTime(expression.FunctionElement[Any]):
    """Now in UTC by the database server's clock, plus or minus some seconds."""

    inherit_cache = True
    name = 'database_time'
    type = Timestamp


class Later(NamedTuple):
    """A value for a column: so many seconds from now, by the database server's clock."""

    seconds: float


def now(offset_seconds: float | sa.BindParameter[Any] = 0) -> DatabaseTime:
    """An expression for the database's time; never a value of this process."""
    if isinstance(offset_seconds, sa.BindParameter):
        return DatabaseTime(offset_seconds)
    return DatabaseTime(sa.literal(float(offset_seconds), sa.Float))


@compiler.compiles(DatabaseTime, 'sqlite')
def _sqlite(element: DatabaseTime, generator: Any, **options: Any) -> str:
    # strftime gives milliseconds; SQLAlchemy reads what follows the dot as microseconds.
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
    # Not clock_timestamp(), which may differ from row to row, so that no index serves it.
    return f"(timezone('utc', statement_timestamp()) + make_interval(secs => {offset}))"
