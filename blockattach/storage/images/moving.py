"""Download of images to disks of volumes, and upload of disks as images.

An image is first downloaded to a folder of its own. There it is inspected before any program opens
it, and only an accepted image is written to a disk. The folder is deleted at the end.
"""
import contextlib
import dataclasses
import math
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import disks
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.domain import images
from blockattach.storage.images import client
from blockattach.storage.images import conversion
from blockattach.storage.images import copying
from blockattach.storage.images import inspection
from blockattach.storage.images import signatures

LOG = oslo_log.getLogger(__name__)

Copied = copying.Copied
Open = Callable[[], disks.Disk]
"""Function that opens the disk of a volume. The caller closes the disk."""
Note = Callable[[int], None]
"""Callback with the progress in percent. An exception that it raises ends the download or upload.
"""
_IMAGE, _DISK, _MADE = 'image', 'disk', 'made'
_KEPT = '.kept'
_MORE = 16 * units.MIB
"""Space in bytes for the metadata of an image format."""


class Kept(NamedTuple):
    """Raw form of an image that is kept for the cache, in a folder of its own.

    :ivar path: path of the folder
    :ivar size_gb: size of the disk in GiB, rounded up
    """

    path: str
    size_gb: int

    def drop(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


@dataclasses.dataclass(frozen=True, slots=True)
class ImageMover:
    """Service that fills disks from images and uploads disks as images.

    :ivar folder: folder in which each download or upload has a folder of its own
    :ivar certificate: function that returns the certificate (DER) with an id
    """

    glance: client.ServiceImages
    settings: images_conf.ImageSettings
    folder: str
    certificate: Callable[[str], bytes]

    def clear(self, disk: Open, size_gb: int, copied: Copied) -> None:
        """Make a disk read as zeros.

        :raises OSError: if the disk cannot be written
        """
        with contextlib.closing(disk()) as opened:
            copying.clear(opened, units.gib_to_bytes(size_gb), copied)

    def fill(self, name: str, image: images.Image, disk: Open, size_gb: int, note: Note,
             copied: Copied, keep: bool = False) -> Kept | None:
        """Write an image to a disk that reads as zeros. The call may be repeated.

        :param name: name of the folder of the download
        :param copied: see `copying.Copied`
        :param keep: True to keep the raw form of the image for `fill_kept`
        :returns: kept raw form of the image; None if it was not to be kept, or that failed
        :raises ImageNotFound: if the image does not exist any more
        :raises ImageUnacceptable, ConversionFailed: if the image cannot be used; nothing was
            written
        :raises GlanceUnavailable: if the image could not be downloaded
        :raises OSError: if the disk or the folder fails
        """
        size = units.gib_to_bytes(size_gb)
        with self._own(name, image) as folder:
            source = os.path.join(folder, _IMAGE)
            self._fetch(image, source, copied,
                        lambda done: note(_share(done, image.size or 0, 0, 50)))
            failpoints.point('images.moving.after_fetch')
            seen = inspection.inspect(source, image, self.settings.allowed_formats,
                                      self.settings.vmdk_allowed_types)
            if seen.virtual_size > size:
                raise errors.ImageTooLarge(
                    image_id=image.id, reason=f'the virtual size of {seen.virtual_size} bytes '
                                              f'exceeds the volume size of {size} bytes')
            if seen.converted:
                source = self._convert(image, folder, seen.virtual_size)
            failpoints.point('images.moving.before_write')
            with contextlib.closing(disk()) as opened:
                copying.write(source, opened, copied,
                              lambda done: note(_share(done, seen.virtual_size, 50, 100)))
            if not keep:
                return None
            return _keep(source, Kept(f'{folder}{_KEPT}',
                                      math.ceil(seen.virtual_size / units.GIB)))

    def fill_kept(self, path: str, make: Callable[[], Open], note: Note, copied: Copied) -> bool:
        """Write the raw form of an image that `fill` has kept to another disk, and delete it.

        :param path: folder of the raw form
        :param make: function that creates a disk that reads as zeros
        :returns: False if the raw form does not exist any more
        :raises OSError: if the raw form cannot be read or the disk fails
        """
        source = os.path.join(path, _DISK)
        try:
            disk = make()
            if not os.path.exists(source):
                return False
            size = os.path.getsize(source)
            with contextlib.closing(disk()) as opened:
                copying.write(source, opened, copied,
                              lambda done: note(_share(done, size, 0, 100)))
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return True

    def upload(self, name: str, image: images.Image, disk: Open, size_gb: int, note: Note,
               copied: Copied, sized: Callable[[int], None]) -> None:
        """Upload a disk as the data of an image.

        :param name: name of the folder of the upload
        :param sized: called before the upload with the size of the image in bytes
        :raises ImageNotFound: if the image does not exist
        :raises ImageRefused: if Glance rejects the data
        :raises ConversionFailed: if the disk cannot be converted to the format of the image
        :raises GlanceUnavailable: if Glance may or may not have the data
        :raises BackendError: if reading the disk fails during the upload to Glance
        :raises OSError: if the disk or the folder fails
        """
        size = units.gib_to_bytes(size_gb)
        if image.disk_format == images.RAW:
            sized(size)
            with contextlib.closing(disk()) as opened:
                self._send(image, size, copying.read(opened, size, copied), note, 0)
            return
        if self.settings.conversion_disabled:
            raise errors.ConversionFailed(reason='image conversion is disabled')
        with self._own(name, image) as folder:
            made = os.path.join(folder, _MADE)
            with _room(image):
                with contextlib.closing(disk()) as opened:
                    copying.save(opened, size, os.path.join(folder, _DISK), copied,
                                 lambda done: note(_share(done, size, 0, 50)))
                conversion.Converter(self.settings).convert(
                    folder, _DISK, images.RAW, _MADE, str(image.disk_format), size * 2 + _MORE)
            length = os.path.getsize(made)
            sized(length)
            with contextlib.closing(disks.Device(made, length)) as file:
                self._send(image, length, copying.read(file, length, lambda _: copied(0)), note,
                           50)

    def _send(self, image: images.Image, size: int, pieces: Iterable[bytes], note: Note,
              begin: int) -> None:
        def noted() -> Iterator[bytes]:
            done = 0
            # The Glance client would report an OSError as a failure of the network.
            with disks.translated(size / units.GIB):
                for piece in pieces:
                    yield piece
                    done += len(piece)
                    note(_share(done, size, begin, 100))

        self.glance.upload(image.id, noted())

    def _fetch(self, image: images.Image, path: str, copied: Copied,
               note: Note) -> None:
        """Download an image to a file, and verify its hash and, if configured, its signature."""
        digest, signature = inspection.Digest(image), None
        if self.settings.verify_signatures == 'enabled' and image.signature:
            signature = signatures.Signature(image, self.certificate)
        with _room(image), open(path, 'xb') as file, contextlib.closing(
                self.glance.download(image.id)) as pieces:
            for piece in pieces:
                size = digest.add(piece)
                if signature is not None:
                    signature.add(piece)
                file.write(piece)
                copied(0)
                note(size)
        digest.check()
        if signature is not None:
            signature.check()

    def _convert(self, image: images.Image, folder: str, size: int) -> str:
        if self.settings.conversion_disabled:
            raise errors.ImageUnacceptable(
                image_id=image.id, reason='the image is not raw and image conversion is disabled')
        with _room(image):
            conversion.Converter(self.settings).convert(
                folder, _IMAGE, str(image.disk_format), _DISK, images.RAW, size + _MORE)
        return os.path.join(folder, _DISK)

    @contextlib.contextmanager
    def _own(self, name: str, image: images.Image) -> Iterator[str]:
        """Create an empty folder that only this account can read, and delete it at the end."""
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        with _room(image):
            os.makedirs(self.folder, mode=0o711, exist_ok=True)
            os.mkdir(path, mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _keep(source: str, kept: Kept) -> Kept | None:
    """Keep the raw form of an image for the cache, or return None if that fails.

    A failure is not an error, because the volume already has its data.
    """
    try:
        kept.drop()
        # The work folder may belong to the account that converts images.
        os.mkdir(kept.path, mode=0o700)
        os.replace(source, os.path.join(kept.path, _DISK))
    except OSError as exc:
        LOG.warning('Failed to keep image for the cache%s',
                    log.fields(path=kept.path, reason=exc.strerror))
        kept.drop()
        return None
    return kept


@contextlib.contextmanager
def _room(image: images.Image) -> Iterator[None]:
    """Convert the error of a full disk to ImageTooLarge."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in disks.NO_ROOM:
            raise
        raise errors.ImageTooLarge(
            image_id=image.id, reason='no space is left for image conversion') from exc


def _share(done: int, whole: int, begin: int, end: int) -> int:
    """Return the progress in percent during a step that covers ``begin`` to ``end`` percent.

    :param done: completed part of the step
    :param whole: length of the step in the same unit
    """
    return begin + (end - begin) * min(done, whole) // max(whole, 1)
