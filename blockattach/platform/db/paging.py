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
    ways: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for key, direction in keys:
        column = columns[key]
        value = None if marker is None else getattr(marker, key)
        parts = [(column, value)]
        if getattr(column, 'nullable', True):
            # NULL sorts first going up and last going down, on every database alike.
            parts.insert(0, (sa.case((column.is_(None), 0), else_=1), int(value is not None)))
        for part, at in parts:
            query = query.order_by(part if direction == ASCENDING else part.desc())
            # Behind the marker: equal on the parts before, beyond it on one.
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
