"""Valid values of the imported columns of a Cinder database.

A database can hold values that Cinder never writes: SQLite accepts any value in any column, and
operators repair rows by hand. Each row is therefore validated before its import.
"""
import collections
import datetime
import functools
import json
import math
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

Row = Mapping[str, Any]
Reader = Callable[[Any], Any]
"""Function that returns the converted form of a stored value.

A reader raises `ValueError` with the reason if the value is invalid.
"""

LARGEST = 2 ** 31 - 1
"""Largest value of an integer column, in a database of Cinder and of this service."""
LONGEST = 255
_LONG = 4096
_LONGEST_OF_IMAGE = 2 ** 20
_MOST_LEVELS = 16
_LONGEST_SHOWN = 80


def _text(value: Any, shortest: int = 0, longest: int = LONGEST) -> str:
    if not isinstance(value, str):
        raise ValueError('not a string')
    if not shortest <= len(value) <= longest:
        raise ValueError(f'length {len(value)} is not between {shortest} and {longest}')
    _check_characters(value)
    return value


def _number(least: int, value: Any) -> int:
    # In Python, a bool is an int.
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError('not an integer')
    if not least <= value <= LARGEST:
        raise ValueError(f'not between {least} and {LARGEST}')
    return value


def _one_of(values: Collection[str | None], value: Any) -> Any:
    if value not in values:
        raise ValueError(f'not one of {", ".join(filter(None, values))}')
    return value


def _optional(reader: Reader, value: Any, empty: Any = None) -> Any:
    """Return the value as converted by ``reader``, or None for NULL and for ``empty``."""
    return None if value is None or value == empty else reader(value)


def _id(value: Any) -> str:
    # Names on backends are derived from ids, and an id in another case is another name.
    if not isinstance(value, str) or not _is_uuid(value) or str(uuid.UUID(value)) != value:
        raise ValueError('not a UUID in lower case')
    return value


def _server_id(value: Any) -> str:
    # Unlike `_id`, this accepts any form of a UUID: Cinder stores the form that a client sent.
    if not isinstance(value, str) or not _is_uuid(value):
        raise ValueError('not a UUID')
    return value


def _flag(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError('not a boolean')
    return bool(value)


def _moment(value: Any) -> datetime.datetime:
    """Return a date in UTC, without zone, from a date or its text.

    Dates are read as text, because a database driver fails on a row with an invalid date.
    """
    try:
        found = value if isinstance(value, datetime.datetime) \
            else datetime.datetime.fromisoformat(value)
        return found if found.tzinfo is None \
            else found.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, TypeError, OverflowError):
        raise ValueError('not a date') from None


def _object(value: Any) -> dict[str, Any]:
    """Parse a text with a JSON object. The text ``null`` gives an empty dictionary."""
    try:
        found = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, TypeError, RecursionError):
        # The parser recurses for each level, and fails on JSON with too many of them.
        raise ValueError('not JSON') from None
    if not isinstance(found, dict | None):
        raise ValueError('not a JSON object')
    _check_levels(found)
    return found or {}


class Table(NamedTuple):
    """Imported columns of one table.

    :ivar columns: function that validates and converts the values, by column name
    :ivar unique: sets of columns whose values must be unique among live rows
    :ivar key: column whose value identifies a row in messages
    :ivar owner: column with the id of the owner, which is a row in another table, such as the
        volume of an attachment; empty if rows have no owner
    """

    columns: Mapping[str, Reader]
    unique: tuple[tuple[str, ...], ...] = (('id',),)
    key: str = 'id'
    owner: str = ''


_MAYBE_MOMENT = functools.partial(_optional, _moment)
_TIMES: Mapping[str, Reader] = {'created_at': _MAYBE_MOMENT, 'updated_at': _MAYBE_MOMENT}
_FLAG = functools.partial(_optional, _flag)
_NAME = functools.partial(_text, shortest=1)
_MAYBE = functools.partial(_optional, _text)
_MAYBE_LONG = functools.partial(_optional, functools.partial(_text, longest=_LONG))
_OF_IMAGE = functools.partial(_optional, functools.partial(_text, longest=_LONGEST_OF_IMAGE))
_SIZE = functools.partial(_number, 1)
_LIMIT = functools.partial(_optional, functools.partial(_number, -1))
_KEY_SIZE = functools.partial(_optional, functools.partial(_number, 0))
_REFERENCE = functools.partial(_optional, _id, empty='')
_SERVER = functools.partial(_optional, _server_id, empty='')
_JSON = functools.partial(_optional, _object, empty='')
# Cinder stores the text "null" for a reservation without a mode.
ATTACH_MODES = (None, '', 'null', 'rw', 'ro')
_MODE = functools.partial(_one_of, ATTACH_MODES)
_ATTACH_STATUS = functools.partial(_one_of, (
    'attached', 'attaching', 'detaching', 'reserved', 'error_attaching', 'error_detaching'))
