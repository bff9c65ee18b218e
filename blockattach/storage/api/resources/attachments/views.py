"""Schemas and views of attachments, and the filters of attachment lists."""
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import records
from blockattach.storage.policy import attachments as policies

FIRST = operation.V(1, 0)
_RESERVATIONS = operation.V(1, 1)

# The database stores UUIDs as the client wrote them, and the format accepts additional dashes.
_UUID: schema.Schema = {**schema.UUID, 'maxLength': 36}

CREATE = schema.wrapped('attachment', schema.obj({
    'volume_uuid': _UUID,
    'instance_uuid': _UUID,
    'connector': schema.nullable(answers.CONNECTOR),
}, required=['volume_uuid']))
CREATE_WITH_MODE = schema.extend(CREATE, {'mode': {'enum': ['rw', 'ro']}}, at='attachment')

UPDATE = schema.wrapped('attachment', schema.obj(
    {'connector': {**answers.CONNECTOR, 'minProperties': 1}}, required=['connector']))

NO_MODE = 'null'
"""``attach_mode`` of an attachment without a mode: the string of Cinder instead of JSON's null."""
TARGET = 'target'
CONSUMER = 'consumer'

_SUMMARY = {
    'id': schema.UUID,
    'status': ({'enum': sorted(set(attachment_lifecycle.WIRE_STATUS.values()))},
               lambda one: attachment_lifecycle.WIRE_STATUS[one.state]),
    'instance': (schema.NULLABLE_UUID, 'instance_uuid'),
    'volume_id': schema.UUID,
}
SUMMARY = schema.View(_SUMMARY)
"""View of an attachment in a list without details."""

_DETAIL = {
    **_SUMMARY,
    'attached_at': (answers.TIME_OR_EMPTY, lambda one: one.attached_at or ''),
    'detached_at': (answers.TIME_OR_EMPTY, lambda one: one.detached_at or ''),
    'attach_mode': ({'enum': ['rw', 'ro', NO_MODE]}, lambda one: one.mode or NO_MODE),
    'connection_info': (answers.CONNECTION, schema.GIVEN),
}
DETAIL = schema.View(_DETAIL)
"""View of an attachment with details. `answers.CONNECTION` describes ``connection_info``."""

_SHARED = {'shared_connections': (schema.array(schema.UUID), schema.GIVEN)}
_REMAINING = schema.View(_SHARED)
_MORE = {
    'project_id': answers.TEXT,
    'host': answers.NULLABLE_TEXT,
    'mountpoint': answers.NULLABLE_TEXT,
    'connector': ({'type': ['object', 'null']}, lambda one: connection.masked(one.connector)),
    'mode': {'enum': ['rw', 'ro', None]},
    'mode_enforced_by': ({'enum': [TARGET, CONSUMER, None]}, schema.GIVEN),
    'last_error': answers.NULLABLE_TEXT,
    **_SHARED,
}
_EXTENDED = schema.View({**_DETAIL, **_MORE})
_RESERVED = {'reservation': {
    'enum': [*(word.value for word in connection.HostReservation), None]}}

SUMMARIES = schema.wrapped('attachments', schema.array(SUMMARY.whole))
SHOWN = schema.wrapped('attachment', DETAIL.whole)
DETAILS = schema.wrapped('attachments', schema.array(DETAIL.whole))

FORCE = 'force'
WATCH = 'watch'
FILTERS = {FIRST: {'host': {
    'type': 'string', 'description': 'List only the attachments of this host.'}}}
INDEX = {**FILTERS, operation.V(1, 5): {**FILTERS[FIRST], WATCH: {
    'type': 'boolean', 'description': 'Return a stream of attachment events as server-sent events '
                                      'instead of a list.'}}}
DELETION = {FIRST: {FORCE: {
    'type': 'boolean', 'description': f'Delete the attachment regardless of the attachment state '
                                      f'and of backend errors. The policy rule '
                                      f'``{policies.FORCE_DELETE}`` applies.'}}}
DRY_RUN = 'dry_run'
CREATION = {operation.V(1, 4): {DRY_RUN: {
    'type': 'boolean', 'description': 'Validate the request without creating an attachment. '
                                      'Return the attachment that the request would create, with '
                                      'an ID of zeros, or the error that the request would '
                                      'return.'}}}
"""Query parameters of a create request, by extension version.

`FILTERS` and `INDEX` contain the parameters of lists, `DELETION` the parameters of a delete
request.
"""

_ADDED = schema.View(_MORE).keys
ONE_EXTENDED = {FIRST: schema.extending(_ADDED, 'attachment')}
SHOWN_EXTENDED = {**ONE_EXTENDED, _RESERVATIONS: schema.extending(
    {**_ADDED, **_RESERVED}, 'attachment')}
EACH_EXTENDED = {FIRST: schema.extending(_ADDED, 'attachments')}
REMAINING_EXTENDED = {FIRST: schema.extending(_REMAINING.keys, 'attachments')}
"""Functions that add the keys of the extension to the schema of a delete response, by version.

`ONE_EXTENDED` is for the responses of create and update requests, `SHOWN_EXTENDED` for a single
attachment, and `EACH_EXTENDED` for lists with details.
"""


Pairs = Sequence[records.Pair] | None
"""(volume, initiator) pair of each attachment of a list, in the order of the list.

None means that the extension was not negotiated.
"""
_WORDS = frozenset(attachment_lifecycle.WIRE_STATUS.values())
_STATUS = ('status', 'attach_status')
# Columns by filter name, for filters that are not named like their column.
_COLUMNS = {'instance_id': 'instance_uuid', 'host': 'attached_host'}

