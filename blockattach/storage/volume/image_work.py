"""Fill volumes from images and upload them as images: acts that go on after the answer."""
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
"""Percent between two notes of how far an act is."""
_ATTEMPTS = 3
"""After so many an act ends that may succeed at last: its user should learn that it does not."""
_SURE = (errors.ImageNotFound, errors.ImageUnacceptable, errors.ImageRefused,
         errors.ConversionFailed, errors.GlanceMissing, errors.BackendRefused)
"""What a repeat does not change."""
_UNSURE = (errors.GlanceUnavailable, errors.BackendError, errors.ConfigurationError)
_MESSAGES: Mapping[type[errors.BlockattachError], messages.Text] = {
    errors.ImageTooLarge: messages.IMAGE_TOO_LARGE,
    errors.ImageSignatureWrong: messages.IMAGE_SIGNATURE_WRONG,
    errors.ImageUnacceptable: messages.IMAGE_UNACCEPTABLE}


class ImageWork:
    """The acts on the volumes of one backend that have to do with images."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._copied = context.copied
        self._mover = context.mover
        self._cache = image_cache.ImageCache(context)
        self._reimaged = context.reimaged

    def _cache_image(self, claim: records.Claim,
                     made: image_cache.Kept | None) -> records.Claim | None:
        return None if made is None else self._cache.begin(made)

    @verbs.work('volume.download', deadline='create_seconds',
                done=_cache_image,
                failed=lambda self, claim, say: self._cache.failed(claim),
                undo=lambda self, made: made.disk.drop())
    def download(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Fill a new volume."""
        return self._slowly(claim, self._fill, _MESSAGES)

    def _then_say_so(self, caller: context.RequestContext, claim: records.Claim,
                     made: object) -> None:
        self._reimaged(claim.resource_id, False)

    def _notify_server(self, claim: records.Claim, made: object) -> None:
        failpoints.point('volume.images.before_event')
        self._reimaged(claim.resource_id, True)

    @verbs.work('volume.reimage', deadline='create_seconds',
                done=_notify_server, then=_then_say_so)
    def reimage(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Give a volume the bytes of another image, and nothing of those that it had."""
        return self._slowly(claim, self._refill, {})

    @verbs.work('volume.upload', deadline='create_seconds')
    def upload(self, caller: context.RequestContext, claim: records.Claim) -> verbs.TakesLong:
        """Give an image the bytes of a volume; an image that cannot have them goes."""
        return self._slowly(claim, self._upload, {}, shared=True)

    def _slowly(self, claim: records.Claim, act: Callable[[volume_queries.AtWork], object],
                texts: Mapping[type[errors.BlockattachError], messages.Text],
                shared: bool = False) -> verbs.TakesLong:
        """Act, by and by; what fails for good, or too often, is `verbs.Failed`.

        :param texts: the message to the user by error, where it is not the verb's
        :param shared: other threads may act on the volume
        """
        def rest() -> object:
            found = volume_queries.claimed(self._database, claim)
            try:
                # A volume that is uploaded may be in use: others act on it meanwhile.
                with contextlib.nullcontext() if shared else self._leases.alone(
                        claim.resource_id), self._backend.disk_errors(found.volume):
                    return act(found)
            except _SURE as exc:
                text = next((text for kind, text in texts.items() if isinstance(exc, kind)), None)
                raise verbs.Failed(str(exc), message=text) from exc
            except _UNSURE as exc:
                if found.attempts >= _ATTEMPTS:
                    raise verbs.Failed(str(exc)) from exc
                raise errors.BackendUncertain(reason=str(exc)) from exc
        return verbs.TakesLong(rest)

    def _refill(self, found: volume_queries.AtWork) -> None:
        volume = found.volume
        self._backend.target.unexport(volume.id)
        failpoints.point('volume.images.before_clear')
        self._moving().clear(self._disk(volume, True), volume.size_gb,
                             self._copied(found.claim))
        self._bring(found)

    def _fill(self, found: volume_queries.AtWork) -> image_cache.Kept | None:
        path = self._cache.kept(found)
        if path is not None and self._moving().fill_kept(
                path, functools.partial(self._make, found.volume), self._note(found.claim),
                self._copied(found.claim)):
            return None
        kept = self._bring(found, self._cache.keeps(found))
        return None if kept is None else image_cache.Kept(found, kept)

    def _bring(self, found: volume_queries.AtWork, keep: bool = False) -> 'moving.Kept | None':
        volume = found.volume
        failpoints.point('volume.images.before_fill')
        kept = self._moving().fill(
            volume.id, volume_images.about(found), self._disk(volume, True), volume.size_gb,
            self._note(found.claim), self._copied(found.claim), keep)
        failpoints.point('volume.images.after_fill')
        return kept

    def _upload(self, found: volume_queries.AtWork) -> None:
        try:
            with self._backend.disk_errors(found.volume):
                self._give_bytes(found)
        except (*_SURE, *_UNSURE) as exc:
            if isinstance(exc, _SURE) or found.attempts >= _ATTEMPTS:
                self._discard(found)
            raise
        except errors.StaleGeneration:
            if not volume_images.is_uploading(self._database, found.volume.id):
                self._discard(found)
            raise

    def _give_bytes(self, found: volume_queries.AtWork) -> None:
        """A repeat finds what an earlier attempt has uploaded."""
        mover, volume, image = self._moving(), found.volume, volume_images.about(found)
        expected = volume_images.uploaded_size(found)
        now = mover.glance.show(image.id)
        if now.status == 'queued':
            failpoints.point('volume.images.before_upload')
            sizes: list[int] = []

            def sized(size: int) -> None:
                sizes.append(size)
                volume_images.note_uploaded(self._database, found.claim, size)

            mover.upload(volume.id, image, self._disk(volume, False), volume.size_gb,
                         self._note(found.claim), self._copied(found.claim), sized)
            failpoints.point('volume.images.after_upload')
            now, expected = mover.glance.show(image.id), sizes[0]
        if now.status != 'active':
            raise errors.GlanceUnavailable(
                reason=f'image {image.id} has status {now.status}, not active')
        if now.size != expected:
            raise errors.ImageRefused(
                reason=f'{now.size} bytes were stored instead of {expected}')

    def _discard(self, found: volume_queries.AtWork) -> None:
        try:
            self._moving().glance.delete(volume_images.about(found).id)
        except (errors.GlanceMissing, errors.GlanceUnavailable, errors.ImageRefused) as exc:
            LOG.warning('Failed to delete incomplete image%s', log.fields(
                volume_id=found.volume.id, image_id=volume_images.about(found).id, reason=exc))

    def _note(self, claim: records.Claim) -> 'moving.Note':
        """Writes down how far it is; ends the act where the claim is lost."""
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
