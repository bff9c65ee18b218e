"""Attachments as requests ask for them and as answers show them, and what ``blockattach 1.0`` and
1.1 in the header add to that.
"""
from blockattach.api import answers
from blockattach.domain import attachment_lifecycle
from blockattach.domain import reservation
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

FORCE = 'force'

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
DELETION = {V(1, 0): {FORCE: {
    'type': 'boolean', 'description': f'whatever its state is and whatever its backend answers; '
                                      f'needs ``{policies.FORCE_DELETE}``'}}}
"""What the extension adds to the query strings of lists, and of a delete."""
