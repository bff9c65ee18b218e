"""What each operation on the extra specs of a type does."""
from collections.abc import Mapping
from typing import Any

from blockattach import errors
from blockattach.api import services as api_services
from blockattach.api.resources.volume_types import views
from blockattach.db import volume_types
from blockattach.domain import volume_type
from blockattach.http import operation


def check(specs: Mapping[str, str]) -> None:
    """Check extra specs before they are written: an invalid value would show too late.

    :raises InvalidInput: a value that its key cannot have
    """
    mode = specs.get(volume_type.MODE)
    if mode is not None and mode not in volume_type.MODES:
        raise errors.InvalidInput(
            f"Invalid input for field/attribute {volume_type.MODE}. Value: {mode}. A type is "
            f"'RO' (one server writes at a time, others read) or 'RW' (all write).")


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List what the caller may see."""
    return {'extra_specs': views.extra_specs(services, call, call.target)}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one; what the caller may not see is not there."""
    key = call.path['key']
    specs = views.extra_specs(services, call, call.target)
    if key not in specs:
        raise errors.ExtraSpecNotFound(volume_type_id=call.target.id, key=key)
    return {key: specs[key]}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Set some; answers those that were given."""
    check(call.body['extra_specs'])
    volume_types.set_extra_specs(services.database, call.target.id, call.body['extra_specs'])
    return {'extra_specs': call.body['extra_specs']}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Set one."""
    if call.path['key'] not in call.body:
        raise errors.InvalidInput('Request body and URI mismatch')
    check(call.body)
    volume_types.set_extra_specs(services.database, call.target.id, call.body)
    return dict(call.body)


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove one."""
    volume_types.delete_extra_spec(services.database, call.target.id, call.path['key'])
