"""Filters of attachment lists."""
import dataclasses

from blockattach.platform.http import operation
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.attachments import views
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.domain import attachment_lifecycle

_WORDS = frozenset(attachment_lifecycle.WIRE_STATUS.values())
_STATUS = ('status', 'attach_status')
# Columns of filters whose names differ from the column names.
_COLUMNS = {'instance_id': 'instance_uuid', 'host': 'attached_host'}

_RULES = listing.FilterRules(
    known=frozenset(listing.BUILT_IN['attachment']),
    more=frozenset(('id', 'instance_uuid', 'attached_host', 'project_id')))


def wanted(services: api_services.ApiServices,
           call: operation.Call) -> attachment_queries.Filters | None:
    """Return the filters of a list request, or None if no attachment can match."""
    rules = _RULES.allowed_by(services.filters, 'attachment')
    more = (operation.at_version(views.INDEX, call.extension or operation.NONE) or {}).keys()
    asked = listing.asked(call, dataclasses.replace(
        rules, known=rules.known | (more - {views.WATCH}), own=frozenset(more & {views.WATCH})))
    equal: dict[str, str] = {}
    for key, value in asked.equal.items():
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
    """Return the attachment states that match the status filters, or None for all states.

    ``status`` and ``attach_status`` are the same filter.
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
    """Return the substring filters by column, without the status filters.

    The database does not store states in the words of the API.
    """
    return {_COLUMNS.get(key, key): text
            for key, text in requested.like.items() if key not in _STATUS}