_RULES = listing.FilterRules(
    known=frozenset(listing.BUILT_IN['attachment']),
    more=frozenset(('id', 'instance_uuid', 'attached_host', 'project_id')))


def details(attachments: Sequence[records.Attachment], infos: Mapping[str, Any],
            pairs: Pairs) -> list[dict[str, Any]]:
    """Return attachments with details.

    :param infos: connection information by attachment ID
    :param pairs: pair of each attachment; None to leave out the keys of the extension
    """
    if pairs is None:
        return [DETAIL.show(one, connection_info=infos[one.id]) for one in attachments]
    return [_EXTENDED.show(one, connection_info=infos[one.id],
                           mode_enforced_by=_enforced_by(one, pair),
                           shared_connections=_ids(pair.others))
            for one, pair in zip(attachments, pairs, strict=True)]


def remaining(services: api_services.ApiServices, call: operation.Call,
              attachments: Sequence[records.Attachment]) -> list[dict[str, Any]]:
    """Return the attachments that remain after a delete, without details."""
    shown = [SUMMARY.show(one) for one in attachments]
    pairs = of_pair(services, call, attachments)
    if pairs is not None:
        for row, one, pair in zip(shown, attachments, pairs, strict=True):
            row |= _REMAINING.show(one, shared_connections=_ids(pair.others))
    return shown


def reserved(services: api_services.ApiServices, call: operation.Call,
             attachment: records.Attachment) -> dict[str, Any]:
    """Return the part of a response that shows the SCSI reservation of the host (``reservation``).

    :returns: an empty dict for clients that have not negotiated ``blockattach 1.1``
    """
    # Lists do not show reservations, because each attachment would need a call to its
    # backend.
    if call.extension is None or call.extension < _RESERVATIONS:
        return {}
    return {'reservation': services.reservations.held(call.context, attachment)}


def of_pair(services: api_services.ApiServices, call: operation.Call,
            attachments: Sequence[records.Attachment]) -> Pairs:
    """Return the pair of each attachment, or None if the extension was not negotiated.

    For an attachment without an initiator, the pair is empty.
    """
    if call.extension is None:
        return None
    found = attachment_queries.shared_connections(
        services.database, [one.id for one in attachments if one.initiator is not None])
    return [found.get(one.id, records.Pair([], False)) for one in attachments]


def _enforced_by(attachment: records.Attachment, pair: records.Pair) -> str | None:
    """Return the component that enforces the mode of an attachment.

    :returns: `TARGET`, `CONSUMER`, or None if the attachment has no connector
    """
    if attachment.connector is None:
        return None
    # All adopted connections of a volume share a credential, so a host can use the connection of
    # another host.
    if pair.adopted:
        return CONSUMER
    # The target distinguishes initiators, not attachments. It accepts the writes of a host if any
    # attachment of the pair may write.
    modes = [one.mode or connection.AccessMode.RW for one in pair.others]
    own = attachment.mode or connection.AccessMode.RW
    return TARGET if connection.widest([own, *modes]) == own else CONSUMER


def _ids(others: Sequence[records.PairAttachment]) -> list[str]:
    # The API does not show legacy reservations.
    return [one.id for one in others if not one.legacy_reservation]


def asked_filters(services: api_services.ApiServices,
                  call: operation.Call) -> attachment_queries.Filters | None:
    """Return the filters of a list request, or None if no attachment can match.

    :raises InvalidFilter: if a filter is unknown, see `listing.asked`
    :raises InvalidInput: if a parameter is malformed
    """
    rules = _RULES.allowed_by(services.filters, 'attachment')
    more = (operation.at_version(INDEX, call.extension or operation.NONE) or {}).keys()
    asked = listing.asked(call, dataclasses.replace(
        rules, known=rules.known | (more - {WATCH}), own=frozenset(more & {WATCH})))
    equal: dict[str, str] = {}
    for key, value in asked.equal.items():
        # Two filters require different values of the same column.
        if equal.setdefault(_COLUMNS.get(key, key), value) != value:
            return None
    project_id = equal.get('project_id')
    if not asked.all_projects:
        project_id = call.context.project_id
    like = _columns_like(asked)
    if asked.nothing or equal.get('project_id', project_id) != project_id \
            or not like.keys() <= attachment_queries.SORT_COLUMNS.keys():
        return None
    return attachment_queries.Filters(
        project_id=project_id, volume_id=equal.get('volume_id'),
        instance_uuid=equal.get('instance_uuid'), host=equal.get('attached_host'),
        attachment_id=equal.get('id'), states=_states(asked), like=like)


def _states(requested: listing.Asked) -> tuple[attachment_lifecycle.State, ...] | None:
    """Return the attachment states that match the filters, or None for all states.

    The filters ``status`` and ``attach_status`` have the same meaning.
    """
    words = set(_WORDS)
    for key in _STATUS:
        if key in requested.equal:
            words &= {requested.equal[key]}
        if key in requested.like:
            words = {word for word in words if requested.like[key] in word}
    if words == _WORDS:
        return None
    return tuple(state for word in sorted(words)
                 for state in attachment_lifecycle.states_on_wire(word))


def _columns_like(requested: listing.Asked) -> dict[str, str]:
    # Filters of the status are left out, because the database stores states and not statuses.
    return {_COLUMNS.get(key, key): text
            for key, text in requested.like.items() if key not in _STATUS}
