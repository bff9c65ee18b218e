"""Handlers that create, show or delete a volume, or show its encryption metadata."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import settings
from blockattach.storage.api.resources.volumes import sources
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type
from blockattach.storage.policy import access
from blockattach.storage.policy import volumes as policies

_FORCED = V(3, 23)

# Keys of a create request that name an unsupported group or source: key, first version and error.
_SOURCES = (
    ('consistencygroup_id', operation.BASE, 'ConsistencyGroup %s could not be found.'),
    ('group_id', V(3, 13), 'Group %s could not be found.'),
    ('backup_id', V(3, 47), 'Backup %s could not be found.'),
)
_FALSE = frozenset((None, False, 'False', 'FALSE', 'false', '0', 'off', 'Off', 'OFF', 'no', 'No',
                    'NO', 'n', 'f'))


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show a volume."""
    return {'volume': views.one(services, call)}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create the row of a volume, and start the creation of the volume on a backend.

    :raises InvalidInput: if a value is invalid
    :raises NotFound: if a resource that the request names does not exist
    """
    if not call.context.project_id:
        raise errors.InvalidInput('Cannot create volume. A project-scoped token is required.')
    asked: Mapping[str, Any] = call.body['volume']
    if asked.get('multiattach') not in _FALSE:
        raise errors.InvalidInput(
            'multiattach parameter has been removed. The default behavior is to use multiattach '
            'enabled volume types. Contact your administrator to create a multiattach enabled '
            'volume type and use it to create multiattach volumes.')
    name = settings.text(asked, 'name')
    description = settings.text(asked, 'description')
    before = sources.made_before(services, call, asked)
    if before is not None:
        return {'volume': views.made(services, call, before)}
    image, asked = sources.of_image(services, call, asked)
    source = sources.find(services, call, asked)
    kind = find_kind(services, call, asked.get('volume_type') or (
        None if source is None else source.volume_type_id))
    # As in Cinder, this check precedes the check of the policy rule for multiattach.
    volume_type.check_usable(kind)
    _refuse_sources(asked, call.version)
    size_gb = _size(asked.get('size') or (None if source is None else source.size_gb))
    progress = sources.progress_of(image, size_gb)
    zone = sources.zone(services, asked.get('availability_zone'), source)
    sources.check(services, source, kind, size_gb, zone)
    if volume_type.is_multiattach(kind.extra_specs):
        services.policy.authorize(call.context, policies.MULTIATTACH)
    made = services.volumes.create(
        call.context, name, description, size_gb, kind, zone, asked.get('metadata') or {},
        call.named(), call.body.get(views.HINTS), source, progress)
    return {'volume': views.made(services, call, made)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Start the deletion of a volume and, if ``cascade`` is true, of its snapshots."""
    force = call.version >= _FORCED and listing.flag(call, 'force')
    if force:
        services.policy.authorize(call.context, policies.FORCE_DELETE, call.target.project_id)
    services.volumes.delete(call.context, call.target, force, listing.flag(call, 'cascade'))


def encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the encryption metadata of a volume.

    Nova requests the metadata before it attaches a volume, even if the volume is not encrypted.
    """
    return views.encryption(services, call.target)


def encryption_key(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one item of the encryption metadata of a volume.

    :raises NotFound: if the metadata have no such item
    """
    key = call.path['key']
    found = views.encryption(services, call.target)
    if key not in found:
        raise errors.NotFound()
    return {key: found[key]}


def find_kind(services: api_services.ApiServices, call: operation.Call,
              id_or_name: str | None) -> records.VolumeType:
    """Return the volume type that a request names, or the default volume type.

    :param id_or_name: ID or name of the type in the request; None or empty if the request names no
        type
    :raises NotFound: if the type does not exist, or the caller cannot see the type
    :raises ConfigurationError: if the configured default volume type does not exist
    """
    if not id_or_name:
        return access.default_volume_type(call.context, services.database,
                                          services.default_volume_type)
    return access.find_volume_type(call.context, services.database, id_or_name)


def _refuse_sources(requested: Mapping[str, Any], version: V) -> None:
    """Raise NotFound if the request names an unsupported group or source, such as a backup."""
    # cinderclient sends two of these keys with every request, usually with null.
    for key, since, absent in _SOURCES:
        if version >= since and requested.get(key) is not None:
            raise errors.NotFound(absent % errors.shortened(requested[key]))


def _size(size: int | str | None) -> int:
    if size is None or int(size) < 1:
        raise errors.InvalidInput(
            f'Invalid input received: Invalid volume size provided for create request: '
            f'{errors.shortened(size)} (size argument must be an integer (or string '
            f'representation of an integer) and greater than zero).')
    return int(size)


