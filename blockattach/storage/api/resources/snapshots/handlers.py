"""Handlers of snapshot operations."""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context as request_context
from blockattach.platform.http import operation
from blockattach.storage import errors
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.snapshots import views
from blockattach.storage.db import storage_db
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.domain import snapshots as domain
from blockattach.storage.policy import access
from blockattach.storage.policy import snapshots as policies

_SORTED_BY_NAME = operation.V(3, 30)
_IN_USE = operation.V(3, 66)
_TEXTS = frozenset(snapshot_queries.SORT_COLUMNS) - {'created_at', 'updated_at', 'volume_size'}
_RULES = listing.FilterRules(
    known=frozenset(listing.BUILT_IN['snapshot']), more=_TEXTS,
    since={'metadata': operation.V(3, 22), 'consumes_quota': operation.V(3, 65)})

View = Callable[[api_services.ApiServices, operation.Call, Sequence[domain.Snapshot]],
                list[dict[str, Any]]]


def target(caller: request_context.RequestContext, database: storage_db.Database,
           snapshot_id: str) -> domain.Snapshot:
    """Return a snapshot of the project of the caller, or of any project for an administrator.

    :raises SnapshotNotFound: if the snapshot does not exist, or the caller cannot see the snapshot
    """
    found = snapshot_queries.get(database, snapshot_id)
    if not access.is_visible(caller, found.project_id):
        raise errors.SnapshotNotFound(snapshot_id=snapshot_id)
    return found


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List snapshots."""
    return _list(services, call, views.names)


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List snapshots with details."""
    return _list(services, call, views.details)


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show a snapshot."""
    return {'snapshot': views.details(services, call, [call.target])[0]}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create the row of a snapshot, and start the creation of the snapshot on its backend."""
    caller = call.context
    if not caller.project_id:
        raise errors.InvalidInput(
            'Cannot create snapshot. A project-scoped token is required.')
    asked: Mapping[str, Any] = call.body['snapshot']
    if asked['volume_id'] is None:
        raise errors.VolumeNotFound(volume_id=None)
    volume = access.volume(caller, services.database, asked['volume_id'])
    # The operation has no target, so the dispatcher has checked the rule for the caller's project.
    services.policy.authorize(caller, policies.CREATE, volume.project_id)
    texts = _texts(asked)
    made = services.snapshots.create(caller, snapshots.Draft(
        volume=volume, project_id=caller.project_id, user_id=caller.user_id or '',
        name=texts.get('name'), description=texts.get('description'),
        metadata=asked.get('metadata') or {}, in_use=_in_use(asked.get('force'), call.version),
        request_id=caller.request_id), call.named())
    return {'snapshot': views.made(call, made)}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update the name or description of a snapshot."""
    snapshots.update(services.database, call.target, _texts(call.body['snapshot']))
    found = snapshot_queries.get(services.database, call.target.id)
    return {'snapshot': views.made(call, found)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start the deletion of a snapshot."""
    services.snapshots.delete(call.context, call.target)


def force_delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start the deletion of a snapshot regardless of its status (os-force_delete)."""
    services.snapshots.delete(call.context, call.target, force=True)


def reset_status(services: api_services.ApiServices, call: operation.Call) -> None:
    """Reset the status of a snapshot (os-reset_status)."""
    status = call.body['os-reset_status']['status'].lower()
    if status not in domain.RESETTABLE:
        raise errors.InvalidInput(
            f'Snapshot status: {errors.shortened(status)} is invalid, valid statuses are: '
            f'{", ".join(sorted(domain.RESETTABLE))}.')
    snapshots.reset_status(services.database, call.target, domain.Status(status))


def update_status(services: api_services.ApiServices, call: operation.Call) -> None:
    """Store the status and progress that a consumer reports (os-update_snapshot_status)."""
    asked: Mapping[str, Any] = call.body['os-update_snapshot_status']
    progress = asked.get('progress')
    snapshots.state_status(services.database, call.target, asked['status'],
                           None if progress is None else int(progress[:-1]))


def revert(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start to revert a volume to its latest snapshot."""
    services.snapshots.revert(call.context, call.target, call.body['revert'].get('snapshot_id'))


def _in_use(force: str | bool | None, version: operation.V) -> bool:
    """Return True if a snapshot of a volume in use is allowed.

    :param force: parameter of the request; None if absent
    :raises InvalidInput: if ``force`` is false at a version that always allows volumes in use
    """
    if force is None:
        return version >= _IN_USE
    if version >= _IN_USE and not listing.boolean(force):
        raise errors.InvalidInput(
            f"Since microversion {_IN_USE} the 'force' flag is invalid for this request. "
            f"Snapshots of volumes in use are always allowed. A 'force' flag that is true is "
            f"ignored.")
    return bool(listing.boolean(force))


def _texts(requested: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the trimmed name and description in a request. Absent keys are left out."""
    found: dict[str, str | None] = {}
    for key in ('name', 'description'):
        # The key without the prefix is read last, so its value takes precedence.
        for said in (f'display_{key}', key):
            if said in requested:
                found[key] = None if requested[said] is None else requested[said].strip()
    return found


def _list(services: api_services.ApiServices, call: operation.Call, view: View) -> dict[str, Any]:
    keys = set(snapshot_queries.SORT_COLUMNS)
    if call.version < _SORTED_BY_NAME:
        keys.remove('name')
    page = listing.page(call, keys, services.settings.osapi_max_limit)
    wanted = _filters(services, call)
    counted = call.version >= listing.COUNTED and listing.flag(call, 'with_count')
    found = [] if wanted is None else snapshot_queries.list_page(services.database, wanted, page)
    answer: dict[str, Any] = {'snapshots': view(services, call, found),
                              **listing.links(call, 'snapshots_links', page, found)}
    if counted:
        answer['count'] = 0 if wanted is None else snapshot_queries.count(
            services.database, wanted)
    return answer


def _filters(services: api_services.ApiServices,
             call: operation.Call) -> snapshot_queries.Filters | None:
    """Return the filters of a list request, or None if no snapshot can match.

    :raises InvalidFilter: if a filter is unknown, see `listing.asked`
    :raises InvalidInput: if a value is malformed
    """
    own = frozenset(('with_count',)) if call.version >= listing.COUNTED else frozenset()
    asked = listing.asked(call, dataclasses.replace(
        _RULES.allowed_by(services.filters, 'snapshot'), own=own))
    nothing = asked.nothing or not asked.like.keys() <= _TEXTS
    equal = dict(asked.equal)
    metadata = listing.structure('metadata', equal.pop('metadata', '{}'))
    # Every snapshot counts against the quotas.
    consuming = equal.pop('consumes_quota', 'true')
    value = listing.boolean(consuming)
    if value is None:
        raise errors.InvalidInput(f"Invalid input received: 'consumes_quota = {consuming}'")
    if nothing or not value:
        return None
    project_id = None if asked.all_projects else call.context.project_id
    return snapshot_queries.Filters(project_id, equal, asked.like, metadata)
