"""Image cache of a backend: volumes with the data of images, from which other volumes are cloned.

After a failure of the cache, the image is downloaded as without a cache, so the creation of a
user's volume does not fail. The cached volume of an image is filled after the volume of the user,
from the same download. A separate work item fills the cached volume. If another process takes over
this work item, it downloads the image itself.
"""
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db.volumes import cached_images
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import image_cache
from blockattach.storage.domain import records
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs

if TYPE_CHECKING:
    from blockattach.storage.images import moving

LOG = oslo_log.getLogger(__name__)

_KEPT = 'kept'
"""Key of the path of the downloaded image, in the progress of the work item that fills the volume
of a cached image."""


class Kept(NamedTuple):
    """Work item whose volume was filled from an image, and the downloaded image in raw form."""

    item: volume_queries.AtWork
    disk: 'moving.Kept'


class ImageCache:
    """Image cache of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._settings = context.cache

    def clone(self, item: volume_queries.AtWork,
              copied: Callable[[int], None]) -> volume_queries.AtWork:
        """Create a volume by cloning the cached volume of its image, if possible.

        :param copied: see `blockattach.storage.drivers.base.Copied`
        :returns: the work item. Its ``volume.source_volid`` is the id of the cached volume, or
            None if nothing was created and the image must be downloaded.
        :raises verbs.Left: if this process stops before the copy is finished
        :raises StaleGeneration: if another process has taken over the work
        """
        source_id = item.volume.source_volid
        try:
            source_id = source_id or self._hold(item)
            if source_id is None:
                return item
            failpoints.point('volume.image_cache.before_clone')
            self._backend.clone(volume_queries.get_bare(self._database, source_id), item.volume,
                                copied)
        except (verbs.Left, errors.StaleGeneration):
            raise
        except Exception as exc:
            LOG.warning('Failed to create volume from cached image, downloading%s', log.fields(
                volume_id=item.volume.id, source_volid=source_id, reason=exc),
                exc_info=not errors.is_known(exc))
            # Released first, because the source of a volume in creation cannot be deleted.
            cached_images.release(self._database, item.claim)
            # A full pool (BackendFull) does not mean that the cached volume is unusable.
            if source_id is not None and type(exc) is errors.BackendRefused:
                self._remove(source_id)
            return _made_of(item, None)
        failpoints.point('volume.image_cache.after_clone')
        self._backend.telemetry.image_cache(self._backend.name, 'hit')
        return _made_of(item, source_id)

    def keeps(self, item: volume_queries.AtWork) -> bool:
        """Return True if the image of a new volume should be cached."""
        return (self._settings is not None and _KEPT not in item.progress
                and image_cache.is_cacheable(volume_images.about(item), item.volume))

    def begin(self, kept: Kept) -> records.Claim | None:
        """Start to cache the image from which a volume was filled, unless the image is cached.

        :returns: claim of the work that fills the cached volume; None if the image is cached
            already or cannot be cached
        """
        claim = None
        try:
            failpoints.point('volume.image_cache.before_begin')
            claim = self._begin(kept)
        except Exception as exc:
            LOG.warning('Failed to cache image%s', log.fields(
                image_id=volume_images.about(kept.item).id, reason=exc),
                exc_info=not errors.is_known(exc))
        if claim is None:
            kept.disk.drop()
        return claim

    def kept(self, item: volume_queries.AtWork) -> str | None:
        """Return the path of the downloaded image with which a cached volume is to be filled.

        :returns: None if the volume of the work item is not that of a cached image
        """
        return item.progress.get(_KEPT)

    def failed(self, claim: records.Claim) -> bool:
        """Start to delete the volume of a cached image that cannot be filled.

        :returns: False if the volume is not that of a cached image, or cannot be deleted now
        :raises StaleGeneration: if another process has taken over the work
        """
        is_deleted = cached_images.failed(self._database, claim, 0)
        if is_deleted:
            LOG.warning('Failed to cache image%s', log.fields(volume_id=claim.resource_id))
        return is_deleted

    def _hold(self, item: volume_queries.AtWork) -> str | None:
        image = volume_images.about(item)
        # An earlier attempt may have created the volume without data, and a clone would leave an
        # existing volume as it is.
        if self._settings is None or item.attempts > 1 \
                or not image_cache.is_cacheable(image, item.volume):
            return None
        source_id = cached_images.hold(self._database, item.claim, item.volume, image)
        if source_id is None:
            LOG.info('Image not cached, downloading%s', log.fields(
                volume_id=item.volume.id, image_id=image.id))
            self._backend.telemetry.image_cache(self._backend.name, 'miss')
        return source_id

    def _begin(self, kept: Kept) -> records.Claim | None:
        settings, volume, owner = self._settings, kept.item.volume, kept.item.claim.owner
        image = volume_images.about(kept.item)
        assert settings is not None and owner is not None
        gone = image_cache.replaced(cached_images.on_host(self._database, volume.host), image,
                                    kept.disk.size_gb, settings.bounds)
        if gone is None:
            return None
        for entry in gone:
            if entry.intact:
                self._remove(entry.volume_id)
            else:
                # Somebody has used the cached volume in another way and may still need it.
                cached_images.forget(self._database, entry.volume_id)
        failpoints.point('volume.image_cache.after_evict')
        draft = cached_images.Draft(
            image, volume, kept.disk.size_gb, settings.project_id, settings.user_id,
            {**volume_images.progress_of(image), _KEPT: kept.disk.path})
        claim = cached_images.begin(self._database, draft, settings.bounds, owner,
                                    settings.seconds)
        if claim is not None:
            LOG.info('Caching image%s', log.fields(
                image_id=image.id, volume_id=claim.resource_id))
        return claim

    def _remove(self, volume_id: str) -> None:
        """Start to delete the volume of a cached image, unless the volume is being cloned."""
        try:
            volumes.start_delete(
                self._database, volume_queries.get_bare(self._database, volume_id), 0)
        except (errors.InvalidVolume, errors.VolumeNotFound) as exc:
            LOG.info('Keeping cached image%s', log.fields(volume_id=volume_id, reason=exc))
            return
        LOG.info('Cached image evicted%s', log.fields(volume_id=volume_id))
        self._backend.telemetry.image_cache(self._backend.name, 'evicted')


def _made_of(item: volume_queries.AtWork, source_id: str | None) -> volume_queries.AtWork:
    return dataclasses.replace(
        item, volume=dataclasses.replace(item.volume, source_volid=source_id))
