"""Manageable snapshots: bring existing snapshots on a backend under management, in place."""
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import manageable
from blockattach.storage.api import metadata
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.snapshots import views
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.policy import access
from blockattach.storage.policy import managing as policies

_TEXT: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
MANAGE = {operation.BASE: schema.wrapped('snapshot', schema.obj({
    'name': _TEXT, 'description': _TEXT, 'volume_id': schema.UUID,
    'ref': manageable.REFERENCE, 'metadata': schema.nullable(metadata.PAIRS),
}, required=['ref', 'volume_id']))}


def manage(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create the row of a snapshot, and start to take over existing storage as this snapshot.

    The storage is on the backend of the volume that the request names.

    :raises VolumeNotFound: if the volume does not exist
    :raises InvalidInput: if a value is invalid
    """
    caller, asked = call.context, call.body['snapshot']
    if not caller.project_id:
        raise errors.InvalidInput(
            'Cannot create snapshot. A project-scoped token is required.')
    volume = access.volume(caller, services.database, asked['volume_id'])
    # The operation has no target, so the dispatcher has checked the rule for the caller's project.
    services.policy.authorize(caller, policies.MANAGE_SNAPSHOT, volume.project_id)
    reference = manageable.reference(asked['ref'])
    services.managing.check(volume)
    made = services.snapshots.create(caller, snapshots.Draft(
        volume=volume, project_id=caller.project_id, user_id=caller.user_id or '',
        name=asked.get('name'), description=asked.get('description'),
        metadata=asked.get('metadata') or {}, in_use=True, request_id=caller.request_id,
        reference=reference))
    return {'snapshot': views.made(call, made)}


def unmanage(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove a snapshot from the service, without deleting its data on the backend."""
    snapshots.unmanage(services.database, call.target)
