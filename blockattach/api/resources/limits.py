"""Limits: how much a project may have, and how much it has."""
from typing import Any

from blockattach import context as request_context
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import quotas
from blockattach.db import volume_queries
from blockattach.http import operation
from blockattach.http import schema
from blockattach.http.operation import BASE
from blockattach.http.operation import Operation
from blockattach.http.operation import V
from blockattach.policy import quotas as policies

_OF_PROJECT = V(3, 39)
"""From here on an administrator may ask about another project."""

_WITH_ATTACHMENTS = V(1, 3)
"""Of ``blockattach``: the limit of attachments is among the others."""

_LIMITLESS = -1
_LIMITS = ('maxTotalVolumes', 'maxTotalVolumeGigabytes', 'maxTotalSnapshots', 'maxTotalBackups',
           'maxTotalBackupGigabytes')
_USED = ('totalVolumesUsed', 'totalGigabytesUsed')
_UNMADE = ('totalSnapshotsUsed', 'totalBackupsUsed', 'totalBackupGigabytesUsed')
"""Clients expect these, though there are no snapshots or backups."""


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """What a project may have: as much as it likes; and what it has."""
    project_id = _project(call)
    absolute = dict.fromkeys(_LIMITS, _LIMITLESS)
    if services.policy.allowed(call.context, policies.USED_LIMITS, project_id):
        used = volume_queries.totals(services.database, volume_queries.Filters(project_id))
        absolute |= {'totalVolumesUsed': used.count, 'totalGigabytesUsed': used.size_gb,
                     **dict.fromkeys(_UNMADE, 0)}
    if call.extension is not None and call.extension >= _WITH_ATTACHMENTS:
        absolute |= _attachments(services, call.context, project_id)
    return {'limits': {'rate': [], 'absolute': absolute}}


def _attachments(services: api_services.ApiServices, context: request_context.RequestContext,
                 project_id: str) -> dict[str, int]:
    found = quotas.get(services.database, project_id)
    if not services.policy.allowed(context, policies.USED_LIMITS, project_id):
        return {'maxTotalAttachments': found.limit}
    return {'maxTotalAttachments': found.limit, 'totalAttachmentsUsed': found.in_use}


def _project(call: operation.Call) -> str:
    own = call.context.project_id or ''
    if call.version < _OF_PROJECT or not call.context.is_admin:
        return own
    return call.query.get('project_id', own) or own


_ABSOLUTE = schema.obj(
    dict.fromkeys((*_LIMITS, *_USED, *_UNMADE), answers.INTEGER), required=_LIMITS)
_SHOWN = schema.wrapped('limits', answers.whole({
    'rate': schema.array(answers.TEXT, maxItems=0), 'absolute': _ABSOLUTE}))


def _with_attachments(shown: schema.Schema) -> schema.Schema:
    return schema.extend(shown, {'maxTotalAttachments': answers.INTEGER,
                                 'totalAttachmentsUsed': answers.INTEGER},
                         ('maxTotalAttachments',), at='limits.absolute')


OPERATIONS = (
    Operation('GET', '/limits', show, answer={BASE: _SHOWN},
              extended={_WITH_ATTACHMENTS: _with_attachments},
              summary='Show how much a project may have, and how much it has.'),
)
