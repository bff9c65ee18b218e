"""Limits, quota sets of projects and quota class sets.

The quota class ``default`` contains the limits of all projects for which no limits are set. Quotas
of attachments are shown only if the client has negotiated the extension.
"""
import re
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import BASE
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db import quotas
from blockattach.storage.db import storage_db
from blockattach.storage.domain import quotas as domain
from blockattach.storage.policy import quotas as policies

_OF_PROJECT = operation.V(3, 39)
"""First version in which an administrator can show the limits of another project."""
_ATTACHMENTS = operation.V(1, 3)
"""First version of the extension with quotas of attachments."""

_LIMITS = {'maxTotalVolumes': 'volumes', 'maxTotalVolumeGigabytes': 'gigabytes',
           'maxTotalSnapshots': 'snapshots', 'maxTotalBackups': 'backups',
           'maxTotalBackupGigabytes': 'backup_gigabytes'}
_USED = {'totalVolumesUsed': 'volumes', 'totalGigabytesUsed': 'gigabytes',
         'totalSnapshotsUsed': 'snapshots', 'totalBackupsUsed': 'backups',
         'totalBackupGigabytesUsed': 'backup_gigabytes'}
"""Response keys of the usage, mapped to resources. Clients expect the keys of backups too."""
_MAX_ATTACHMENTS, _ATTACHMENTS_USED = 'maxTotalAttachments', 'totalAttachmentsUsed'

_NO_LIMITS = ('id', 'tenant_id')
"""Keys of an update request that are not limits. Clients copy them from an earlier response."""
_INTEGER = re.compile(r'-?[0-9]{1,19}')
"""Pattern of the text of a limit. Python raises ValueError for numbers that are much longer."""
_LONGEST_NAME = 255
_MOST = 2**31 - 1


class Owner(NamedTuple):
    """Project in the path of a request. The project need not exist in the database."""

    project_id: str


