"""From rows to records: the one place that knows how a record is stored."""
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.db.models import base
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection as connections
from blockattach.domain import records

TEXT_LENGTH = base.NAME_LENGTH
"""Characters that a name, a host or a mountpoint may have."""


def to_json(value: Any) -> str | None:
    """How a structure is stored in a text column; None stays NULL."""
    return None if value is None else json.dumps(value, separators=(',', ':'))


def from_json(text: str | None) -> Any:
    """The structure again."""
    return None if text is None else json.loads(text)


def attachment(row: sa.Row[Any]) -> records.Attachment:
    """One row of ``attachments``."""
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
        created_at=row.created_at, updated_at=row.updated_at)


def volume(row: sa.Row[Any], metadata: Mapping[str, str],
           attached: tuple[records.AttachedServer, ...]) -> records.Volume:
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
        tried=tuple(from_json(row.tried)), created_at=row.created_at, updated_at=row.updated_at,
        attached=attached)


def _mode(value: str | None) -> connections.AccessMode | None:
    return None if value is None else connections.AccessMode(value)


def _state(value: str | None) -> attachment_lifecycle.State | None:
    return None if value is None else attachment_lifecycle.State(value)
