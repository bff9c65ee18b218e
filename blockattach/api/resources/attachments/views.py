"""Attachments as requests ask for them and the API shows them, and what ``blockattach 1.1`` in the
header adds to that.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.api import answers
from blockattach.api import listing
from blockattach.api import services as api_services
from blockattach.db import shared_connections
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.domain import reservation
from blockattach.http import operation
from blockattach.http import schema
from blockattach.http.operation import V
from blockattach.policy import attachments as policies

# The database keeps UUIDs as they came.
_UUID: schema.Schema = {**schema.UUID, 'maxLength': 36}

CREATE = schema.wrapped('attachment', schema.obj({
    'volume_uuid': _UUID,
    'instance_uuid': _UUID,
    'connector': schema.nullable(answers.CONNECTOR),
}, required=['volume_uuid']))
CREATE_WITH_MODE = schema.extend(CREATE, {'mode': {'enum': ['rw', 'ro']}}, at='attachment')

UPDATE = schema.wrapped('attachment', schema.obj(
    {'connector': {**answers.CONNECTOR, 'minProperties': 1}}, required=['connector']))

_SUMMARY = {
    'id': schema.UUID,
    'status': {'enum': sorted(set(attachment_lifecycle.WIRE_STATUS.values()))},
    'instance': schema.NULLABLE_UUID,
    'volume_id': schema.UUID,
}

_DETAIL = answers.whole({
    **_SUMMARY,
    'attached_at': answers.TIME_OR_EMPTY,
    'detached_at': answers.TIME_OR_EMPTY,
    'attach_mode': {'enum': ['rw', 'ro', 'null']},
    'connection_info': answers.CONNECTION,
})

SUMMARIES = schema.wrapped('attachments', schema.array(answers.whole(_SUMMARY)))
DETAIL = schema.wrapped('attachment', _DETAIL)
DETAILS = schema.wrapped('attachments', schema.array(_DETAIL))

NO_MODE = 'null'
"""The mode of an attachment without one: these four letters, not JSON's null."""
TARGET = 'target'
CONSUMER = 'consumer'

_FORCE = 'force'

_SHARED = {'shared_connections': schema.array(schema.UUID)}
_FIELDS: dict[str, schema.Schema] = {
    'project_id': answers.TEXT,
    'host': answers.NULLABLE_TEXT,
    'mountpoint': answers.NULLABLE_TEXT,
    'connector': {'type': ['object', 'null']},
    'mode': {'enum': ['rw', 'ro', None]},
    'mode_enforced_by': {'enum': [TARGET, CONSUMER, None]},
    'last_error': answers.NULLABLE_TEXT,
    **_SHARED,
}
_RESERVED = {'reservation': {'enum': [*(word.value for word in reservation.HostReservation),
                                      None]}}


def _one(answer: schema.Schema) -> schema.Schema:
    return schema.extend(answer, _FIELDS, _FIELDS, at='attachment')


def _shown(answer: schema.Schema) -> schema.Schema:
    return schema.extend(_one(answer), _RESERVED, _RESERVED, at='attachment')


def _each(answer: schema.Schema) -> schema.Schema:
    return schema.extend_items(answer, 'attachments', _FIELDS)


def _remaining(answer: schema.Schema) -> schema.Schema:
    return schema.extend_items(answer, 'attachments', _SHARED)


ONE = {V(1, 0): _one}
SHOWN = {V(1, 0): _one, V(1, 1): _shown}
EACH = {V(1, 0): _each}
REMAINING = {V(1, 0): _remaining}
"""What the extension makes of the schemas of answers: one in full, one that was asked for, many,
what a delete leaves."""

FILTERS = {V(1, 0): {'host': {
    'type': 'string', 'description': 'only those whose consumer is on this host'}}}
DELETION = {V(1, 0): {_FORCE: {
    'type': 'boolean', 'description': f'whatever its state is and whatever its backend answers; '
                                      f'needs ``{policies.FORCE_DELETE}``'}}}
"""What the extension adds to the query strings of lists, and of a delete."""


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
        'attach_mode': attachment.mode or NO_MODE,
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


def forced(services: api_services.ApiServices, call: operation.Call) -> bool:
    """Whether an attachment shall be deleted by force, which few may ask.

    :raises InvalidInput: ``force`` is neither true nor false
    :raises NotAuthorized: the caller may not
    """
    if call.extension is None or not listing.flag(call, _FORCE):
        return False
    services.policy.authorize(call.context, policies.FORCE_DELETE, call.target.project_id)
    return True


def _of_pair(services: api_services.ApiServices, attachments: Sequence[records.Attachment],
             ) -> dict[str, list[shared_connections.PairAttachment]]:
    return shared_connections.of(
        services.database, [one.id for one in attachments if one.initiator is not None])


def _fields(attachment: records.Attachment,
            others: Sequence[shared_connections.PairAttachment]) -> dict[str, Any]:
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
                 others: Sequence[shared_connections.PairAttachment]) -> str | None:
    """What enforces the mode of a read-only attachment.

    The target knows initiators, not attachments: one that may write by another attachment of the
    same connection can be held back by its own host only.
    """
    if attachment.connector is None:
        return None
    modes = [one.mode or connection.AccessMode.RW for one in others]
    own = attachment.mode or connection.AccessMode.RW
    return TARGET if connection.widest([own, *modes]) == own else CONSUMER


def _ids(others: Sequence[shared_connections.PairAttachment]) -> list[str]:
    return [one.id for one in others if not one.legacy_reservation]
