"""Conversion of database rows to records, and conditional updates.

No other module knows how a record is stored. A conditional update changes a volume or snapshot
only if its row is as read.
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
"""Fields of an attachment that its row contains, some in another form."""
# Dictionaries, because the lookup of a member of an enumeration by its value is slow.
_STATES: dict[str | None, Any] = {None: None}
_STATES |= {state.value: state for state in attachment_lifecycle.State}
MODES: dict[str | None, Any] = {None: None}
MODES |= {mode.value: mode for mode in connections.AccessMode}
"""Access modes by their stored values; None for NULL."""
TEXT_LENGTH = models.NAME_LENGTH
"""Maximum number of characters of a name, a host or a mountpoint."""


def to_json(value: Any) -> str | None:
    """Return a structure as JSON for a text column, or None for None."""
    # ASCII by default, so that the text does not depend on the character set of the table.
    return None if value is None else json.dumps(value, separators=(',', ':'))


def from_json(text: str | None) -> Any:
    """Return the structure stored by `to_json`, or None for None."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # NaN or half of a surrogate pair, which the standard library writes and orjson refuses.
        return json.loads(text)


# Conversions of columns of an attachment whose values have another form in the record.
_READ: Mapping[str, Callable[[Any], Any]] = {name: read for read, names in (
    (_STATES.__getitem__, ('state', 'previous_state')),
    (MODES.__getitem__, ('mode', 'previous_mode')),
    (from_json, ('connector', 'previous_connector', 'connection'))) for name in names}


def record(kind: type[_Record], row: Any, **given: Any) -> _Record:
    """Return a record whose fields have the names of the columns of a row.

    :param row: row, or its values by name
    :param given: values of fields that are not stored, or stored in another form
    """
    values = _values(row)
    return kind(**{name: values[name] for name in _names(kind) if name not in given}, **given)


def each(kind: type[_Record], list_rows: Sequence[Any],
         given: Sequence[Mapping[str, Any]]) -> list[_Record]:
    """Return the records of a long list of rows, which is faster than `record` for each row.

    :param given: for each row, the values of the same fields as in `record`
    """
    if not list_rows:
        return []
    columns = list_rows[0]._fields
    names = [name for name in _names(kind) if name not in given[0]]
    read = operator.itemgetter(*(columns.index(name) for name in names))
    return [kind(**dict(zip(names, read(row), strict=True)), **more)
            for row, more in zip(list_rows, given, strict=True)]


def _values(row: Any) -> Any:
    # A mapping, because the lookup of thirty names in the row itself takes twice as long.
    if isinstance(row, sa.Row):
        return row._mapping
    return row._asdict() if hasattr(row, '_asdict') else row


@functools.cache
def _names(kind: type['DataclassInstance']) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def holds(row: sa.Row[Any] | None, values: Mapping[str, Any]) -> bool:
    """Return True if a row exists and has the given values.

    Times from now, which the database computes, are not compared.
    """
    return row is not None and all(
        getattr(row, name) == value for name, value in values.items()
        if not isinstance(value, clock.Later))


def attachment(row: Any, volume: records.VolumeFacts | None = None,
               sealed: records.SealedCredential | None = None,
               prefix: str = '') -> records.Attachment:
    """Return an attachment from its row.

    :param volume: facts of the volume, if read together with the attachment
    :param sealed: credential of the connection, if read together with the attachment
    :param prefix: prefix of the names of the columns in ``row``
    """
    found = _values(row)
    values = {name: found[f'{prefix}{name}'] for name in STORED}
    values |= {name: read(values[name]) for name, read in _READ.items()}
    return records.Attachment(**values, volume=volume, sealed=sealed)


def made_attachment(values: Mapping[str, Any],
                    sealed: records.SealedCredential | None = None) -> records.Attachment:
    """Return a new attachment from the columns that were inserted. Other columns are NULL."""
    return attachment({**dict.fromkeys(STORED), **values}, sealed=sealed)


def attachment_with(before: records.Attachment, values: Mapping[str, Any]) -> records.Attachment:
    """Return an attachment as it is after columns were written, without its volume."""
    changed = {name: _READ[name](value) if name in _READ else value
               for name, value in values.items() if name in STORED}
    return dataclasses.replace(before, **changed, volume=None)


def attachment_event(row: Any) -> records.AttachmentEvent:
    """Return an event of the history of attachments from its row."""
    return record(records.AttachmentEvent, row, old_state=_STATES[row.old_state],
                  new_state=_STATES[row.new_state])


def qos_specs(row: sa.Row[Any]) -> records.QosSpecs:
    """Return QoS specs from their row."""
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
    """Return a new volume from the columns that were inserted. Other columns are NULL."""
    return volume({**dict.fromkeys(_names(records.Volume)), **values,
                   'volume_type_name': kind.name}, dict(metadata), ())


def volume(row: Any, metadata: dict[str, str], attached: tuple[records.AttachedServer, ...],
           limits: dict[str, str | int | None] | None = None,
           image_metadata: Mapping[str, str] | None = None) -> records.Volume:
    """Return a volume from its row, with the name of its type, and from its related rows."""
    return record(records.Volume, row, metadata=metadata, attached=attached, limits=limits,
                  image_metadata=image_metadata or {})


def check_judged(row: Any, judged: records.Judged, absent: errors.NotFound) -> None:
    """Raise ``absent`` if a locked row belongs to another project than the judged one.

    :param row: None if there is no such live row
    """
    if row is None or row.project_id != judged.project_id:
        raise absent


def update(connection: sa.Connection, table: sa.Table, row: Any, **values: Any) -> None:
    """Update a volume or snapshot on condition that its row is as read.

    :raises RetryRequest: the row has changed; `storage_db.retried` then repeats the verb
    """
    as_read = {'id': row.id, 'project_id': row.project_id, 'generation': row.generation}
    if statements.update(connection, table, as_read, values) != 1:
        raise db_exception.RetryRequest(errors.StaleGeneration(
            noun=table.name.removesuffix('s'), id=row.id, generation=row.generation))


def advance(connection: sa.Connection, table: sa.Table, row: Any, **values: Any) -> None:
    """Update a volume or snapshot as `update` does, and increment its generation.

    :raises RetryRequest: the row has changed
    """
    update(connection, table, row, **values, generation=row.generation + 1)
