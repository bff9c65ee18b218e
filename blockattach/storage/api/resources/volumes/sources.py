"""Sources of new volumes: a snapshot, another volume or an image."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform.http import operation
from blockattach.storage import errors
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import images
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services as service_queries
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import sources as source_queries
from blockattach.storage.domain import images as domain_images
from blockattach.storage.domain import records
from blockattach.storage.domain import sources
from blockattach.storage.policy import access

progress_of = images.progress_of
_KEYS = images.OTHER_SOURCES
_IMAGES = images.KEYS
_BOOTED = operation.V(3, 46)
"""First version that creates a volume from the snapshot that an image refers to.

Nova creates such images of servers that boot from a volume. The properties of the image contain
the ID of the snapshot, and the image itself has no data.
"""


def made_before(services: api_services.ApiServices, call: operation.Call,
                requested: Mapping[str, Any]) -> records.Volume | None:
    """Return the volume that an earlier request with the same Idempotency-Key has created.

    The volume is looked up before the source, because the source may have been deleted since.

    :returns: None if no volume was created, or if this request has no Idempotency-Key or names no
        source
    :raises VolumeNotFound: if the volume is deleted
    :raises IdempotencyKeyReused: if the key was used with another body
    """
    if all(requested.get(key) is None for key in (*_KEYS, *_IMAGES)):
        # `VolumeControl.create` finds the volume of a repeated request.
        return None
    return services.volumes.made_before(call.named())


def of_image(services: api_services.ApiServices, call: operation.Call,
             requested: Mapping[str, Any],
             ) -> tuple[domain_images.Image | None, Mapping[str, Any]]:
    """Return the image from which a volume is to be created, and the values of the request.

    The image can add a volume type to the values. If the image refers to a snapshot, the snapshot
    replaces the image in the values.

    :returns: image and values. The image is None if the request names no image, or if a snapshot
        replaces the image.
    :raises InvalidInput: if the image does not exist, or Glance is not configured
    :raises Conflict: if several images have the requested name
    :raises NotFound: if the image refers to a snapshot that the caller cannot see
    """
    image = images.find_image(services, call, requested)
    if image is None:
        return None, requested
    snapshot_id = image.boot_snapshot
    if snapshot_id is not None:
        # Checked at every version, because such an image is useless without the snapshot.
        try:
            _snapshot(services, call, snapshot_id)
        except errors.SnapshotNotFound:
            raise errors.NotFound(
                'Nova specific image is found, but boot volume snapshot id:'
                f'{errors.shortened(snapshot_id)} not found.') from None
        if call.version >= _BOOTED:
            others = {key: value for key, value in requested.items() if key not in _IMAGES}
            return None, {**others, 'snapshot_id': snapshot_id}
    return image, images.with_type(services, call, image, requested)


def find(services: api_services.ApiServices, call: operation.Call,
         requested: Mapping[str, Any]) -> sources.Source | None:
    """Return the source volume or source snapshot, or None if the request names neither.

    :raises VolumeNotFound, SnapshotNotFound: if the source does not exist, or the caller cannot
        see the source
    :raises InvalidInput: if the request names more than one source
    """
    snapshot_id, volume_id = (requested.get(key) for key in _KEYS)
    found = []
    if snapshot_id is not None:
        found.append(_snapshot(services, call, snapshot_id))
    if volume_id is not None:
        found.append(sources.of_volume(access.volume(call.context, services.database, volume_id)))
    if len(found) + any(requested.get(key) for key in _IMAGES) > 1:
        raise errors.InvalidInput('Invalid input received: May specify only one of backup, '
                                  'imageRef, snapshot, source volume')
    return found[0] if found else None


def _snapshot(services: api_services.ApiServices, call: operation.Call,
              snapshot_id: str) -> sources.Source:
    found = source_queries.snapshot(services.database, snapshot_id)
    if not access.is_visible(call.context, found.project_id):
        raise errors.SnapshotNotFound(snapshot_id=snapshot_id)
    return found


def zone(services: api_services.ApiServices, named: str | None,
         source: sources.Source | None) -> str:
    """Return the availability zone of a new volume.

    The zone in the request takes precedence over the zone of the source, and both over the default
    zone.

    :param named: zone in the request; None if the request names no zone
    :raises InvalidInput: if no service is in the zone that the request names
    """
    usual = services.availability_zone
    if named is None:
        return usual if source is None else source.availability_zone
    if named != usual and all(
            named != service.availability_zone for service in service_queries.list_all(
                services.database, services.service_down_time)):
        raise errors.InvalidInput(f"Availability zone '{errors.shortened(named)}' is invalid.")
    return named


def check(services: api_services.ApiServices, source: sources.Source | None,
          kind: records.VolumeType, size_gb: int, zone: str) -> None:
    """Check that the type, the size and the zone of a new volume are compatible with its source.

    :param source: None for a volume without a source, which passes the check
    :raises InvalidInput: if the type, the size or the zone is not compatible
        (`blockattach.storage.domain.sources`)
    :raises InvalidVolume, InvalidSnapshot: if the status of the source does not allow the creation
    """
    if source is None:
        return
    if kind.id != source.volume_type_id:
        # The pools are read only if there are two types to compare.
        hosts = {pool.host for pool in pools.list_all(services.database,
                                                      services.service_down_time)}
        sources.check_type(source, volume_types.get(services.database, source.volume_type_id),
                           kind, len(hosts))
    sources.check(source, size_gb)
    if services.settings.cloned_volume_same_az:
        sources.check_zone(source, zone)
