"""History and explanation of attachments, for clients of ``blockattach 1.4``."""
import uuid
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import history
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import explanation
from blockattach.storage.policy import volumes as volume_policies

SINCE = operation.V(1, 4)
OF_VOLUME_SINCE = operation.V(1, 7)
_STATES = [state.value for state in attachment_lifecycle.State]
_EVENTS = [attachment_lifecycle.CREATE, *(event.value for event in attachment_lifecycle.Event)]
_AFTER = 'after'
_NOT_ASKED = 'The backend of the volume does not respond.'
PAGE = {SINCE: {
    _AFTER: {'type': 'integer',
             'description': 'List only events with a higher generation number.'},
    'limit': {'type': 'integer',
              'description': 'Maximum number of events. The oldest events are listed first.'}}}

_EVENT = {
    'at': (answers.TIME, 'created_at'),
    'generation': answers.INTEGER,
    'event': {'enum': _EVENTS},
    'from': ({'enum': [*_STATES, None]}, 'old_state'),
    'to': ({'enum': _STATES}, 'new_state'),
    'user_id': answers.NULLABLE_TEXT,
    'request_id': answers.NULLABLE_TEXT,
    'reason': answers.NULLABLE_TEXT,
}
EVENT = schema.View(_EVENT)
"""View of a state change of an attachment. ``user_id`` is null for changes by the service."""
WATCHED = schema.View({
    'attachment_id': schema.UUID,
    'volume_id': schema.UUID,
    'project_id': answers.TEXT,
    'instance': (schema.NULLABLE_UUID, 'instance_uuid'),
    'host': answers.NULLABLE_TEXT,
    **_EVENT,
})
"""View of a state change of an attachment in an event stream."""
HISTORY = schema.wrapped('history', schema.array(EVENT.whole))

OF_VOLUME = {OF_VOLUME_SINCE: {
    'volume_id': {'type': 'string', 'format': 'uuid',
                  'description': 'ID of the volume, which may be deleted. This parameter is '
                                 'required.'},
    'all_tenants': {'type': 'boolean',
                    'description': 'Include events from the time when the volume belonged to '
                                   'another project. Administrators only.'},
    _AFTER: {'type': 'integer', 'description': 'List only events after the event with this ID.'},
    'limit': {'type': 'integer',
              'description': 'Maximum number of events. The oldest events are listed first.'}}}
_OF_VOLUME = schema.View({
    'id': answers.INTEGER,
    'attachment_id': schema.UUID,
    'instance': (schema.NULLABLE_UUID, 'instance_uuid'),
    'host': answers.NULLABLE_TEXT,
    **_EVENT,
})
HISTORY_OF_VOLUME = schema.wrapped('history', schema.array(_OF_VOLUME.whole))

_RECORD = schema.View({
    'state': {'enum': _STATES},
    'mode': {'enum': ['rw', 'ro', None]},
    'host': answers.NULLABLE_TEXT,
    'initiator': answers.NULLABLE_TEXT,
    'last_error': answers.NULLABLE_TEXT,
    'last_move': ({'anyOf': [EVENT.whole, answers.NULL]}, schema.GIVEN),
})
_TARGET = schema.View({
    'reason': answers.NULLABLE_TEXT,
    'exported': {'type': ['boolean', 'null']},
    'mode': {'enum': ['rw', 'ro', None]},
    'sessions': answers.INTEGER,
})
_EXPLANATION = schema.View({
    'attachment_id': (schema.UUID, schema.GIVEN),
    'volume_id': (schema.UUID, schema.GIVEN),
    'backend': (answers.NULLABLE_TEXT, schema.GIVEN),
    'record': (_RECORD.whole, schema.GIVEN),
    'target': (_TARGET.whole, schema.GIVEN),
    'session_shared_with': (schema.array(schema.UUID), schema.GIVEN),
    'difference': {'enum': [*(one.name for one in explanation.DIFFERENCES), None]},
    'found': answers.TEXT,
    'next': answers.TEXT,
    'advice': schema.array(answers.TEXT),
})
EXPLAINED = schema.wrapped('explanation', _EXPLANATION.whole)


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the events of an attachment. The attachment may be deleted.

    :raises InvalidInput: if ``after`` or ``limit`` is not a valid number
    """
    most = listing.limit(call, services.settings.osapi_max_limit)
    found = history.of_attachment(services.database, call.target.id, _generation(call), most)
    return {'history': [EVENT.show(one) for one in found]}


def show_of_volume(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the events of all attachments of a volume. The volume may be deleted.

    :raises InvalidInput: if ``volume_id`` is missing or invalid, or another parameter is malformed
    """
    found = history.of_volume(
        services.database, _volume_id(call),
        # The volume may have belonged to another project, whose events are not shown.
        None if call.context.is_admin and listing.flag(call, 'all_tenants')
        else call.context.project_id,
        _generation(call), listing.limit(call, services.settings.osapi_max_limit))
    return {'history': [_OF_VOLUME.show(one) for one in found]}


def explain(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Explain the state of an attachment by its row, its target, the next step and advice."""
    row = call.target
    last = history.last_of_attachment(services.database, row.id)
    others = [] if row.initiator is None else attachment_queries.of_pair(
        services.database, row.volume_id, row.initiator, row.id).others
    said = services.explaining.at_target(call.context, row)
    found = explanation.explain(row, others, said)
    sees_backend = services.policy.allowed(call.context, volume_policies.HOST_ATTRIBUTE,
                                           row.project_id)
    if said.reason is not None and not sees_backend:
        # The reason may name the backend.
        said = said._replace(reason=_NOT_ASKED)
    return {'explanation': _EXPLANATION.show(
        found, attachment_id=row.id, volume_id=row.volume_id,
        backend=said.backend if sees_backend else None,
        record=_RECORD.show(row, last_move=EVENT.show(last) if last else None),
        target=_TARGET.show(said),
        # The API does not show legacy reservations.
        session_shared_with=[one.id for one in others if not one.legacy_reservation])}


def _volume_id(call: operation.Call) -> str:
    text = call.query.get('volume_id', '')
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise errors.InvalidInput(f"Value '{text}' for 'volume_id' is not a UUID.") from None


def _generation(call: operation.Call) -> int:
    text = call.query.get(_AFTER, '0')
    # 17 digits fit into a 64-bit integer.
    if not (text.isascii() and text.isdigit() and len(text) < 18):
        raise errors.InvalidInput(f"Value '{text}' for '{_AFTER}' is not an event ID.")
    return int(text)
