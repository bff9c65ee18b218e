"""Pages of a list: marker, limit, offset and sort, for every aggregate alike."""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

ASCENDING = 'asc'
DESCENDING = 'desc'


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list: ``sort`` names keys that the query knows, with a direction each.

    ``limit`` None means all; ``marker`` is the id of the last item of the page before.
    """

    limit: int | None = None
    marker: str | None = None
    offset: int = 0
    sort: tuple[tuple[str, str], ...] = (('created_at', DESCENDING),)


def fetch(connection: sa.Connection, query: sa.Select, columns: Mapping[str, sa.ColumnElement],
          page: Page, listed: sa.ColumnElement[bool],
          absent: Callable[[str], Exception]) -> Sequence[sa.Row[Any]]:
    """The rows of one page; arguments as of `select_page`.

    :param listed: what a marker must fulfil
    :param absent: what is raised of a marker that does not
    """
    marker = None
    if page.marker is not None:
        marker = connection.execute(
            sa.select(*(column.label(key) for key, column in columns.items()))
            .where(columns['id'] == page.marker, listed)).one_or_none()
        if marker is None:
            raise absent(page.marker)
    return connection.execute(select_page(query, columns, page, marker)).all()


def select_page(query: sa.Select, columns: Mapping[str, sa.ColumnElement], page: Page,
                marker: sa.Row[Any] | None) -> sa.Select:
    """Narrow a query to one page.

    :param columns: sort key to column; must hold ``id``, which breaks ties
    :param marker: the marker's row, its columns named by sort key; None: from the start
    """
    keys = page.sort if any(key == 'id' for key, _ in page.sort) else (
        *page.sort, ('id', page.sort[-1][1] if page.sort else DESCENDING))
    for key, direction in keys:
        column = columns[key]
        # NULL sorts first going up and last going down, on every database alike.
        nulls = sa.case((column.is_(None), 0), else_=1)
        if _nullable(column):
            query = query.order_by(nulls if direction == ASCENDING else nulls.desc())
        query = query.order_by(column if direction == ASCENDING else column.desc())
    if marker is not None:
        query = query.where(_after(keys, columns, marker))
    if page.limit is not None:
        query = query.limit(page.limit)
    if page.offset:
        # MySQL and SQLite accept an offset only with a limit.
        query = query.offset(page.offset)
        if page.limit is None:
            query = query.limit(2 ** 31 - 1)
    return query


def _after(keys: tuple[tuple[str, str], ...], columns: Mapping[str, sa.ColumnElement],
           marker: sa.Row[Any]) -> sa.ColumnElement[bool]:
    """Rows that come behind the marker: equal on the keys before, beyond it on one."""
    ways = []
    equal: list[sa.ColumnElement[bool]] = []
    for key, direction in keys:
        column, value = columns[key], getattr(marker, key)
        beyond = _beyond(column, value, direction)
        if beyond is not None:
            ways.append(sa.and_(*equal, beyond))
        equal.append(column.is_(None) if value is None else column == value)
    return sa.or_(*ways)


def _beyond(column: sa.ColumnElement, value: Any,
            direction: str) -> sa.ColumnElement[bool] | None:
    if direction == ASCENDING:
        return column.is_not(None) if value is None else column > value
    if value is None:
        return None
    return sa.or_(column < value, column.is_(None)) if _nullable(column) else column < value


def _nullable(column: sa.ColumnElement) -> bool:
    return bool(getattr(column, 'nullable', True))
