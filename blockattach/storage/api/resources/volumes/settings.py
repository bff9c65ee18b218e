"""Updates of volumes that need no call to a backend.

They change the name, the description, the metadata, the image metadata and the bootable flag.
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
from blockattach.storage.db.volumes import volumes
from blockattach.storage.policy import access
from blockattach.storage.policy import volumes as policies

TEXTS = ('name', 'description')
_TEXT: schema.Schema = {'type': ['string', 'null']}
# `text` checks the lengths after it has trimmed the values.
_UPDATE = schema.wrapped('volume', schema.obj({
    **{f'{prefix}{name}': _TEXT for prefix in ('', 'display_') for name in TEXTS},
    'metadata': metadata.PAIRS}))
# From 3.53 on, an update must have at least one of the keys.
UPDATE = {operation.BASE: _UPDATE, operation.V(3, 53): schema.extend(
    _UPDATE, at='volume', anyOf=[{'required': [name]}
                                 for name in _UPDATE['properties']['volume']['properties']])}

METADATA = metadata.Noun(
    '/volumes/{id}', access.volume, volumes.change_metadata,
    lambda volume_id, key: errors.VolumeMetadataNotFound(volume_id=volume_id, key=key),
    get=policies.GET_METADATA, create=policies.CREATE_METADATA, update=policies.UPDATE_METADATA,
    delete=policies.DELETE_METADATA)

# Limit of a TEXT column of MySQL.
_LONGEST_VALUE = 65535
SET_IMAGE_METADATA = schema.obj({'metadata': schema.obj(patternProperties={
    metadata.KEY: {'type': 'string', 'maxLength': _LONGEST_VALUE}})}, required=['metadata'])
UNSET_IMAGE_METADATA = schema.obj(
    {'key': {'type': 'string', 'minLength': 1, 'maxLength': 255}}, required=['key'])
IMAGE_METADATA = {operation.BASE: schema.wrapped('metadata', answers.TEXTS_BY_KEY)}
SET_BOOTABLE = schema.obj({'bootable': views.BOOLEAN}, required=['bootable'])


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update the name or the description of a volume, or replace its metadata."""
    asked = call.body['volume']
    values = {name: text(asked, name) for name in TEXTS
              if name in asked or f'display_{name}' in asked}
    changed = volumes.update(services.database, call.target, values, asked.get('metadata'))
    return {'volume': views.made(services, call, changed)}


def text(requested: Mapping[str, Any], key: str) -> str | None:
    """Return the trimmed name or description in a request, or None if the value is absent or null.

    :param key: ``name`` or ``description``. The older key with the prefix ``display_`` is used if
        the key is absent
    :raises InvalidInput: if the text has more than 255 characters
    """
    found: str | None = requested.get(key, requested.get(f'display_{key}'))
    if found is None:
        return None
    found = found.strip()
    if len(found) > 255:
        raise errors.InvalidInput(f'{key} has {len(found)} characters, more than 255.')
    return found


def set_bootable(services: api_services.ApiServices, call: operation.Call) -> None:
    """Set the bootable flag of a volume."""
    value = listing.boolean(call.body['os-set_bootable']['bootable'])
    volumes.update(services.database, call.target, {'bootable': bool(value)})


def show_image_metadata(services: api_services.ApiServices,
                        call: operation.Call) -> dict[str, Any]:
    """Show the image metadata of a volume.

    :raises ImageMetadataNotFound: if the volume has no image metadata
    """
    if not call.target.image_metadata:
        raise errors.ImageMetadataNotFound(volume_id=call.target.id)
    return {'metadata': call.target.image_metadata}


def set_image_metadata(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create or update image metadata items of a volume, and return all image metadata.

    :raises NotAuthorized: if the caller may not update the metadata of the volume
    """
    # As in Cinder, the rule for the metadata of the volume applies in addition to the rule of the
    # operation.
    services.policy.authorize(call.context, policies.UPDATE_METADATA, call.target.project_id)
    added = call.body['os-set_image_metadata']['metadata']
    return {'metadata': volumes.change_image_metadata(
        services.database, call.target, lambda now: {**now, **added})}


def unset_image_metadata(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete an image metadata item of a volume.

    :raises ImageMetadataNotFound: if the volume has no such item
    :raises NotAuthorized: if the caller may not delete metadata of the volume
    """
    services.policy.authorize(call.context, policies.DELETE_METADATA, call.target.project_id)
    key = call.body['os-unset_image_metadata']['key']

    def without(now: metadata.Pairs) -> metadata.Pairs:
        if key not in now:
            raise errors.ImageMetadataNotFound(volume_id=call.target.id)
        return {name: value for name, value in now.items() if name != key}
    volumes.change_image_metadata(services.database, call.target, without)
