"""Image operations of volumes: image lookup, upload and reimage.

Upload and reimage return before the volume service has copied the data.
"""
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.control import handoff
from blockattach.storage.control import volume_parts
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.domain import images
from blockattach.storage.domain import records

if TYPE_CHECKING:
    from blockattach.storage.images import client

LOG = oslo_log.getLogger(__name__)


class ImageControl:
    """Image operations for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts, glance: 'client.UserImages | None',
                 settings: images_conf.ImageSettings) -> None:
        """
        :param glance: client of Glance; None if Glance is not configured
        """
        self._parts = parts
        self._glance = glance
        self._settings = settings

    def find(self, caller: context.RequestContext, ref: str) -> images.Image:
        """Return an image of Glance that is visible to the caller.

        :param ref: ID, URL or name of the image
        :raises InvalidInput: no visible image matches ``ref``, or Glance is not configured
        :raises Conflict: several visible images have the name ``ref``
        :raises GlanceUnavailable: Glance does not respond
        """
        glance = self._asked()
        last = ref.rpartition('/')[2]
        if _is_id(last):
            try:
                return glance.show(caller, last)
            except errors.ImageNotFound:
                LOG.debug('Image not found by ID, searching by name%s', log.fields(image_id=last))
        found = glance.named(caller, ref)
        if len(found) > 1:
            raise errors.Conflict(f"Multiple matches found for '{errors.shortened(ref)}', use an "
                                  'ID to be more specific.')
        if not found:
            raise errors.InvalidInput(
                'Invalid image identifier or unable to access requested image.')
        return found[0]

    def upload(self, caller: context.RequestContext, volume: records.Volume,
               properties: Mapping[str, Any], force: bool) -> images.Image:
        """Create an image without data, and start the upload of a volume to this image.

        :param properties: fields and properties of the image, by the keys of the Image API
        :param force: True to allow a volume in use, if ``enable_force_upload`` is set
        :returns: the new image
        :raises InvalidVolume: the status of the volume does not allow an upload
        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        :raises InvalidInput: Glance rejects the image, or is not configured
        :raises GlanceUnavailable: Glance does not respond; an image without data may remain
        """
        self._asked()
        image = images.Image(
            id=self._parts.database.new_id(), status='queued', name=properties['name'],
            disk_format=properties['disk_format'], container_format=properties['container_format'])
        with self._parts.telemetry.verb('volumes.upload'):
            # The work is stored before the image is created, so that no image is created if the
            # status of the volume does not allow the upload.
            begun = volume_images.start_upload(
                self._parts.database, volume, image, force and self._settings.enable_force_upload,
                self._parts.settings.delete_seconds, caller.request_id)
            try:
                failpoints.point('control.images.after_upload')
                made = self._make_image(caller, volume.id, image.id, properties)
            except Exception as exc:
                # Otherwise the volume would be unusable until the deadline of the work.
                self._abandon_upload(begun, exc)
                raise
            handoff.start_work(self._parts, caller, begun.claim, begun.host)
        return made

    def _make_image(self, caller: context.RequestContext, volume_id: str, image_id: str,
                    requested: Mapping[str, Any]) -> images.Image:
        """Create the image of an upload whose work is stored.

        The errors are those of `upload`.
        """
        properties = images.properties_of(
            volume_images.metadata(self._parts.database, volume_id),
            self._settings.reserved_namespaces)
        made = self._asked().create(caller, image_id, {**properties, **requested})
        try:
            failpoints.point('control.images.after_image')
            # If Glance was slow, the deadline of the work may have passed. A volume service may
            # then have ended the upload, because the image did not exist.
            if not volume_images.is_uploaded_as(self._parts.database, volume_id, image_id):
                raise errors.GlanceUnavailable(reason=f'image {image_id} was not created in time')
        except Exception as exc:
            self._delete_image(caller, volume_id, image_id, exc)
            raise
        return made

    def _abandon_upload(self, begun: volume_images.Begun, reason: Exception) -> None:
        try:
            work_ends.fail(self._parts.database, begun.claim, reason=reason)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            LOG.debug('Upload of volume to image already ended%s',
                      log.fields(volume_id=begun.claim.resource_id))

    def _delete_image(self, caller: context.RequestContext, volume_id: str, image_id: str,
                      reason: Exception) -> None:
        LOG.warning('Deleting image of failed upload%s', log.fields(
            volume_id=volume_id, image_id=image_id, reason=reason))
        try:
            self._asked().delete(caller, image_id)
        except errors.GlanceUnavailable as exc:
            LOG.warning('Failed to delete incomplete image%s', log.fields(
                image_id=image_id, reason=exc))

    def reimage(self, caller: context.RequestContext, volume: records.Volume, image_id: str,
                reserved: bool) -> None:
        """Start a reimage, which replaces the data of a volume by the data of an image.

        :param reserved: True to allow a reserved volume
        :raises ImageNotFound: the image does not exist, or is not visible to the caller
        :raises InvalidInput: the image does not fit on the volume, or Glance is not configured
        :raises InvalidVolume: the status of the volume does not allow a reimage
        :raises Conflict: the volume has more than one attachment
        """
        image = self._asked().show(caller, image_id)
        images.check_fits(image, volume.size_gb)
        with self._parts.telemetry.verb('volumes.reimage'):
            begun = volume_images.start_reimage(
                self._parts.database, volume, image, reserved,
                self._parts.settings.delete_seconds, caller.request_id)
            failpoints.point('control.images.after_reimage')
            handoff.start_work(self._parts, caller, begun.claim, begun.host)

    def _asked(self) -> 'client.UserImages':
        if self._glance is None:
            raise errors.GlanceMissing()
        return self._glance


def _is_id(text: str) -> bool:
    try:
        # `uuid.UUID` also accepts texts in other forms, which may be names of images.
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
