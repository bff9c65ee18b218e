"""Work that fills volumes of a backend from images, and uploads volumes as images."""
import contextlib
import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import messages
from blockattach.storage.domain import records
from blockattach.storage.volume import image_cache
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs

if TYPE_CHECKING:
    from blockattach.storage.images import moving

LOG = oslo_log.getLogger(__name__)

_STEP = 5
"""Minimum difference in percent between two records of the progress of a work item."""
_ATTEMPTS = 3
"""Number of attempts after which work with a temporary error fails. More attempts might succeed,
but the user would have to wait too long for an error."""
_SURE = (errors.ImageNotFound, errors.ImageUnacceptable, errors.ImageRefused,
         errors.ConversionFailed, errors.GlanceMissing, errors.BackendRefused)
"""Permanent errors, for which an attempt is not repeated."""
_UNSURE = (errors.GlanceUnavailable, errors.BackendError, errors.ConfigurationError)
"""Temporary errors. `_SURE` is examined first, because BackendRefused is a BackendError."""
_MESSAGES: Mapping[type[errors.BlockattachError], messages.Text] = {
    errors.ImageTooLarge: messages.IMAGE_TOO_LARGE,
    errors.ImageSignatureWrong: messages.IMAGE_SIGNATURE_WRONG,
    errors.ImageUnacceptable: messages.IMAGE_UNACCEPTABLE}


