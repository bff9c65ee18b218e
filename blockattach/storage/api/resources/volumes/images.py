"""Images of volumes: creation from an image, os-volume_upload_image and os-reimage."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.domain import images
from blockattach.storage.policy import access
from blockattach.storage.policy import volumes as policies

KEYS = ('image_id', 'imageRef')
"""Keys of a create request that name the image of the new volume."""
OTHER_SOURCES = ('snapshot_id', 'source_volid')
"""Keys of a create request that name another source than an image."""
_MORE = operation.V(3, 1)
_RESERVED = 'reserved'

_NAME: schema.Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_UPLOAD = schema.obj({
    'image_name': _NAME,
    'force': views.BOOLEAN,
    'disk_format': {'enum': list(images.UPLOADED_FORMATS)},
    'container_format': {'type': ['string', 'null'], 'minLength': 0, 'maxLength': 255},
}, required=['image_name'])
_UPLOAD_MORE = schema.extend(_UPLOAD, {
    'visibility': {'enum': ['community', 'public', 'private', 'shared']},
    'protected': views.BOOLEAN,
})
UPLOAD = {operation.BASE: schema.wrapped('os-volume_upload_image', _UPLOAD),
          _MORE: schema.wrapped('os-volume_upload_image', _UPLOAD_MORE)}
_UPLOADED = schema.obj({
    'id': schema.UUID,
    'updated_at': answers.NULLABLE_TIME,
    'status': answers.TEXT,
    'display_description': answers.NULLABLE_TEXT,
    'size': answers.INTEGER,
    'volume_type': schema.obj({
        'id': schema.UUID, 'name': answers.TEXT, 'description': answers.NULLABLE_TEXT,
        'is_public': answers.BOOLEAN}, required=['id', 'name']),
    'image_id': schema.UUID,
    'container_format': answers.TEXT,
    'disk_format': answers.TEXT,
    'image_name': answers.TEXT,
    'protected': answers.BOOLEAN,
    'visibility': answers.TEXT,
}, required=['id', 'updated_at', 'status', 'display_description', 'size', 'volume_type',
             'image_id', 'container_format', 'disk_format', 'image_name'])
UPLOADED = {operation.BASE: schema.wrapped('os-volume_upload_image', _UPLOADED)}
REIMAGE = schema.obj({'image_id': {**schema.UUID, 'maxLength': 36},
                      'reimage_reserved': views.BOOLEAN}, required=['image_id'])


def find_image(services: api_services.ApiServices, call: operation.Call,
               requested: Mapping[str, Any]) -> images.Image | None:
    """Return the image from which a volume is to be created.

    :returns: None if the request names no image, or names a snapshot or a volume in addition
    :raises InvalidInput: if the image does not exist, or Glance is not configured
    :raises Conflict: if several images have the requested name
    :raises NotAuthorized: if the caller may not create volumes from images
    """
    ref = next((requested[key] for key in KEYS if requested.get(key)), None)
    if ref is None:
        return None
    services.policy.authorize(call.context, policies.CREATE_FROM_IMAGE)
    if any(requested.get(key) is not None for key in OTHER_SOURCES):
        # `sources.find` rejects a request with two sources, so Glance is not called.
        return None
    return services.images.find(call.context, str(ref))


def with_type(services: api_services.ApiServices, call: operation.Call, image: images.Image,
              requested: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a create request, with the volume type that the image names.

    A volume type in the request takes precedence.
    """
    kind = image.properties.get(images.VOLUME_TYPE)
    if not kind or requested.get('volume_type'):
        return requested
    try:
        return {**requested, 'volume_type': access.find_volume_type(
            call.context, services.database, kind).id}
    except errors.NotFound:
        # Images may come from another cloud, whose types do not exist here.
        return requested


def progress_of(image: images.Image | None, size_gb: int) -> dict[str, Any] | None:
    """Return the properties of an image to store with the work of creating a volume.

    :returns: None if the volume is not created from an image
    :raises InvalidInput: if the image does not fit into ``size_gb`` GiB
    """
    if image is None:
        return None
    images.check_fits(image, size_gb)
    return volume_images.progress_of(image)


def upload(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create an image, and start to upload a volume to this image (os-volume_upload_image)."""
    asked, volume = call.body['os-volume_upload_image'], call.target
    wanted = {'name': asked['image_name'],
              'disk_format': asked.get('disk_format') or images.RAW,
              'container_format': asked.get('container_format') or images.BARE}
    if volume.encrypted and (wanted['disk_format'], wanted['container_format']) != (
            images.RAW, images.BARE):
        raise errors.InvalidInput(
            "An encrypted volume uploaded as an image must use 'raw' disk_format and 'bare' "
            'container_format, which are the defaults for these options.')
    if wanted['container_format'] not in images.CONTAINERS:
        raise errors.InvalidInput(
            f'Invalid input received: container_format '
            f"{errors.shortened(wanted['container_format'])} is not supported. Supported formats "
            f"are {', '.join(images.CONTAINERS)}.")
    if wanted['disk_format'] == 'ploop':
        raise errors.InvalidInput('Invalid input received: disk_format ploop is not supported.')
    if call.version >= _MORE:
        wanted |= {'visibility': asked.get('visibility', 'private'),
                   'protected': bool(listing.boolean(asked.get('protected', False)))}
        if wanted['visibility'] == images.PUBLIC:
            services.policy.authorize(call.context, policies.UPLOAD_PUBLIC, volume.project_id)
    image = services.images.upload(call.context, volume, wanted,
                                   bool(listing.boolean(asked.get('force', False))))
    kind = volume_types.get(services.database, volume.volume_type_id)
    # The record was read before the status changed.
    shown = {'id': volume.id, 'updated_at': volume.updated_at, 'status': 'uploading',
             'display_description': volume.description, 'size': volume.size_gb,
             'volume_type': {'id': kind.id, 'name': kind.name, 'description': kind.description,
                             'is_public': kind.is_public},
             'image_id': image.id, 'container_format': image.container_format,
             'disk_format': image.disk_format, 'image_name': image.name}
    if image.protected is not None:
        shown['protected'] = image.protected
    if image.visibility is not None:
        shown['visibility'] = image.visibility
    return {'os-volume_upload_image': shown}


def reimage(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start to replace the data of a volume with the data of an image (os-reimage)."""
    asked, volume = call.body['os-reimage'], call.target
    if volume.status == _RESERVED:
        services.policy.authorize(call.context, policies.REIMAGE_RESERVED, volume.project_id)
    services.images.reimage(call.context, volume, asked['image_id'],
                            bool(listing.boolean(asked.get('reimage_reserved', False))))
