"""Pagination of lists: marker, limit, offset and sort order."""
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
    """Position and size of a page, and the sort order of the list.

    :ivar limit: maximum number of items; None for no limit
    :ivar marker: ID of the last item of the previous page; None for the first page
    :ivar offset: number of items to skip after the marker
    :ivar sort: sort keys of the query, each with a direction
    """

    limit: int | None = None
    marker: str | None = None
    offset: int = 0
    sort: tuple[tuple[str, str], ...] = (('created_at', DESCENDING),)


def fetch(connection: sa.Connection, query: sa.Select, columns: Mapping[str, sa.ColumnElement],
          page: Page, listed: sa.ColumnElement[bool],
          absent: Callable[[str], Exception]) -> Sequence[sa.Row[Any]]:
    """Return the rows of one page of a query. Other parameters are those of `select_page`.

    :param listed: condition that the row of the marker must meet, such as not being deleted
    :param absent: function that returns the error to raise for the ID of a marker without such a
        row
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
    """Restrict a query to one page.

    :param columns: columns by sort key; must contain ``id``, which breaks ties
    :param marker: values of the marker's row by sort key; None to start at the first row
    """
    keys = page.sort if any(key == 'id' for key, _ in page.sort) else (
        *page.sort, ('id', page.sort[-1][1] if page.sort else DESCENDING))
    ways: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for key, direction in keys:
        column = columns[key]
        value = None if marker is None else getattr(marker, key)
        parts = [(column, value)]
        if getattr(column, 'nullable', True):
            # NULL sorts first in ascending and last in descending order on all databases.
            parts.insert(0, (sa.case((column.is_(None), 0), else_=1), int(value is not None)))
        for part, at in parts:
            query = query.order_by(part if direction == ASCENDING else part.desc())
            # Rows after the marker: equal in all previous parts, and beyond it in this part.
            if at is not None:
                # Bound with a type, because SQLAlchemy cannot order by a plain True.
                at = sa.literal(at, part.type)
                ways.append(sa.and_(*equal, part > at if direction == ASCENDING else part < at))
            equal.append(part == at)
    if marker is not None:
        query = query.where(sa.or_(*ways))
    if page.limit is not None:
        query = query.limit(page.limit)
    if page.offset:
        # MySQL and SQLite accept an offset only with a limit.
        query = query.offset(page.offset)
        if page.limit is None:
            query = query.limit(2 ** 31 - 1)
    return query