def limits(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the limits of a project, and their usage if the caller may see the usage."""
    project_id = _project(call)
    shows_use = services.policy.allowed(call.context, policies.USED_LIMITS, project_id)
    found = quotas.show(services.database, project_id, usage=shows_use)
    shown, used = dict(_LIMITS), dict(_USED)
    if _sees_attachments(call):
        shown[_MAX_ATTACHMENTS] = used[_ATTACHMENTS_USED] = domain.ATTACHMENTS
    absolute = {key: found.limits[name] for key, name in shown.items()}
    if shows_use:
        absolute |= {key: found.used[name].in_use for key, name in used.items()}
    return {'limits': {'rate': [], 'absolute': absolute}}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the limits of a project and, if ``usage`` is true, their usage."""
    usage = listing.flag(call, 'usage')
    found = quotas.show(services.database, call.target.project_id, usage, _caller(call))
    shown: Mapping[str, Any] = found.limits
    if usage:
        shown = {name: {'limit': limit, **found.used[name]._asdict()}
                 for name, limit in found.limits.items()}
    return {'quota_set': {'id': found.project_id, **_visible(call, shown)}}


def defaults(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the default limits, which apply to a project for which no limits are set."""
    found = quotas.defaults(services.database, _caller(call))
    return {'quota_set': {'id': call.path['id'], **_visible(call, found)}}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update limits of a project."""
    _check_stored_here(services)
    project_id = call.target.project_id
    asked = {name: value for name, value in call.body['quota_set'].items()
             if name not in _NO_LIMITS}
    keys = _keys(services, call, asked, 'quota set')
    found = quotas.show(services.database, project_id)
    for name in asked:
        _check_not_below(name, asked[name], found)
    quotas.change(services.database, project_id,
                  {keys[name]: int(value) for name, value in asked.items()})
    now = quotas.show(services.database, project_id, usage=False)
    # As in Cinder, this response does not contain the ID of the project.
    return {'quota_set': _visible(call, now.limits)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reset the limits of a project to the default limits."""
    _check_stored_here(services)
    quotas.reset(services.database, call.target.project_id)


def show_class(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the limits of a quota class."""
    return {'quota_class_set': {'id': call.path['id'], **_class(services, call)}}


def update_class(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update limits of a quota class. The class ``default`` contains the default limits."""
    _check_stored_here(services)
    _check_name(call.path['id'])
    asked = call.body['quota_class_set']
    keys = _keys(services, call, asked, 'quota class set')
    quotas.change_class(services.database, call.path['id'],
                        {keys[name]: int(value) for name, value in asked.items()})
    return {'quota_class_set': _class(services, call)}


def _class(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    return _visible(call, quotas.show_class(services.database, call.path['id']))


def _project(call: operation.Call) -> str:
    own = call.context.project_id or ''
    if call.version < _OF_PROJECT or not call.context.is_admin:
        return own
    return call.query.get('project_id') or call.query.get('tenant_id') or own


def _caller(call: operation.Call) -> str | None:
    """Return the id of the project whose volume types the caller sees, or None for all types.

    Only administrators see the limits of all volume types.
    """
    return None if call.context.is_admin else call.context.project_id or ''


def _sees_attachments(call: operation.Call) -> bool:
    return call.extension is not None and call.extension >= _ATTACHMENTS


def _visible(call: operation.Call, shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items()
            if name != domain.ATTACHMENTS or _sees_attachments(call)}


def _keys(services: api_services.ApiServices, call: operation.Call, limits: Mapping[str, Any],
          of: str) -> dict[str, str]:
    """Check the limits in an update request, and return the keys of all limits by their names.

    :param limits: requested limits by name
    :param of: kind of the limits for the error text
    :raises InvalidInput: if a name is unknown, or if a limit is not an integer in the valid range
    """
    keys = _visible(call, quotas.keys_by_name(services.database))
    bad = [name for name in limits if name not in keys]
    if bad:
        raise errors.InvalidInput(reason='Invalid input received: Bad key(s) in '
                                         f'{of}: {errors.shortened(", ".join(bad))}')
    for name, value in limits.items():
        if not _INTEGER.fullmatch(str(value)):
            raise errors.InvalidInput(reason=f'{name} must be an integer')
        if not domain.UNLIMITED <= int(value) <= _MOST:
            raise errors.InvalidInput(
                reason=f'{name} must be >= {domain.UNLIMITED} and <= {_MOST}')
    return keys


def _check_not_below(name: str, value: Any, quota_set: domain.QuotaSet) -> None:
    """Raise InvalidInput if the new limit of a project would be below its usage.

    Limits of attachments, and limits that replace a default limit, are not checked.

    :param name: name of the limit
    :param value: new limit
    """
    used = sum(quota_set.used[name])
    # Cinder checks only limits that were set for the project before. The limit of attachments,
    # which Cinder does not have, may be below the usage.
    if (name in quota_set.own and name != domain.ATTACHMENTS
            and domain.UNLIMITED < int(value) < used):
        raise errors.InvalidInput(
            reason=f'Quota {name} limit must be equal or greater than existing resources. '
                   f'Current usage is {used} and the requested limit is {value}.')


def _check_stored_here(services: api_services.ApiServices) -> None:
    """Check that the limits are stored in the database of this service.

    :raises NotAuthorized: if the quotas are unified limits in Keystone
    """
    if services.database.limit_source is not None:
        raise errors.NotAuthorized(
            'Cannot change quotas. The quotas are unified limits in Keystone. Change the limits '
            'in Keystone.')


def _check_name(name: str) -> None:
    if len(name) > _LONGEST_NAME:
        raise errors.InvalidInput(
            f'The name has {len(name)} characters, more than {_LONGEST_NAME}.')


def _owner(_: object, database: storage_db.Database, project_id: str) -> Owner:
    _check_name(project_id)
    return Owner(project_id)


_SHOWN_LIMITS = schema.wrapped('limits', answers.whole({
    'rate': schema.array(answers.TEXT, maxItems=0),
    'absolute': schema.obj(dict.fromkeys((*_LIMITS, *_USED), answers.INTEGER),
                           required=_LIMITS)}))
_BY_NAME = [name for name in domain.RESOURCES if name != domain.ATTACHMENTS]
_OF_TYPES = f'^({"|".join(domain.OF_TYPES)})_'
_WITH_USE = answers.whole({'limit': answers.INTEGER, 'in_use': answers.INTEGER,
                           'reserved': answers.INTEGER})


def _set(value: schema.Schema, **more: schema.Schema) -> schema.Schema:
    """Return the schema of an object that has a value for each limit.

    The limits of volume types are included.

    :param value: schema of each value
    :param more: schemas of further keys
    """
    return schema.obj({**more, **dict.fromkeys(_BY_NAME, value)}, required=[*more, *_BY_NAME],
                      patternProperties={_OF_TYPES: value})


_EITHER: schema.Schema = {'anyOf': [answers.INTEGER, _WITH_USE]}
_QUOTA_SET = schema.wrapped('quota_set', _set(_EITHER, id=answers.TEXT))
_CHANGED = schema.wrapped('quota_set', _set(answers.INTEGER))
_CLASS_SET = schema.wrapped('quota_class_set', _set(answers.INTEGER, id=answers.TEXT))
_CLASS_CHANGED = schema.wrapped('quota_class_set', _set(answers.INTEGER))

_LIMIT: schema.Schema = {'type': ['integer', 'string']}
_ANY_LIMITS = schema.obj(dict.fromkeys(_BY_NAME, _LIMIT), additional=True)
_CHANGE = schema.wrapped('quota_set', {**_ANY_LIMITS, 'minProperties': 1})
_CHANGE_CLASS = schema.wrapped('quota_class_set', _ANY_LIMITS)


def _with_attachments(at: str, value: schema.Schema) -> dict[Any, Any]:
    return {_ATTACHMENTS: lambda shown: schema.extend(
        shown, {domain.ATTACHMENTS: value}, (domain.ATTACHMENTS,), at=at)}


OPERATIONS = (
    operation.Operation(
        'GET', '/limits', limits, answer={BASE: _SHOWN_LIMITS},
        extended={_ATTACHMENTS: lambda shown: schema.extend(
            shown, {_MAX_ATTACHMENTS: answers.INTEGER, _ATTACHMENTS_USED: answers.INTEGER},
            (_MAX_ATTACHMENTS,), at='limits.absolute')},
        summary='Show the absolute limits of a project, and their usage.'),
    operation.Operation(
        'GET', '/os-quota-sets/{id}', show, policy=policies.SHOW, target=_owner,
        answer={BASE: _QUOTA_SET}, extended=_with_attachments('quota_set', _EITHER),
        query={BASE: schema.obj({'usage': answers.TEXT}, additional=True)},
        summary='Show the quotas of a project, and with usage=true their usage.'),
    operation.Operation(
        'GET', '/os-quota-sets/{id}/defaults', defaults, policy=policies.SHOW, target=_owner,
        answer={BASE: _QUOTA_SET}, extended=_with_attachments('quota_set', _EITHER),
        summary='Show the default quotas of a project.'),
    operation.Operation(
        'PUT', '/os-quota-sets/{id}', update, policy=policies.UPDATE, target=_owner,
        body={BASE: _CHANGE}, answer={BASE: _CHANGED},
        extended=_with_attachments('quota_set', answers.INTEGER),
        summary='Update the quotas of a project.'),
    operation.Operation(
        'DELETE', '/os-quota-sets/{id}', delete, policy=policies.DELETE, target=_owner,
        answer={BASE: answers.EMPTY},
        summary='Delete the quotas of a project. The default quotas apply afterwards.'),
    operation.Operation(
        'GET', '/os-quota-class-sets/{id}', show_class, policy=policies.GET_CLASS,
        answer={BASE: _CLASS_SET},
        extended=_with_attachments('quota_class_set', answers.INTEGER),
        summary='Show the quotas of a quota class.'),
    operation.Operation(
        'PUT', '/os-quota-class-sets/{id}', update_class, policy=policies.UPDATE_CLASS,
        body={BASE: _CHANGE_CLASS}, answer={BASE: _CLASS_CHANGED},
        extended=_with_attachments('quota_class_set', answers.INTEGER),
        summary='Update the quotas of a quota class. The class "default" has the default quotas.'),
)
