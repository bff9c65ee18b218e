"""Quotas: how much a project may have, and how much it has (limits); and how many attachments,
which only clients of the extension see (quota sets)."""
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import quotas
from blockattach.db.engine import engine
from blockattach.db.volumes import volume_queries
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http import schema
from blockattach.http.operation import BASE
from blockattach.policy import quotas as policies

_OF_PROJECT = operation.V(3, 39)
"""From here on an administrator may ask about another project."""
_ATTACHMENTS = operation.V(1, 3)
"""Of ``blockattach``: attachments have a limit."""

_LIMITLESS = -1
_LIMITS = ('maxTotalVolumes', 'maxTotalVolumeGigabytes', 'maxTotalSnapshots', 'maxTotalBackups',
           'maxTotalBackupGigabytes')
_USED = ('totalVolumesUsed', 'totalGigabytesUsed')
_UNMADE = ('totalSnapshotsUsed', 'totalBackupsUsed', 'totalBackupGigabytesUsed')
"""Clients expect these, though there are no snapshots or backups."""

_LONGEST_ID = 255
_MOST = 2**31 - 1


def limits(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """What a project may have: as much as it likes, but for attachments; and what it has."""
    project_id = _project(call)
    shows_use = services.policy.allowed(call.context, policies.USED_LIMITS, project_id)
    absolute = dict.fromkeys(_LIMITS, _LIMITLESS)
    if shows_use:
        used = volume_queries.totals(services.database, volume_queries.Filters(project_id))
        absolute |= {'totalVolumesUsed': used.count, 'totalGigabytesUsed': used.size_gb,
                     **dict.fromkeys(_UNMADE, 0)}
    if call.extension is not None and call.extension >= _ATTACHMENTS:
        found = quotas.get(services.database, project_id)
        absolute['maxTotalAttachments'] = found.limit
        if shows_use:
            absolute['totalAttachmentsUsed'] = found.in_use
    return {'limits': {'rate': [], 'absolute': absolute}}


def _project(call: operation.Call) -> str:
    own = call.context.project_id or ''
    if call.version < _OF_PROJECT or not call.context.is_admin:
        return own
    return call.query.get('project_id', own) or own


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


_ABSOLUTE = schema.obj(
    dict.fromkeys((*_LIMITS, *_USED, *_UNMADE), answers.INTEGER), required=_LIMITS)
_SHOWN_LIMITS = schema.wrapped('limits', answers.whole({
    'rate': schema.array(answers.TEXT, maxItems=0), 'absolute': _ABSOLUTE}))

_LIMIT: schema.Schema = {'type': 'integer', 'minimum': -1, 'maximum': _MOST}
_WITH_USE = answers.whole({'limit': answers.INTEGER, 'in_use': answers.INTEGER,
                           'reserved': answers.INTEGER})
_QUOTA_SET = schema.wrapped('quota_set', answers.whole({
    'id': answers.TEXT, 'attachments': {'anyOf': [answers.INTEGER, _WITH_USE]}}))
_CHANGED = schema.wrapped('quota_set', answers.whole({'attachments': answers.INTEGER}))
_CHANGE = schema.wrapped('quota_set', schema.obj({'attachments': _LIMIT}, ['attachments']))

OPERATIONS = (
    operation.Operation(
        'GET', '/limits', limits, answer={BASE: _SHOWN_LIMITS},
        extended={_ATTACHMENTS: lambda shown: schema.extend(
            shown, {'maxTotalAttachments': answers.INTEGER,
                    'totalAttachmentsUsed': answers.INTEGER},
            ('maxTotalAttachments',), at='limits.absolute')},
        summary='Show how much a project may have, and how much it has.'),
    operation.Operation(
        'GET', '/os-quota-sets/{id}', show, extension=_ATTACHMENTS, policy=policies.SHOW,
        target=_quota_set, answer={BASE: _QUOTA_SET},
        query={BASE: schema.obj({'usage': answers.TEXT}, additional=True)},
        summary='Show how many attachments a project may have.'),
    operation.Operation(
        'GET', '/os-quota-sets/{id}/defaults', defaults, extension=_ATTACHMENTS,
        policy=policies.SHOW, target=_quota_set, answer={BASE: _QUOTA_SET},
        summary='Show how many attachments a project may have that was given no limit.'),
    operation.Operation(
        'PUT', '/os-quota-sets/{id}', update, extension=_ATTACHMENTS, policy=policies.UPDATE,
        target=_quota_set, body={BASE: _CHANGE}, answer={BASE: _CHANGED},
        summary='Change how many attachments a project may have.'),
    operation.Operation(
        'DELETE', '/os-quota-sets/{id}', delete, extension=_ATTACHMENTS, policy=policies.DELETE,
        target=_quota_set, answer={BASE: answers.EMPTY},
        summary='Give a project the default limits again.'),
)
