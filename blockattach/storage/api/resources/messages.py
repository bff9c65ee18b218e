"""User messages, which explain why an operation failed after its request was accepted."""
from typing import Any

from blockattach.platform.db import paging
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import Operation
from blockattach.platform.http.operation import V
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db import messages
from blockattach.storage.domain import records
from blockattach.storage.policy import access
from blockattach.storage.policy import messages as policies

_SINCE = V(3, 3)
_PAGED = V(3, 5)
_FILTERS = listing.FilterRules(
    known=frozenset(listing.BUILT_IN['message']), more=frozenset(('id',)))


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the user messages of the project of the caller.

    An administrator can list the messages of all projects from 3.5 on.
    """
    most = services.settings.osapi_max_limit
    page = paging.Page(limit=most)
    asked = listing.Asked(False, {}, {})
    # Before 3.5, the parameters of pages and filters are ignored.
    if call.version >= _PAGED:
        page = listing.page(call, messages.SORT_COLUMNS, most)
        asked = listing.asked(call, _FILTERS.allowed_by(services.filters, 'message'))
    project_id = None if asked.all_projects else call.context.project_id
    found = [] if asked.nothing else messages.list_page(
        services.database, project_id, asked.equal, page, asked.like)
    return {'messages': [_view(services, call, message) for message in found],
            **listing.links(call, 'messages_links', page, found)}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show a user message."""
    return {'message': _view(services, call, call.target)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete a user message."""
    messages.delete(services.database, call.target.id)


def _view(services: api_services.ApiServices, call: operation.Call,
          message: records.Message) -> dict[str, Any]:
    text = message.user_message
    if message.detail is not None and services.policy.allowed(
            call.context, policies.DETAIL, message.project_id):
        text = f'{text} {message.detail}'
    return _MESSAGE.show(message, user_message=text, links=call.links(f'/messages/{message.id}'))


_MESSAGE = schema.View({
    'id': schema.UUID,
    'event_id': answers.TEXT,
    'user_message': (answers.TEXT, schema.GIVEN),
    'message_level': {'enum': ['ERROR']},
    'created_at': answers.TIME,
    'guaranteed_until': answers.TIME,
    # Clients expect a string, even if no request caused the message.
    'request_id': (answers.TEXT, lambda message: message.request_id or ''),
    'resource_type': answers.TEXT,
    'resource_uuid': (schema.NULLABLE_UUID, 'resource_id'),
    'links': (answers.LINKS, schema.GIVEN),
})
_MESSAGES = schema.obj({
    'messages': schema.array(_MESSAGE.whole),
    'messages_links': answers.NEXT_LINK,
}, required=['messages'])

OPERATIONS = (
    Operation('GET', '/messages', index, since=_SINCE, policy=policies.GET_ALL,
              answer={_SINCE: _MESSAGES}, summary='List user messages.'),
    Operation('GET', '/messages/{id}', show, since=_SINCE, policy=policies.GET,
              target=access.message, answer={_SINCE: schema.wrapped('message', _MESSAGE.whole)},
              summary='Show user message details.'),
    Operation('DELETE', '/messages/{id}', delete, since=_SINCE, policy=policies.DELETE,
              target=access.message, status=204, answer={_SINCE: answers.EMPTY},
              summary='Delete a user message.'),
)
