"""From rows to records: the one place that knows how a record is stored."""
import dataclasses
import json
import types
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.db import clock
from blockattach.db.models import base
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection as connections
from blockattach.domain import qos
from blockattach.domain import records

_FIELDS = {field.name for field in dataclasses.fields(records.Attachment)}
_JSON = ('connector', 'previous_connector', 'connection')
_OF_VOLUME = {field.name for field in dataclasses.fields(records.Volume)}
NOBODY = '[]'
"""No pools, as they are stored."""
TEXT_LENGTH = base.NAME_LENGTH
"""Characters that a name, a host or a mountpoint may have."""


def to_json(value: Any) -> str | None:
    """How a structure is stored in a text column; None stays NULL."""
    return None if value is None else json.dumps(value, separators=(',', ':'))


def from_json(text: str | None) -> Any:
    """The structure again."""
    return None if text is None else json.loads(text)


def holds(row: sa.Row[Any] | None, values: Mapping[str, Any]) -> bool:
    """Whether a row has these values; what the database was to compute is not compared."""
    return row is not None and all(
        getattr(row, name) == value for name, value in values.items()
        if not isinstance(value, clock.Later))


def attachment(row: Any, volume: records.VolumeFacts | None = None,
               sealed: records.SealedCredential | None = None) -> records.Attachment:
    """One row of ``attachments``, with what was read besides."""
    return records.Attachment(
        id=row.id, volume_id=row.volume_id, project_id=row.project_id,
        instance_uuid=row.instance_uuid,
        state=attachment_lifecycle.State(row.state),
        previous_state=_state(row.previous_state),
        hidden=row.hidden, mode=_mode(row.mode), previous_mode=_mode(row.previous_mode),
        connector=from_json(row.connector), previous_connector=from_json(row.previous_connector),
        initiator=row.initiator, previous_initiator=row.previous_initiator,
        host=row.host, mountpoint=row.mountpoint,
        connection=from_json(row.connection), generation=row.generation, owner=row.owner,
        last_error=row.last_error, attached_at=row.attached_at, detached_at=row.detached_at,
        created_at=row.created_at, updated_at=row.updated_at, volume=volume, sealed=sealed)


def made_attachment(values: Mapping[str, Any],
                    sealed: records.SealedCredential | None = None) -> records.Attachment:
    """What a new row is read as; columns that are not named are empty."""
    return attachment(types.SimpleNamespace(**{**dict.fromkeys(_FIELDS), **values}), sealed=sealed)


def attachment_with(before: records.Attachment, values: Mapping[str, Any]) -> records.Attachment:
    """What the row is read as once these columns are written."""
    return dataclasses.replace(before, **{
        name: _read(name, value)
        for name, value in values.items() if name in _FIELDS})


def sealed(row: sa.Row[Any]) -> records.SealedCredential | None:
    """What a row that was joined with a grant holds of it."""
    if row.sealed_password is None:
        return None
    return records.SealedCredential(row.username, row.sealed_password)


def qos_specs(row: sa.Row[Any]) -> records.QosSpecs:
    """One row of ``qos_specs``."""
    return records.QosSpecs(
        id=row.id, name=row.name, consumer=row.consumer, specs=from_json(row.specs),
        created_at=row.created_at, updated_at=row.updated_at)


def limits(row: sa.Row[Any]) -> dict[str, str | int | None] | None:
    """What the consumer of a volume keeps to: a row of `volume_rows.with_limits`."""
    if row.qos_consumer is None:
        return None
    return qos.for_consumer(row.qos_consumer, from_json(row.qos_specs), row.size_gb)


def made_volume(values: Mapping[str, Any], kind: records.VolumeType,
                metadata: Mapping[str, str]) -> records.Volume:
    """What a new row is read as; columns that are not named are empty."""
    return volume(types.SimpleNamespace(**{
        **dict.fromkeys(_OF_VOLUME), **values, 'volume_type_name': kind.name}), metadata, ())


def volume(row: Any, metadata: Mapping[str, str],
           attached: tuple[records.AttachedServer, ...],
           limits: Mapping[str, str | int | None] | None = None) -> records.Volume:
    """One row of ``volumes`` with its type's name, and its children."""
    return records.Volume(
        id=row.id, project_id=row.project_id, user_id=row.user_id, name=row.name,
        description=row.description, size_gb=row.size_gb, own_status=row.own_status,
        status=row.status, attach_status=row.attach_status, lowest_rank=row.lowest_rank,
        multiattach=row.multiattach, encrypted=row.encrypted,
        bootable=row.bootable, readonly=row.readonly, attached_mode=row.attached_mode,
        single_writer=row.single_writer, availability_zone=row.availability_zone,
        volume_type_id=row.volume_type_id, volume_type_name=row.volume_type_name,
        pool=row.pool, service_uuid=row.service_uuid, shared_targets=row.shared_targets,
        metadata=dict(metadata), generation=row.generation, owner=row.owner,
        tried=() if row.tried == NOBODY else tuple(from_json(row.tried)),
        created_at=row.created_at, updated_at=row.updated_at,
        attached=attached, limits=None if limits is None else dict(limits),
        lease_owner=row.lease_owner)


def _read(name: str, value: Any) -> Any:
    """A column of an attachment as its record has it."""
    if name in ('state', 'previous_state'):
        return _state(value)
    if name in ('mode', 'previous_mode'):
        return _mode(value)
    return from_json(value) if name in _JSON else value


def _mode(value: str | None) -> connections.AccessMode | None:
    return None if value is None else connections.AccessMode(value)


def _state(value: str | None) -> attachment_lifecycle.State | None:
    return None if value is None else attachment_lifecycle.State(value)
