"""What users say of a volume: its name and description, its metadata and that of its image, and
whether a server can boot from it. No backend is asked.
"""
from collections.abc import Mapping
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import metadata
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.db.volumes import volume_settings
from blockattach.storage.policy import access
from blockattach.storage.policy import volumes as policies

TEXTS = ('name', 'description')
_TEXT: schema.Schema = {'type': ['string', 'null']}
# Lengths are checked once they are trimmed.
_UPDATE = schema.wrapped('volume', schema.obj({
    **{f'{prefix}{name}': _TEXT for prefix in ('', 'display_') for name in TEXTS},
    'metadata': metadata.PAIRS}))
UPDATE = {operation.BASE: _UPDATE, operation.V(3, 53): schema.extend(
    _UPDATE, at='volume', anyOf=[{'required': [name]}
                                 for name in _UPDATE['properties']['volume']['properties']])}

METADATA = metadata.Noun(
    '/volumes/{id}', access.volume, volume_settings.change_metadata,
    lambda volume_id, key: errors.VolumeMetadataNotFound(volume_id=volume_id, key=key),
    get=policies.GET_METADATA, create=policies.CREATE_METADATA, update=policies.UPDATE_METADATA,
    delete=policies.DELETE_METADATA)

# As long as a column of MySQL's own text would hold.
_LONGEST_VALUE = 65535
SET_IMAGE_METADATA = schema.obj({'metadata': schema.obj(patternProperties={
    metadata.KEY: {'type': 'string', 'maxLength': _LONGEST_VALUE}})}, required=['metadata'])
UNSET_IMAGE_METADATA = schema.obj(
    {'key': {'type': 'string', 'minLength': 1, 'maxLength': 255}}, required=['key'])
IMAGE_METADATA = {operation.BASE: schema.wrapped('metadata', answers.TEXTS_BY_KEY)}
SET_BOOTABLE = schema.obj({'bootable': views.BOOLEAN}, required=['bootable'])


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Change name, description or all metadata of a volume."""
    asked = call.body['volume']
    values = {name: text(asked, name) for name in TEXTS
              if name in asked or f'display_{name}' in asked}
    changed = volume_settings.update(services.database, call.target, values,
                                     asked.get('metadata'))
    return {'volume': views.made(services, call, changed)}


def text(asked: Mapping[str, Any], key: str) -> str | None:
    """A name or a description of a request, trimmed; None: it has none.

    :raises InvalidInput: it is too long
    """
    found: str | None = asked.get(key, asked.get(f'display_{key}'))
    if found is None:
        return None
    found = found.strip()
    if len(found) > 255:
        raise errors.InvalidInput(f'{key} has {len(found)} characters, more than 255.')
    return found


def set_bootable(services: api_services.ApiServices, call: operation.Call) -> None:
    """Say whether a server can boot from the volume."""
    value = listing.boolean(call.body['os-set_bootable']['bootable'])
    volume_settings.update(services.database, call.target, {'bootable': bool(value)})


def show_image_metadata(services: api_services.ApiServices,
                        call: operation.Call) -> dict[str, Any]:
    """Show what is known of the image that the volume was made from.

    :raises ImageMetadataNotFound: nothing is
    """
    if not call.target.image_metadata:
        raise errors.ImageMetadataNotFound(volume_id=call.target.id)
    return {'metadata': call.target.image_metadata}


def set_image_metadata(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Add to what is known of it."""
    services.policy.authorize(call.context, policies.UPDATE_METADATA, call.target.project_id)
    added = call.body['os-set_image_metadata']['metadata']
    return {'metadata': volume_settings.change_image_metadata(
        services.database, call.target, lambda now: {**now, **added})}


def unset_image_metadata(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove one item.

    :raises ImageMetadataNotFound: it is not there
    """
    services.policy.authorize(call.context, policies.DELETE_METADATA, call.target.project_id)
    key = call.body['os-unset_image_metadata']['key']

    def without(now: metadata.Pairs) -> metadata.Pairs:
        if key not in now:
            raise errors.ImageMetadataNotFound(volume_id=call.target.id)
        return {name: value for name, value in now.items() if name != key}
    volume_settings.change_image_metadata(services.database, call.target, without)