_CONTROL = functools.partial(_one_of, ('front-end', 'back-end'))
_PAIR: Mapping[str, Reader] = {'key': _NAME, 'value': _MAYBE}

TABLES: Mapping[str, Table] = {
    'volumes': Table({
        'id': _id, 'project_id': _NAME, 'user_id': _MAYBE, 'size': _SIZE, 'host': _MAYBE,
        'cluster_name': _MAYBE, 'availability_zone': _MAYBE, 'status': _NAME,
        'display_name': _MAYBE, 'display_description': _MAYBE, 'provider_location': _MAYBE_LONG,
        'provider_auth': _MAYBE_LONG, 'volume_type_id': _REFERENCE, 'snapshot_id': _REFERENCE,
        'source_volid': _REFERENCE, 'bootable': _FLAG, 'multiattach': _FLAG, 'use_quota': _FLAG,
        'migration_status': _MAYBE, 'replication_status': _MAYBE, '_name_id': _MAYBE,
        'encryption_key_id': _MAYBE, 'group_id': _MAYBE, 'consistencygroup_id': _MAYBE,
        # Only old schemas have these columns.
        'attached_host': _MAYBE, 'instance_uuid': _SERVER, 'mountpoint': _MAYBE,
        'attach_time': functools.partial(_optional, _moment, empty=''), 'attach_mode': _MODE,
        **_TIMES}),
    'volume_attachment': Table({
        'id': _id, 'volume_id': _id, 'attached_host': _MAYBE, 'instance_uuid': _SERVER,
        'mountpoint': _MAYBE, 'attach_time': _MAYBE_MOMENT, 'attach_mode': _MODE,
        'attach_status': _ATTACH_STATUS, 'connector': _JSON, 'connection_info': _JSON, **_TIMES},
        owner='volume_id'),
    # Connectors of old releases. Cinder moves each to `volume_attachment` when it reads the row.
    'attachment_specs': Table(
        {'attachment_id': _id, **_PAIR, 'value': _MAYBE_LONG}, (('attachment_id', 'key'),),
        owner='attachment_id'),
    'snapshots': Table({
        'id': _id, 'volume_id': _id, 'project_id': _NAME, 'user_id': _MAYBE, 'status': _NAME,
        'volume_size': _SIZE, 'display_name': _MAYBE, 'display_description': _MAYBE,
        **_TIMES}, owner='volume_id'),
    'volume_metadata': Table(
        {'volume_id': _id, **_PAIR}, (('volume_id', 'key'),), owner='volume_id'),
    'volume_admin_metadata': Table(
        {'volume_id': _id, **_PAIR}, (('volume_id', 'key'),), owner='volume_id'),
    'volume_glance_metadata': Table(
        {'volume_id': _id, **_PAIR, 'value': _OF_IMAGE}, (('volume_id', 'key'),),
        owner='volume_id'),
    'snapshot_metadata': Table(
        {'snapshot_id': _id, **_PAIR}, (('snapshot_id', 'key'),), owner='snapshot_id'),
    'volume_types': Table({
        'id': _id, 'name': _NAME, 'description': _MAYBE, 'is_public': _FLAG,
        'qos_specs_id': _REFERENCE, **_TIMES}, (('id',), ('name',))),
    'volume_type_extra_specs': Table(
        {'volume_type_id': _id, **_PAIR}, (('volume_type_id', 'key'),),
        owner='volume_type_id'),
    'encryption': Table({
        'encryption_id': _id, 'volume_type_id': _id, 'provider': _NAME, 'cipher': _MAYBE,
        'control_location': _CONTROL, 'key_size': _KEY_SIZE, **_TIMES},
        (('encryption_id',), ('volume_type_id',)), 'encryption_id', 'volume_type_id'),
    'volume_type_projects': Table({
        'volume_type_id': _id, 'project_id': _NAME, 'created_at': _MAYBE_MOMENT},
        (('volume_type_id', 'project_id'),), owner='volume_type_id'),
    'default_volume_types': Table(
        {'volume_type_id': _id, 'project_id': _NAME}, (('project_id',),), 'project_id',
        'volume_type_id'),
    # QoS specs have a root row, and a child row for each key. `specs_id` refers to the root row.
    'quality_of_service_specs': Table({
        'id': _id, 'specs_id': _REFERENCE, 'key': _NAME, 'value': _MAYBE, **_TIMES},
        (('id',), ('specs_id', 'key'))),
    # Names of QoS specs, which are the values of their root rows.
    'qos_names': Table({'value': _NAME}, (('value',),)),
    'quotas': Table({'project_id': _NAME, 'hard_limit': _LIMIT},
                    (('project_id', 'resource'),)),
    'quota_classes': Table({'class_name': _NAME, 'hard_limit': _LIMIT},
                           (('class_name', 'resource'),)),
    'services': Table({'updated_at': _MAYBE_MOMENT}),
}
"""All imported tables by name."""