class ImageWork:
    """Handlers of the work that downloads images to one backend and uploads its volumes."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._copied = context.copied
        self._mover = context.mover
        self._cache = image_cache.ImageCache(context)
        self._reimaged = context.reimaged

    def _cache_image(self, claim: records.Claim,
                     kept: image_cache.Kept | None) -> records.Claim | None:
        return None if kept is None else self._cache.begin(kept)

    @verbs.work('volume.download', deadline='create_seconds',
                done=_cache_image,
                failed=lambda self, claim, say: self._cache.failed(claim),
                undo=lambda self, kept: kept.disk.drop())
    def download(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Fill a new volume from its image."""
        return self._slowly(claim, self._fill, _MESSAGES)

    def _then_say_so(self, caller: context.RequestContext, claim: records.Claim,
                     result: object) -> None:
        self._reimaged(claim.resource_id, False)

    def _notify_server(self, claim: records.Claim, result: object) -> None:
        failpoints.point('volume.images.before_event')
        self._reimaged(claim.resource_id, True)

    @verbs.work('volume.reimage', deadline='create_seconds',
                done=_notify_server, then=_then_say_so)
    def reimage(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Replace all data of a volume with the data of an image."""
        return self._slowly(claim, self._refill, {})

    @verbs.work('volume.upload', deadline='create_seconds')
    def upload(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Upload the data of a volume to an image, which is deleted if the upload fails."""
        return self._slowly(claim, self._upload, {}, shared=True)

    def _slowly(self, claim: records.Claim, act: Callable[[volume_queries.AtWork], object],
                texts: Mapping[type[errors.BlockattachError], messages.Text],
                shared: bool = False) -> verbs.TakesLong:
        """Return the long part of a work item, which calls ``act`` in the background.

        The long part raises `verbs.Failed` after a permanent error, or after a temporary error in
        the last attempt.

        :param act: function that does the work
        :param texts: messages to the user by class of the error; the message of the verb otherwise
        :param shared: True if other threads may act on the volume meanwhile
        """
        def rest() -> object:
            item = volume_queries.claimed(self._database, claim)
            try:
                # An uploaded volume may be in use, so other threads may act on it meanwhile.
                with contextlib.nullcontext() if shared else self._leases.alone(
                        claim.resource_id), self._backend.disk_errors(item.volume):
                    return act(item)
            except _SURE as exc:
                text = next((text for kind, text in texts.items() if isinstance(exc, kind)), None)
                raise verbs.Failed(str(exc), message=text) from exc
            except _UNSURE as exc:
                if item.attempts >= _ATTEMPTS:
                    raise verbs.Failed(str(exc)) from exc
                raise errors.BackendUncertain(reason=str(exc)) from exc
        return verbs.TakesLong(rest)

    def _refill(self, item: volume_queries.AtWork) -> None:
        volume = item.volume
        self._backend.target.unexport(volume.id)
        failpoints.point('volume.images.before_clear')
        # The empty pieces of an image are not written, so the former data would remain in them.
        self._moving().clear(self._disk(volume, True), volume.size_gb,
                             self._copied(item.claim))
        self._bring(item)

    def _fill(self, item: volume_queries.AtWork) -> image_cache.Kept | None:
        path = self._cache.kept(item)
        if path is not None and self._moving().fill_kept(
                path, functools.partial(self._make, item.volume), self._note(item.claim),
                self._copied(item.claim)):
            return None
        kept = self._bring(item, self._cache.keeps(item))
        return None if kept is None else image_cache.Kept(item, kept)

    def _bring(self, item: volume_queries.AtWork, keep: bool = False) -> 'moving.Kept | None':
        volume = item.volume
        failpoints.point('volume.images.before_fill')
        kept = self._moving().fill(
            volume.id, volume_images.about(item), self._disk(volume, True), volume.size_gb,
            self._note(item.claim), self._copied(item.claim), keep)
        failpoints.point('volume.images.after_fill')
        return kept

    def _upload(self, item: volume_queries.AtWork) -> None:
        try:
            with self._backend.disk_errors(item.volume):
                self._give_bytes(item)
        except (*_SURE, *_UNSURE) as exc:
            if isinstance(exc, _SURE) or item.attempts >= _ATTEMPTS:
                self._discard(item)
            raise
        except errors.StaleGeneration:
            # While the volume is uploading, another process continues with the image.
            if not volume_images.is_uploading(self._database, item.volume.id):
                self._discard(item)
            raise

    def _give_bytes(self, item: volume_queries.AtWork) -> None:
        """Upload the data of a volume, unless an earlier attempt has uploaded the data.

        :raises ImageRefused: if Glance has stored fewer or more bytes than were sent
        :raises GlanceUnavailable: if the image is not active after the upload
        """
        mover, volume, image = self._moving(), item.volume, volume_images.about(item)
        expected = volume_images.uploaded_size(item)
        now = mover.glance.show(image.id)
        # Glance accepts data only for a queued image. In any other status, an earlier attempt has
        # sent data.
        if now.status == 'queued':
            failpoints.point('volume.images.before_upload')
            sizes: list[int] = []

            def sized(size: int) -> None:
                sizes.append(size)
                volume_images.note_uploaded(self._database, item.claim, size)

            mover.upload(volume.id, image, self._disk(volume, False), volume.size_gb,
                         self._note(item.claim), self._copied(item.claim), sized)
            failpoints.point('volume.images.after_upload')
            now, expected = mover.glance.show(image.id), sizes[0]
        if now.status != 'active':
            raise errors.GlanceUnavailable(
                reason=f'image {image.id} has status {now.status}, not active')
        if now.size != expected:
            raise errors.ImageRefused(
                reason=f'{now.size} bytes were stored instead of {expected}')

    def _discard(self, item: volume_queries.AtWork) -> None:
        try:
            self._moving().glance.delete(volume_images.about(item).id)
        except (errors.GlanceMissing, errors.GlanceUnavailable, errors.ImageRefused) as exc:
            LOG.warning('Failed to delete incomplete image%s', log.fields(
                volume_id=item.volume.id, image_id=volume_images.about(item).id, reason=exc))

    def _note(self, claim: records.Claim) -> 'moving.Note':
        """Return a callback that records the progress of the work item.

        The callback raises StaleGeneration once the claim is lost. This error ends the work.
        """
        last = -_STEP

        def note(percent: int) -> None:
            nonlocal last
            if percent >= last + _STEP:
                volume_images.note_percent(self._database, claim, percent)
                last = percent
        return note

    def _moving(self) -> 'moving.ImageMover':
        if self._mover is None:
            raise errors.GlanceMissing()
        return self._mover

    def _make(self, volume: records.Volume) -> 'moving.Open':
        self._backend.create(volume)
        failpoints.point('volume.images.after_create')
        return self._disk(volume, True)

    def _disk(self, volume: records.Volume, writes: bool) -> 'moving.Open':
        return functools.partial(self._backend.disk, volume, writes)
