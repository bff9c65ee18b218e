"""Images that a backend keeps as volumes, so that further volumes of them are cloned.

Nothing here makes a volume of a user fail: where a step does, the image is downloaded as ever. The
volume of a cached image is filled after the user's, from what was downloaded for that one. It is
work of its own, which another process goes on with by a download.
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
"""What the progress of the work on the volume of a cached image calls where its bytes are."""


class Kept(NamedTuple):
    """A volume that was filled from an image, and the bytes that it was filled with."""

    found: volume_queries.AtWork
    disk: 'moving.Kept'


class ImageCache:
    """Of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._settings = context.cache

    def clone(self, found: volume_queries.AtWork,
              copied: Callable[[int], None]) -> volume_queries.AtWork:
        """Make a volume of the cached volume of its image, if that can be.

        :param copied: see `blockattach.storage.drivers.base.Clone`
        :returns: the volume, with what it is made of; without, it is to be made and downloaded,
            whatever an earlier attempt was going to make it of
        """
        source_id = found.volume.source_volid
        try:
            source_id = source_id or self._hold(found)
            if source_id is None:
                return found
            failpoints.point('volume.image_cache.before_clone')
            self._backend.clone(volume_queries.get_bare(self._database, source_id), found.volume,
                                copied)
        except (verbs.Left, errors.StaleGeneration):
            raise
        except Exception as exc:
            LOG.warning('Failed to create volume from cached image, downloading%s', log.fields(
                volume_id=found.volume.id, source_volid=source_id, reason=exc),
                exc_info=not errors.is_known(exc))
            cached_images.release(self._database, found.claim)
            if source_id is not None and type(exc) is errors.BackendRefused:
                self._remove(source_id)
            return _made_of(found, None)
        failpoints.point('volume.image_cache.after_clone')
        self._backend.telemetry.image_cache(self._backend.name, 'hit')
        return _made_of(found, source_id)

    def keeps(self, found: volume_queries.AtWork) -> bool:
        """Whether the image that a volume is filled from shall be cached."""
        return (self._settings is not None and _KEPT not in found.progress
                and image_cache.is_cacheable(volume_images.about(found), found.volume))

    def begin(self, kept: Kept) -> records.Claim | None:
        """A volume is filled: let its image be cached, if it is not; the claim of what that takes.
        """
        claim = None
        try:
            failpoints.point('volume.image_cache.before_begin')
            claim = self._begin(kept)
        except Exception as exc:
            LOG.warning('Failed to cache image%s', log.fields(
                image_id=volume_images.about(kept.found).id, reason=exc),
                exc_info=not errors.is_known(exc))
        if claim is None:
            kept.disk.drop()
        return claim

    def kept(self, found: volume_queries.AtWork) -> str | None:
        """Where the bytes for the volume of a cached image were kept, which is yet to be made.
        None: it is another volume.
        """
        return found.progress.get(_KEPT)

    def failed(self, claim: records.Claim) -> bool:
        """Delete the volume of a cached image that cannot be filled; False: it is another volume.

        :raises StaleGeneration: another process has taken the work over
        """
        goes = cached_images.failed(self._database, claim, 0)
        if goes:
            LOG.warning('Failed to cache image%s', log.fields(volume_id=claim.resource_id))
        return goes

    def _hold(self, found: volume_queries.AtWork) -> str | None:
        image = volume_images.about(found)
        # After an earlier attempt the volume may be there, without bytes, and a clone would leave
        # it so.
        if self._settings is None or found.attempts > 1 \
                or not image_cache.is_cacheable(image, found.volume):
            return None
        source_id = cached_images.hold(self._database, found.claim, found.volume, image)
        if source_id is None:
            LOG.info('Image not cached, downloading%s', log.fields(
                volume_id=found.volume.id, image_id=image.id))
            self._backend.telemetry.image_cache(self._backend.name, 'miss')
        return source_id

    def _begin(self, kept: Kept) -> records.Claim | None:
        settings, volume, owner = self._settings, kept.found.volume, kept.found.claim.owner
        image = volume_images.about(kept.found)
        assert settings is not None and owner is not None
        gone = image_cache.replaced(cached_images.on_host(self._database, volume.host), image,
                                    kept.disk.size_gb, settings.bounds)
        if gone is None:
            return None
        for entry in gone:
            if entry.intact:
                self._remove(entry.volume_id)
            else:
                # Somebody has made use of it, and may need it still.
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
        """Begin to remove the volume of a cached image, unless one is being made of it."""
        try:
            volumes.start_delete(
                self._database, volume_queries.get_bare(self._database, volume_id), 0)
        except (errors.InvalidVolume, errors.VolumeNotFound) as exc:
            LOG.info('Keeping cached image%s', log.fields(volume_id=volume_id, reason=exc))
            return
        LOG.info('Cached image evicted%s', log.fields(volume_id=volume_id))
        self._backend.telemetry.image_cache(self._backend.name, 'evicted')


def _made_of(found: volume_queries.AtWork, source_id: str | None) -> volume_queries.AtWork:
    return dataclasses.replace(
        found, volume=dataclasses.replace(found.volume, source_volid=source_id))
