"""Server metadata: ``/servers/{id}/metadata``."""
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute.api import services as compute_services
from blockattach.platform.http import operation

_MOST = 128
_CHANGEABLE = (lifecycle.VmState.ACTIVE, lifecycle.VmState.STOPPED)

Items = Mapping[str, str]


def index(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List all metadata items of a server."""
    return {'metadata': call.target.metadata}


def show(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Show a metadata item of a server.

    :raises NotFound: the key does not exist
    """
    key = call.path['key']
    return {'meta': {key: _found(call.target.metadata, key)}}


def create(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Create or update metadata items of a server, and return all items."""
    asked: Items = call.body['metadata']
    return {'metadata': _change(services, call, lambda there: {**there, **asked})}


def replace(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Replace all metadata items of a server."""
    return {'metadata': _change(services, call, lambda _there: call.body['metadata'])}


def update(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Create or update a metadata item of a server.

    :raises ServerRequestInvalid: the request body does not contain the key in the path
    """
    asked: Items = call.body['meta']
    if call.path['key'] not in asked:
        raise errors.ServerRequestInvalid(reason='Request body and URI mismatch')
    _change(services, call, lambda there: {**there, **asked})
    return {'meta': asked}


def delete(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Delete a metadata item of a server.

    :raises NotFound: the key does not exist
    """
    def without(there: Items) -> Items:
        _found(there, call.path['key'])
        return {key: value for key, value in there.items() if key != call.path['key']}

    _change(services, call, without)


def check(items: Items) -> Items:
    """Return the metadata items of a server, if their number is within the quota of 128.

    :raises MetadataLimitExceeded: the number of items exceeds the quota
    """
    if len(items) > _MOST:
        raise errors.MetadataLimitExceeded(limit=_MOST)
    return items


def _change(services: compute_services.ComputeServices, call: operation.Call,
            change: Callable[[Items], Items]) -> Items:
    server: records.Server = call.target
    if server.vm_state not in _CHANGEABLE:
        raise errors.ServerStateConflict(action='update metadata', server_id=server.id,
                                         attribute='vm_state', state=server.vm_state.value)
    return services.database.change_metadata(server.id, lambda there: check(change(there)))


def _found(items: Items, key: str) -> str:
    if key not in items:
        raise errors.NotFound('Metadata item was not found')
    return items[key]
