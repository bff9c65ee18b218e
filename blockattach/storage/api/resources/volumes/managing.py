"""Manageable volumes: bring existing volumes on a backend under management, in place."""
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import listing
from blockattach.storage.api import manageable
from blockattach.storage.api import metadata
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import handlers
from blockattach.storage.api.resources.volumes import settings
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.control import managing
from blockattach.storage.domain import volume_type

_TEXT: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_BASE = schema.wrapped('volume', schema.obj({
    'name': _TEXT, 'description': _TEXT, 'availability_zone': _NAME,
    'bootable': views.BOOLEAN, 'volume_type': _NAME,
    # Clients that pass a cluster send a null host.
    'host': {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 255},
    'ref': manageable.REFERENCE, 'metadata': schema.nullable(metadata.PAIRS),
}, required=['ref']))
MANAGE = {operation.BASE: _BASE, manageable.BY_CLUSTER: schema.extend(
    _BASE, {'cluster': _NAME}, at='volume')}


def manage(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create the row of a volume, and start to take over existing storage as this volume.

    :raises InvalidInput: if a value is invalid
    """
    asked = call.body['volume']
    place = manageable.place(call, asked, manageable.BY_CLUSTER)
    try:
        kind = handlers.find_kind(services, call, asked.get('volume_type'))
    except errors.NotFound:
        raise errors.InvalidInput(
            f"Invalid volume type: Cannot find requested "
            f"'{errors.shortened(asked['volume_type'])}' volume type") from None
    volume_type.check_usable(kind)
    made = services.managing.manage(call.context, place, managing.Wish(
        kind=kind, reference=manageable.reference(asked['ref']),
        name=settings.text(asked, 'name'), description=settings.text(asked, 'description'),
        metadata=asked.get('metadata') or {},
        bootable=bool(listing.boolean(asked.get('bootable', False))),
        availability_zone=asked.get('availability_zone') or None))
    return {'volume': views.made(services, call, made)}


def unmanage(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove a volume from the service, without deleting its data on the backend."""
    services.managing.unmanage(call.context, call.target)
