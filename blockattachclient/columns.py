"""Tables of the columns that each command prints, and the names of attachment states."""
import datetime
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from cliff import columns
from osc_lib.cli import format_columns

STATES = ('attached', 'attaching', 'detaching', 'error_attaching', 'error_detaching', 'reserved')
"""Values of ``--state``."""

STATUSES = {'connecting': 'attaching', 'connected': 'attaching', 'disconnecting': 'detaching',
            'gone': 'detached'}
"""API status by attachment state, for each state that has another name in histories."""

STUCK_AFTER = {'error_attaching': 0, 'error_detaching': 0, 'attaching': 600}
"""Seconds since the connection of an attachment after which it counts as stuck, by status."""

THE_SERVICE = 'the service'
_UNITS = ((86400, 'd'), (3600, 'h'), (60, 'min'), (1, 's'))


class Age(columns.FormattableColumn):
    """Age in seconds. Tables for people show the age in its two largest units."""

    def human_readable(self) -> str:
        return in_words(self._value)

    def machine_readable(self) -> Any:
        return self._value


class Properties(format_columns.DictColumn):
    """Properties of a connection. Tables for people show one property per line."""

    def human_readable(self) -> str:
        return '\n'.join(f'{key}={self._value[key]}' for key in sorted(self._value or {}))


class Actor(columns.FormattableColumn):
    """User who caused an event of an attachment, or None for the service itself."""

    def human_readable(self) -> str:
        return str(self._value or THE_SERVICE)

    def machine_readable(self) -> Any:
        return self._value


class Column(NamedTuple):
    """Column in the output of a command.

    :ivar key: key of the value in the mapping that a row shows
    :ivar format: formatter of the value, or None to show the value unchanged
    :ivar formats_null: True if the formatter is also used for None
    """

    title: str
    key: str
    format: type[columns.FormattableColumn] | None = None
    formats_null: bool = False


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
"""Columns of ``volume attachment detail list``."""

LIST_LONG = (
    *LIST,
    Column('Mode Enforced By', 'mode_enforced_by'),
    Column('Mount Point', 'mountpoint'),
    Column('Project ID', 'project_id'),
    Column('Shared Connections', 'shared_connections', format_columns.ListColumn),
    Column('Last Error', 'last_error'),
)
"""Columns of ``volume attachment detail list --long``."""

VOLUMES = (
    Column('ID', 'id'),
    Column('Name', 'name'),
    Column('Status', 'status'),
    Column('Size', 'size'),
    Column('Type', 'volume_type'),
    Column('Multiattach', 'multiattach'),
    Column('Attached To', 'servers', format_columns.ListColumn),
)
"""Columns of ``volume detail list``."""

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
"""Columns of ``volume attachment tree`` with ``-f`` or ``-c``."""

SHOW = (
    *_FIRST,
    Column('Mode Enforced By', 'mode_enforced_by'),
    Column('Last Error', 'last_error'),
    Column('Properties', 'connection_info', Properties),
)
"""Columns of ``volume attachment direct create``."""

DRY_RUN = (
    Column('Made', 'made'),
    *(column for column in _FIRST if column.key != 'id'),
    Column('Mode Enforced By', 'mode_enforced_by'),
    Column('Shared Connections', 'shared_connections', format_columns.ListColumn),
)
"""Columns of ``volume attachment direct create --dry-run``."""

HISTORY = (
    Column('When', 'at'),
    Column('Event', 'event'),
    Column('From', 'from'),
    Column('To', 'to'),
    Column('User ID', 'user_id', Actor, formats_null=True),
    Column('Request ID', 'request_id'),
    Column('Reason', 'reason'),
)
"""Columns of ``volume attachment history``."""

HISTORY_LONG = (
    Column('Generation', 'generation'),
    *HISTORY,
)
"""Columns of ``volume attachment history --long``."""

HISTORY_OF_VOLUME = (
    Column('When', 'at'),
    Column('Attachment ID', 'attachment_id'),
    Column('Host', 'host'),
    Column('Server ID', 'instance'),
    *(column for column in HISTORY if column.key != 'at'),
)
"""Columns of ``volume attachment history`` for a volume."""

HISTORY_OF_VOLUME_LONG = (
    Column('Generation', 'generation'),
    *HISTORY_OF_VOLUME,
)
"""Columns of ``volume attachment history --long`` for a volume."""

