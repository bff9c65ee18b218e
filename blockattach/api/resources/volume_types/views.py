"""Volume types as the API shows them to each kind of caller."""
from collections.abc import Mapping
from typing import Any

from blockattach.api import services as api_services
from blockattach.domain import records
from blockattach.domain import volume_type
from blockattach.http import operation
from blockattach.policy import volume_types as policies

_IS_PUBLIC = 'os-volume-type-access:is_public'


def changed(services: api_services.ApiServices, call: operation.Call,
            kind: records.VolumeType) -> dict[str, Any]:
    """A type as the answer to its change shows it."""
    shown: dict[str, Any] = {
        'id': kind.id,
        'name': kind.name,
        'description': kind.description,
        'is_public': kind.is_public,
    }
    if services.policy.allowed(call.context, policies.EXTRA_SPECS_ATTRIBUTE):
        shown['extra_specs'] = extra_specs(services, call, kind)
    return shown


def created(services: api_services.ApiServices, call: operation.Call,
            kind: records.VolumeType) -> dict[str, Any]:
    """A type as the answer to its creation shows it."""
    return {**changed(services, call, kind), _IS_PUBLIC: kind.is_public}


def detail(services: api_services.ApiServices, call: operation.Call,
           kind: records.VolumeType) -> dict[str, Any]:
    """All that the caller may know of a type."""
    shown = changed(services, call, kind)
    if services.policy.allowed(call.context, policies.QOS_SPECS_ATTRIBUTE):
        shown['qos_specs_id'] = kind.qos_specs_id
    if services.policy.allowed(call.context, policies.ACCESS_ATTRIBUTE):
        shown[_IS_PUBLIC] = kind.is_public
    return shown


def encryption(found: records.TypeEncryption) -> dict[str, Any]:
    """How the volumes of a type are encrypted, as the answer that makes it so shows it."""
    return {
        'encryption_id': found.id,
        'volume_type_id': found.volume_type_id,
        'provider': found.provider,
        'control_location': found.control_location,
        'cipher': found.cipher,
        'key_size': found.key_size,
    }


def encryption_detail(found: records.TypeEncryption | None) -> dict[str, Any]:
    """All that is known of it: nothing where the volumes are plain."""
    if found is None:
        return {}
    return {
        **encryption(found),
        'created_at': found.created_at,
        'updated_at': found.updated_at,
        'deleted': False,
        'deleted_at': None,
    }


def extra_specs(services: api_services.ApiServices, call: operation.Call,
                kind: records.VolumeType) -> Mapping[str, str]:
    """The extra specs that the caller may see: what they say of backends is not for users."""
    if services.policy.allowed(call.context, policies.EXTRA_SPECS_SENSITIVE):
        return kind.extra_specs
    return {key: value for key, value in kind.extra_specs.items()
            if key in volume_type.USER_VISIBLE_SPECS}
