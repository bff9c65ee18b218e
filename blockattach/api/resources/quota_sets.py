"""Quota sets: how many attachments a project may have. Only clients of the extension see them."""
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import engine
from blockattach.db import quotas
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import quotas as policies

SINCE = operation.V(1, 3)
_LONGEST_ID = 255
_MOST = 2**31 - 1
_USAGE: schema.Schema = {'type': 'string'}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """The limit, and on request how much of it is used."""
    found: records.QuotaSet = call.target
    attachments: Any = found.limit
    if (call.query.get('usage') or '').lower() == 'true':
        attachments = {'limit': found.limit, 'in_use': found.in_use, 'reserved': 0}
    return {'quota_set': {'id': found.project_id, 'attachments': attachments}}


def defaults(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """The limit of a project that was given none."""
    return {'quota_set': {'id': call.path['id'],
                          'attachments': services.database.attachment_limit}}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Give a project a limit of its own; it may be less than the project has."""
    limit = call.body['quota_set']['attachments']
    quotas.change(services.database, call.target.project_id, limit)
    return {'quota_set': {'attachments': limit}}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Give a project the default again."""
    quotas.change(services.database, call.target.project_id, None)


def _quota_set(_: object, database: engine.Database,
               project_id: str) -> records.QuotaSet:
    if len(project_id) > _LONGEST_ID:
        raise errors.InvalidInput(
            f'cannot use a project id of {len(project_id)} characters, more than {_LONGEST_ID}')
    return quotas.get(database, project_id)


_LIMIT: schema.Schema = {'type': 'integer', 'minimum': -1, 'maximum': _MOST}
_USED = answers.whole({'limit': answers.INTEGER, 'in_use': answers.INTEGER,
                       'reserved': answers.INTEGER})
_SHOWN = schema.wrapped('quota_set', answers.whole({
    'id': answers.TEXT, 'attachments': {'anyOf': [answers.INTEGER, _USED]}}))
_CHANGED = schema.wrapped('quota_set', answers.whole({'attachments': answers.INTEGER}))
_CHANGE = schema.wrapped('quota_set', schema.obj({'attachments': _LIMIT}, ['attachments']))

OPERATIONS = (
    operation.Operation(
        'GET', '/os-quota-sets/{id}', show, extension=SINCE, policy=policies.SHOW,
        target=_quota_set, answer={operation.BASE: _SHOWN},
        query={operation.BASE: schema.obj({'usage': _USAGE}, additional=True)},
        summary='Show how many attachments a project may have.'),
    operation.Operation(
        'GET', '/os-quota-sets/{id}/defaults', defaults, extension=SINCE,
        policy=policies.SHOW, target=_quota_set, answer={operation.BASE: _SHOWN},
        summary='Show how many attachments a project may have that was given no limit.'),
    operation.Operation(
        'PUT', '/os-quota-sets/{id}', update, extension=SINCE, policy=policies.UPDATE,
        target=_quota_set, body={operation.BASE: _CHANGE}, answer={operation.BASE: _CHANGED},
        summary='Change how many attachments a project may have.'),
    operation.Operation(
        'DELETE', '/os-quota-sets/{id}', delete, extension=SINCE, policy=policies.DELETE,
        target=_quota_set, answer={operation.BASE: answers.EMPTY},
        summary='Give a project the default limits again.'),
)