EXPLANATION = (
    Column('Attachment ID', 'attachment_id'),
    Column('Volume ID', 'volume_id'),
    Column('Backend', 'backend'),
    Column('Status', 'status'),
    Column('State', 'state'),
    Column('Host', 'host'),
    Column('Initiator', 'initiator'),
    Column('Mode', 'mode'),
    Column('Last Error', 'last_error'),
    Column('Last Event', 'event'),
    Column('When', 'at'),
    Column('User ID', 'user_id', Actor, formats_null=True),
    Column('Request ID', 'request_id'),
    Column('Exported', 'exported'),
    Column('Mode At Target', 'mode_at_target'),
    Column('Sessions', 'sessions'),
    Column('Not Asked Because', 'not_asked_because'),
    Column('Session Shared With', 'session_shared_with', format_columns.ListColumn),
    Column('Difference', 'difference'),
    Column('Found', 'found'),
    Column('Next', 'next'),
    Column('Advice', 'advice', format_columns.ListColumn),
)
"""Columns of ``volume attachment explain`` with ``-f`` or ``-c``."""

WATCHED = (('volume', 'volume_id'), ('attachment', 'attachment_id'), ('host', 'host'),
           ('server', 'instance'), ('by user', 'user_id'))
"""Labels and keys of the values in a line of ``volume attachment watch``.

Values that are None are omitted.
"""

POOLS = (
    Column('Name', 'name'),
    Column('Takes It', 'takes_it'),
    Column('Score', 'score'),
    Column('Left GiB', 'left_gb'),
    Column('Refused By', 'refused_by'),
    Column('Reason', 'reason'),
)
"""Columns of ``volume backend pool explain``."""

FINDINGS = (
    Column('Host', 'host'),
    Column('Drift', 'drift'),
    Column('Volume ID', 'volume_id'),
    Column('Attachment ID', 'attachment_id'),
    Column('Initiator', 'initiator'),
    Column('Found', 'said'),
    Column('Remedy', 'remedy'),
    Column('Outcome', 'outcome'),
)
"""Columns of ``volume reconcile``."""

SERVERS = (
    Column('ID', 'id'),
    Column('Name', 'name'),
    Column('Status', 'status'),
    Column('Fault', 'fault'),
)
"""Columns of ``server shared create``."""

SERVER_VOLUME = (
    Column('Server ID', 'serverId'),
    Column('Volume ID', 'volumeId'),
    Column('Device', 'device'),
    Column('Attach Mode', 'attach_mode'),
)
"""Columns of ``server volume attach``."""

SESSIONS = (
    Column('Session', 'number'),
    Column('Use', 'use'),
    Column('Volume ID', 'volume_id'),
    Column('Devices', 'devices', format_columns.ListColumn),
    Column('State', 'state'),
    Column('Attachments', 'attachments', format_columns.ListColumn),
    Column('Target', 'target'),
    Column('Portal', 'portal'),
)
"""Columns of ``volume host session list``."""

CONNECTED = (
    Column('Device', 'device'),
    Column('Attachment ID', 'id'),
    *(column for column in _FIRST if column.key in ('volume_id', 'host', 'mode')),
    Column('Session Shared With', 'shared_connections', format_columns.ListColumn),
)
"""Columns of ``volume host connect``."""


def titles(table: tuple[Column, ...]) -> tuple[str, ...]:
    """Return the column titles of a table."""
    return tuple(column.title for column in table)


def row(table: tuple[Column, ...], shown: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of a mapping for a row, in the order of the columns."""
    return tuple(_value(column, shown.get(column.key)) for column in table)


def _value(column: Column, value: Any) -> Any:
    if column.format is None or (value is None and not column.formats_null):
        return value
    return column.format(value)


def status(state: str) -> str:
    """Return the status that the API shows for an attachment in a state."""
    return STATUSES.get(state, state)


def age(attachment: Mapping[str, Any], now: datetime.datetime) -> int | None:
    """Return the seconds since an attachment was connected, or None if it is not connected."""
    since = attachment.get('attached_at')
    return seconds_since(since, now) if since else None


def seconds_since(when: str, now: datetime.datetime) -> int:
    """Return the seconds from a time until now. Both are times of the service's clock."""
    return max(0, int((now - datetime.datetime.fromisoformat(when)).total_seconds()))


def is_stuck(attachment: Mapping[str, Any]) -> bool:
    """Return True if an attachment needs attention.

    This is the case if the attachment has a last error or an error status, or if it was connected
    long ago (`STUCK_AFTER`) and is still not completed.

    :param attachment: attachment with the additional key ``age``
    """
    if attachment.get('last_error'):
        return True
    limit = STUCK_AFTER.get(attachment['status'])
    return limit is not None and (limit == 0 or (attachment['age'] or 0) >= limit)


def in_words(seconds: int) -> str:
    """Return a duration in its two largest units, such as ``2 h 5 min``."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or parts or unit == 's':
            parts.append(f'{count} {unit}')
        if len(parts) == 2:
            break
    return ' '.join(parts)
