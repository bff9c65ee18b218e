"""Bodies of requests and answers on attachments."""
from blockattach.api import answers
from blockattach.domain import attachment_lifecycle
from blockattach.http import schema

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
