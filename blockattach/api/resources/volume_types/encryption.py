"""What each operation on the encryption of a type does."""
from typing import Any

from blockattach import errors
from blockattach.api import services as api_services
from blockattach.api.resources.volume_types import views
from blockattach.db import volume_type_encryptions
from blockattach.http import operation

_WHICHEVER = 'provider'
"""What stock clients send instead of the id: a type has one encryption."""


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show all of it, or nothing."""
    return views.encryption_detail(call.target.encryption)


def fact(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one fact."""
    key = call.path['key']
    shown = views.encryption_detail(call.target.encryption)
    if key not in shown:
        raise errors.VolumeTypeEncryptionNotFound(volume_type_id=call.target.id)
    return {key: shown[key]}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Let the volumes of a type be encrypted."""
    made = volume_type_encryptions.create(services.database, call.target.id, **_asked(call))
    return {'encryption': views.encryption(made)}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Change what is named; answers that."""
    changes = _asked(call)
    volume_type_encryptions.update(services.database, call.target.id, _named(call), changes)
    return {'encryption': changes}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Let the volumes of a type be plain again."""
    volume_type_encryptions.delete(services.database, call.target.id, _named(call))


def _asked(call: operation.Call) -> dict[str, Any]:
    """The facts that were given; clients send the size of the key as a text too."""
    asked: dict[str, Any] = call.body['encryption']
    size = asked.get('key_size')
    return asked if size is None else {**asked, 'key_size': int(size)}


def _named(call: operation.Call) -> str | None:
    encryption_id = call.path['encryption_id']
    return None if encryption_id == _WHICHEVER else encryption_id
