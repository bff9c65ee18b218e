"""What each operation on volume types, their extra specs and their encryption does."""
import dataclasses
from collections.abc import Mapping
from typing import Any

from blockattach import errors
from blockattach.api import listing
from blockattach.api import services as api_services
from blockattach.api.resources.volume_types import views
from blockattach.db import volume_types
from blockattach.domain import volume_type
from blockattach.http import operation
from blockattach.http.operation import V

_WHICHEVER = 'provider'
"""What stock clients send instead of the id of an encryption: a type has one."""
_BY_EXTRA_SPECS = V(3, 52)
_FILTERS = listing.FilterRules(known=frozenset(('name', 'is_public', 'extra_specs')))
_FIRST_FILTERS = frozenset(('name', 'is_public'))


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the types that the caller may see."""
    page = listing.page(call, volume_types.SORT_COLUMNS, services.settings.osapi_max_limit)
    is_public = _public(call)
    asked = _asked(call)
    wanted = _extra_specs(asked)
    if asked.nothing or not _may_ask(call, wanted):
        return {'volume_types': []}
    found = volume_types.list_page(services.database, is_public, wanted,
                                   asked.equal.get('name'), page)
    return {'volume_types': [views.detail(services, call, kind) for kind in found],
            **listing.links(call, 'volume_type_links', page, found)}


def default(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the type that a volume gets which names none."""
    found = volume_types.get_by_name(services.database, services.default_volume_type)
    return {'volume_type': views.detail(services, call, found)}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one type."""
    return {'volume_type': views.detail(services, call, call.target)}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Make a type."""
    asked: Mapping[str, Any] = call.body['volume_type']
    _check_specs(asked.get('extra_specs') or {})
    made = volume_types.create(
        services.database, asked['name'].strip(), asked.get('description'),
        _truth(asked.get('os-volume-type-access:is_public', True)),
        asked.get('extra_specs') or {})
    return {'volume_type': views.created(services, call, made)}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Change a type."""
    asked: Mapping[str, Any] = call.body['volume_type']
    name, is_public = asked.get('name'), asked.get('is_public')
    if name is None and is_public is None and asked.get('description') is None:
        raise errors.InvalidInput(
            'Specify volume type name, description, is_public or a combination thereof.')
    if name is not None and not name.strip():
        raise errors.InvalidInput('Volume type name can not be empty.')
    if name is not None and name.strip() != call.target.name \
            and call.target.name == services.default_volume_type:
        # Volumes that name no type find theirs by this name, as the operator has configured it.
        raise errors.InvalidInput(
            f'The volume type {call.target.id} is a default volume type and cannot be renamed.')
    changed = volume_types.update(
        services.database, call.target.id, name and name.strip(), asked.get('description'),
        None if is_public is None else _truth(is_public))
    return {'volume_type': views.changed(services, call, changed)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove a type that no volume has."""
    volume_types.delete(services.database, call.target.id, services.default_volume_type)


def list_specs(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List what the caller may see."""
    return {'extra_specs': views.extra_specs(services, call, call.target)}


def show_spec(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one; what the caller may not see is not there."""
    key = call.path['key']
    specs = views.extra_specs(services, call, call.target)
    if key not in specs:
        raise errors.ExtraSpecNotFound(volume_type_id=call.target.id, key=key)
    return {key: specs[key]}


def create_specs(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Set some; answers those that were given."""
    _check_specs(call.body['extra_specs'])
    volume_types.set_extra_specs(services.database, call.target.id, call.body['extra_specs'])
    return {'extra_specs': call.body['extra_specs']}


def update_spec(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Set one."""
    if call.path['key'] not in call.body:
        raise errors.InvalidInput('Request body and URI mismatch')
    _check_specs(call.body)
    volume_types.set_extra_specs(services.database, call.target.id, call.body)
    return dict(call.body)


def delete_spec(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove one."""
    volume_types.delete_extra_spec(services.database, call.target.id, call.path['key'])


def show_encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show all of it, or nothing."""
    return views.encryption_detail(call.target.encryption)


def encryption_fact(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one fact."""
    key = call.path['key']
    shown = views.encryption_detail(call.target.encryption)
    if key not in shown:
        raise errors.VolumeTypeEncryptionNotFound(volume_type_id=call.target.id)
    return {key: shown[key]}


def create_encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Let the volumes of a type be encrypted."""
    made = volume_types.create_encryption(services.database, call.target.id,
                                          **_asked_encryption(call))
    return {'encryption': views.encryption(made)}


def update_encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Change what is named; answers that."""
    changes = _asked_encryption(call)
    volume_types.update_encryption(services.database, call.target.id, _named(call), changes)
    return {'encryption': changes}


def delete_encryption(services: api_services.ApiServices, call: operation.Call) -> None:
    """Let the volumes of a type be plain again."""
    volume_types.delete_encryption(services.database, call.target.id, _named(call))


def _asked(call: operation.Call) -> listing.Asked:
    """Before types could be filtered by extra specs, an unknown filter was never an error."""
    if call.version >= _BY_EXTRA_SPECS:
        return listing.asked(call, _FILTERS)
    ignored = frozenset(call.query) - _FIRST_FILTERS
    return listing.asked(call, dataclasses.replace(_FILTERS, own=ignored))


def _extra_specs(asked: listing.Asked) -> dict[str, str]:
    text = asked.equal.get('extra_specs')
    return {} if text is None else listing.structure('extra_specs', text)


def _may_ask(call: operation.Call, wanted: Mapping[str, str]) -> bool:
    """A filter by sensitive extra specs would disclose them: for users it matches nothing."""
    return bool(call.context.is_admin) or wanted.keys() <= volume_type.USER_VISIBLE_SPECS


def _public(call: operation.Call) -> bool | None:
    """Whether public types, private ones or (None) both shall be listed."""
    text = call.query.get('is_public')
    if text is None or not call.context.is_admin:
        return True
    if text.lower() == 'none':
        return None
    value = listing.boolean(text)
    if value is None:
        raise errors.InvalidInput(f'Invalid is_public filter [{errors.shortened(text)}]')
    return value


def _truth(value: bool | str) -> bool:
    return value if isinstance(value, bool) else bool(listing.boolean(value))


def _check_specs(specs: Mapping[str, str]) -> None:
    """Check extra specs before they are written: an invalid value would show too late.

    :raises InvalidInput: a value that its key cannot have
    """
    mode = specs.get(volume_type.MODE)
    if mode is not None and mode not in volume_type.MODES:
        raise errors.InvalidInput(
            f"Invalid input for field/attribute {volume_type.MODE}. Value: {mode}. A type is "
            f"'RO' (one server writes at a time, others read) or 'RW' (all write).")


def _asked_encryption(call: operation.Call) -> dict[str, Any]:
    """The facts that were given; clients send the size of the key as a text too."""
    asked: dict[str, Any] = call.body['encryption']
    size = asked.get('key_size')
    return asked if size is None else {**asked, 'key_size': int(size)}


def _named(call: operation.Call) -> str | None:
    encryption_id = call.path['encryption_id']
    return None if encryption_id == _WHICHEVER else encryption_id
