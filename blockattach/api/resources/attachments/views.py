"""Attachments as the API shows them, and what the extension shows beside that."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.api import services as api_services
from blockattach.api.resources.attachments import schemas
from blockattach.db import attachment_queries
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http.operation import V


def summary(attachment: records.Attachment) -> dict[str, Any]:
    """One line of a list."""
    return {
        'id': attachment.id,
        'status': attachment_lifecycle.WIRE_STATUS[attachment.state],
        'instance': attachment.instance_uuid,
        'volume_id': attachment.volume_id,
    }


def detail(attachment: records.Attachment, info: Mapping[str, Any] | None) -> dict[str, Any]:
    """All that is known of an attachment.

    :param info: how its host reaches the volume; None: nobody knows
    """
    return {
        **summary(attachment),
        'attached_at': attachment.attached_at or '',
        'detached_at': attachment.detached_at or '',
        'attach_mode': attachment.mode or schemas.NO_MODE,
        'connection_info': info,
    }


def more(services: api_services.ApiServices, call: operation.Call,
         attachments: Sequence[records.Attachment]) -> dict[str, dict[str, Any]]:
    """The further fields by attachment, none unless the extension was asked for: one query for
    all."""
    if call.extension is None:
        return {one.id: {} for one in attachments}
    others = _of_pair(services, attachments)
    return {one.id: _fields(one, others.get(one.id, [])) for one in attachments}


def remaining(services: api_services.ApiServices, call: operation.Call,
              attachments: Sequence[records.Attachment]) -> dict[str, dict[str, Any]]:
    """The further fields of the attachments that remain after a delete."""
    if call.extension is None:
        return {one.id: {} for one in attachments}
    others = _of_pair(services, attachments)
    return {one.id: {'shared_connections': _ids(others.get(one.id, []))} for one in attachments}


def reserved(services: api_services.ApiServices, call: operation.Call,
             attachment: records.Attachment) -> dict[str, Any]:
    """What the host has reserved; only of an attachment that was asked for, as its backend is."""
    if call.extension is None or call.extension < V(1, 1):
        return {}
    return {'reservation': services.reservations.held(call.context, attachment)}


def _of_pair(services: api_services.ApiServices, attachments: Sequence[records.Attachment],
             ) -> dict[str, list[records.PairAttachment]]:
    return attachment_queries.shared_connections(
        services.database, [one.id for one in attachments if one.initiator is not None])


def _fields(attachment: records.Attachment,
            others: Sequence[records.PairAttachment]) -> dict[str, Any]:
    return {
        'project_id': attachment.project_id,
        'host': attachment.host,
        'mountpoint': attachment.mountpoint,
        'connector': connection.masked(attachment.connector),
        'mode': attachment.mode,
        'mode_enforced_by': _enforced_by(attachment, others),
        'last_error': attachment.last_error,
        'shared_connections': _ids(others),
    }


def _enforced_by(attachment: records.Attachment,
                 others: Sequence[records.PairAttachment]) -> str | None:
    """What enforces the mode of a read-only attachment.

    The target knows initiators, not attachments: one that may write by another attachment of the
    same connection can be held back by its own host only.
    """
    if attachment.connector is None:
        return None
    modes = [one.mode or connection.AccessMode.RW for one in others]
    own = attachment.mode or connection.AccessMode.RW
    return schemas.TARGET if connection.widest([own, *modes]) == own else schemas.CONSUMER


def _ids(others: Sequence[records.PairAttachment]) -> list[str]:
    return [one.id for one in others if not one.legacy_reservation]
