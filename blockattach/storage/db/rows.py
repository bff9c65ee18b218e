"""Conversion of database rows to records, and conditional updates.

A conditional update changes a volume or a snapshot only if its row has not changed since it was
read.
"""
import dataclasses
import functools
import json
import operator
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

import orjson
import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import errors
from blockattach.platform.db import clock
from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection as connections
from blockattach.storage.domain import qos
from blockattach.storage.domain import records

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Record = TypeVar('_Record', bound='DataclassInstance')

STORED = tuple(field.name for field in dataclasses.fields(records.Attachment)
                if field.name in models.attachments.c)
"""Fields of `records.Attachment` that have a column of the same name."""
# These are dictionaries, because finding the member of an enumeration by its value is slow.
_STATES: dict[str | None, Any] = {None: None}
_STATES |= {state.value: state for state in attachment_lifecycle.State}
MODES: dict[str | None, Any] = {None: None}
MODES |= {mode.value: mode for mode in connections.AccessMode}
"""Access modes by their stored values. NULL is converted to None."""
TEXT_LENGTH = models.NAME_LENGTH
"""Maximum number of characters of a name, a host or a mountpoint."""


def to_json(value: Any) -> str | None:
    """Return a value as JSON for a text column, or None for None."""
    # The JSON is ASCII, so that it does not depend on the character set of the table.
    return None if value is None else json.dumps(value, separators=(',', ':'))