def read(table: str, row: Row) -> tuple[dict[str, Any], list[str]]:
    """Return the converted values of a row, and the problems of the row.

    A column that the schema lacks counts as NULL. Invalid values, and values of columns without a
    reader, are returned unchanged. A problem names the column and the reason, but not the value,
    which may be a secret.
    """
    taken, wrong = dict(row), []
    for column, reader in TABLES[table].columns.items():
        value = row.get(column)
        try:
            taken[column] = reader(value)
        except ValueError as exc:
            wrong.append(f'{column}: {"must not be NULL" if value is None else exc}')
    return taken, wrong


def duplicates(table: str, rows: Sequence[Row]) -> list[str]:
    """Return an error text for each row that is a duplicate, and an empty text for each other row.

    The text names the columns of `Table.unique` whose values another row has too. As in a unique
    index, NULL is never a duplicate.
    """
    said = [''] * len(rows)
    for columns in TABLES[table].unique:
        keys = [tuple(row.get(column) for column in columns) for row in rows]
        counted = collections.Counter(keys)
        for number, key in enumerate(keys):
            if counted[key] > 1 and None not in key:
                said[number] = f'{", ".join(columns)}: another live row has the same value'
    return said


def comparable(reference: Any) -> str:
    """Return an id in lower case without trailing blanks, for comparison with other ids.

    Some database collations ignore case and trailing blanks. With such a collation, a join also
    matches ids that differ only in case or in trailing blanks.
    """
    return str(reference).rstrip(' ').lower()


def identity(table: str, row: Row) -> str:
    """Return the value of `Table.key` in a row as printable text for messages."""
    return shown(row.get(TABLES[table].key))


def shown(value: Any) -> str:
    """Return a value as a short printable text."""
    text = 'NULL' if value is None else str(value)
    if not text.isprintable() or len(text) > _LONGEST_SHOWN:
        text = ascii(text[:_LONGEST_SHOWN])
    return text


def _is_uuid(value: str) -> bool:
    try:
        return uuid.UUID(value).hex == value.lower().replace('-', '')
    except ValueError:
        return False


def _check_characters(value: str) -> None:
    """Check that a text can be stored.

    :raises ValueError: if the text contains NUL or is not valid UTF-8
    """
    if '\0' in value:
        raise ValueError('contains a NUL character')
    if not value.isascii() and any('\ud800' <= one <= '\udfff' for one in value):
        raise ValueError('not UTF-8')


def _check_levels(value: Any) -> None:
    """Check the depth and the contents of parsed JSON.

    :raises ValueError: if the value is nested too deeply or cannot be stored
    """
    level = [value]
    for _ in range(_MOST_LEVELS):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, str):
                _check_characters(one)
            elif isinstance(one, float) and not math.isfinite(one):
                raise ValueError('contains a number that is not finite')
            elif isinstance(one, Mapping):
                inner += [*one, *one.values()]
            elif isinstance(one, list):
                inner += one
        level = inner
    if level:
        raise ValueError(f'nested deeper than {_MOST_LEVELS} levels')


def _refuse_constant(name: str) -> Any:
    raise ValueError(f'{name} is not JSON')
