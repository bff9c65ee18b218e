"""The columns of each command, as literal tables, and the states in words of the API."""
import datetime
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from cliff import columns
from osc_lib.cli import format_columns

STATES = ('attached', 'attaching', 'detaching', 'error_attaching', 'error_detaching', 'reserved')
"""The states that ``--state`` takes."""

STUCK_AFTER = {'error_attaching': 0, 'error_detaching': 0, 'attaching': 600}
"""States in which an attachment is stuck, and after how many seconds since it was connected."""

_UNITS = ((86400, 'd'), (3600, 'h'), (60, 'min'), (1, 's'))


class Age(columns.FormattableColumn):
    """Seconds for programs, the two largest units for people."""

    def human_readable(self) -> str:
        return in_words(self._value)

    def machine_readable(self) -> Any:
        return self._value


class Column(NamedTuple):
    """One column: its title, the key of what it shows, and what formats that."""

    title: str
    key: str
    format: type[columns.FormattableColumn] | None = None


_FIRST = (
    Column('ID', 'id'),
    Column('Volume ID', 'volume_id'),
    Column('Server ID', 'instance'),
    Column('Host', 'host'),
    Column('Status', 'status'),
    Column('Mode', 'mode'),
)

LIST = (
    *_FIRST,
    Column('Age', 'age', Age),
)
"""``volume attachment detail list``."""

LIST_LONG = (
    *LIST,
    Column('Mode Enforced By', 'mode_enforced_by'),
    Column('Mount Point', 'mountpoint'),
    Column('Project ID', 'project_id'),
    Column('Shared Connections', 'shared_connections', format_columns.ListColumn),
    Column('Last Error', 'last_error'),
)
"""The same with ``--long``."""

TREE = (
    Column('Volume Name', 'volume_name'),
    Column('Volume ID', 'volume_id'),
    Column('Volume Status', 'volume_status'),
    Column('Host', 'host'),
    Column('Server ID', 'instance'),
    Column('Attachment ID', 'id'),
    Column('Mode', 'mode'),
    Column('Mode Enforced By', 'mode_enforced_by'),
    Column('Status', 'status'),
    Column('Age', 'age', Age),
    Column('Last Error', 'last_error'),
)
"""``volume attachment tree`` with ``-f`` or ``-c``."""

SHOW = (
    *_FIRST,
    Column('Mode Enforced By', 'mode_enforced_by'),
    Column('Last Error', 'last_error'),
    Column('Properties', 'connection_info', format_columns.DictColumn),
)
"""``volume attachment direct create``."""


def titles(table: tuple[Column, ...]) -> tuple[str, ...]:
    """The heads of the columns."""
    return tuple(column.title for column in table)


def row(table: tuple[Column, ...], shown: Mapping[str, Any]) -> tuple[Any, ...]:
    """One row."""
    return tuple(_value(column, shown.get(column.key)) for column in table)


def _value(column: Column, value: Any) -> Any:
    return value if value is None or column.format is None else column.format(value)


def age(attachment: Mapping[str, Any], now: datetime.datetime) -> int | None:
    """For how many seconds an attachment has been connected; None: it is not."""
    since = attachment.get('attached_at')
    if not since:
        return None
    return max(0, int((now - datetime.datetime.fromisoformat(since)).total_seconds()))


def is_stuck(attachment: Mapping[str, Any]) -> bool:
    """Whether somebody has to look at an attachment: it will not go on by itself, or its backend
    has refused something last.

    :param attachment: with its ``age``
    """
    if attachment.get('last_error'):
        return True
    limit = STUCK_AFTER.get(attachment['status'])
    return limit is not None and (limit == 0 or (attachment['age'] or 0) >= limit)


def in_words(seconds: int) -> str:
    """How long something takes, in the two largest units that it has any of."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or parts or unit == 's':
            parts.append(f'{count} {unit}')
        if len(parts) == 2:
            break
    return ' '.join(parts)