def from_json(text: str | None) -> Any:
    """Return the value that `to_json` has converted, or None for None."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # The text contains NaN or half of a surrogate pair. The standard library writes these
        # values, but orjson refuses them.
        return json.loads(text)


# Functions that convert the value of a column of an attachment to the value of the field.
_READ: Mapping[str, Callable[[Any], Any]] = {name: read for read, names in (
    (_STATES.__getitem__, ('state', 'previous_state')),
    (MODES.__getitem__, ('mode', 'previous_mode')),
    (from_json, ('connector', 'previous_connector', 'connection'))) for name in names}


def record(kind: type[_Record], row: Any, **given: Any) -> _Record:
    """Create a record from a row whose columns have the names of the fields.

    :param kind: class of the record
    :param row: row, or its values by column name
    :param given: values of fields that have no column, or a column with a value of another type
    """
    values = _values(row)
    return kind(**{name: values[name] for name in _names(kind) if name not in given}, **given)


def each(kind: type[_Record], list_rows: Sequence[Any],
         given: Sequence[Mapping[str, Any]]) -> list[_Record]:
    """Create a record from each row of a list. For long lists, this is faster than `record`.

    :param given: for each row, the argument ``given`` of `record`. All entries have equal keys
    """
    if not list_rows:
        return []
    columns = list_rows[0]._fields
    names = [name for name in _names(kind) if name not in given[0]]
    read = operator.itemgetter(*(columns.index(name) for name in names))
    return [kind(**dict(zip(names, read(row), strict=True)), **more)
            for row, more in zip(list_rows, given, strict=True)]


def _values(row: Any) -> Any:
    # The mapping is used because finding thirty values in the row itself takes twice as long.
    if isinstance(row, sa.Row):
        return row._mapping
    return row._asdict() if hasattr(row, '_asdict') else row


@functools.cache
def _names(kind: type['DataclassInstance']) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def holds(row: sa.Row[Any] | None, values: Mapping[str, Any]) -> bool:
    """Return True if a row exists and has the given values.

    :param row: None if the row does not exist
    :param values: values by column name. A `clock.Later` is not compared, because the database has
        computed the value
    """
    return row is not None and all(
        getattr(row, name) == value for name, value in values.items()
        if not isinstance(value, clock.Later))


def attachment(row: Any, volume: records.VolumeFacts | None = None,
               sealed: records.SealedCredential | None = None,
               prefix: str = '') -> records.Attachment:
    """Create an attachment from its row.

    :param volume: facts of the volume; None if they were not read
    :param sealed: credential of the connection; None if there is none, or if it was not read
    :param prefix: prefix of the column names in ``row``
    """
    found = _values(row)
    values = {name: found[f'{prefix}{name}'] for name in STORED}
    values |= {name: read(values[name]) for name, read in _READ.items()}
    return records.Attachment(**values, volume=volume, sealed=sealed)


def made_attachment(values: Mapping[str, Any],
                    sealed: records.SealedCredential | None = None) -> records.Attachment:
    """Create an attachment from the columns of its inserted row. All other columns are NULL."""
    return attachment({**dict.fromkeys(STORED), **values}, sealed=sealed)


def attachment_with(before: records.Attachment, values: Mapping[str, Any]) -> records.Attachment:
    """Return an attachment with the given columns changed, and without the facts of its volume."""
    changed = {name: _READ[name](value) if name in _READ else value
               for name, value in values.items() if name in STORED}
    return dataclasses.replace(before, **changed, volume=None)


def attachment_event(row: Any) -> records.AttachmentEvent:
    """Create an event of the history of attachments from its row."""
    return record(records.AttachmentEvent, row, old_state=_STATES[row.old_state],
                  new_state=_STATES[row.new_state])


def qos_specs(row: sa.Row[Any]) -> records.QosSpecs:
    """Create QoS specs from their row."""
    return record(records.QosSpecs, row, specs=from_json(row.specs))


def limits(row: sa.Row[Any]) -> dict[str, str | int | None] | None:
    """Return the QoS limits that the consumer of a volume enforces, or None if there are none.

    :param row: row of a query extended by `volume_rows.with_limits`
    """
    if row.qos_consumer is None:
        return None
    return qos.for_consumer(row.qos_consumer, from_json(row.qos_specs), row.size_gb)


def made_volume(values: Mapping[str, Any], kind: records.VolumeType,
                metadata: Mapping[str, str]) -> records.Volume:
    """Create a volume from the columns of its inserted row. All other columns are NULL."""
    return volume({**dict.fromkeys(_names(records.Volume)), **values,
                   'volume_type_name': kind.name}, dict(metadata), ())


def volume(row: Any, metadata: dict[str, str], attached: tuple[records.AttachedServer, ...],
           limits: dict[str, str | int | None] | None = None,
           image_metadata: Mapping[str, str] | None = None) -> records.Volume:
    """Create a volume from its row and from rows of other tables.

    :param row: row of the volume, with the name of its volume type
    :param attached: completed attachments of the volume
    """
    return record(records.Volume, row, metadata=metadata, attached=attached, limits=limits,
                  image_metadata=image_metadata or {})


def check_judged(row: Any, judged: records.Judged, absent: errors.NotFound) -> None:
    """Check that the volume or snapshot for which a request was authorized has kept its project.

    :param row: locked row of the volume or snapshot; None if there is no such live row
    :param absent: error that is raised if the check fails
    """
    if row is None or row.project_id != judged.project_id:
        raise absent


def update(connection: sa.Connection, table: sa.Table, row: Any, **values: Any) -> None:
    """Update a volume or snapshot on condition that it has not changed since it was read.

    :param row: row of the volume or snapshot as read
    :raises RetryRequest: the row has changed. `storage_db.retried` then repeats the whole function
    """
    as_read = {'id': row.id, 'project_id': row.project_id, 'generation': row.generation}
    if statements.update(connection, table, as_read, values) != 1:
        raise db_exception.RetryRequest(errors.StaleGeneration(
            noun=table.name.removesuffix('s'), id=row.id, generation=row.generation))


def advance(connection: sa.Connection, table: sa.Table, row: Any, **values: Any) -> None:
    """Update a volume or snapshot like `update`, and increment its generation.

    :raises RetryRequest: the row has changed since it was read
    """
    update(connection, table, row, **values, generation=row.generation + 1)
