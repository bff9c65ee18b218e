"""Bytes between Glance and disks.

An image comes into a folder of its own first. What is in it is inspected there before any program
opens it, and only what was found good is written onto a disk. The folder goes with the act.
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
"""Opens the disk of a volume, which is closed again."""
Note = Callable[[int], None]
"""Called now and then with how much is done, in percent; what it raises ends the act."""
_IMAGE, _DISK, _MADE = 'image', 'disk', 'made'
_KEPT = '.kept'
_MORE = 16 * units.MIB
"""Room for what a format needs beside the disk."""


class Kept(NamedTuple):
    """The raw form of an image, in a folder of its own."""

    path: str
    size_gb: int

    def drop(self) -> None:
        """Nobody needs it any more."""
        shutil.rmtree(self.path, ignore_errors=True)


@dataclasses.dataclass(frozen=True, slots=True)
class ImageMover:
    """Fills disks from images and uploads them as images.

    :ivar folder: in which each act has one of its own
    :ivar certificate: the certificate (DER) of an id
    """

    glance: client.ServiceImages
    settings: images_conf.ImageSettings
    folder: str
    certificate: Callable[[str], bytes]

    def clear(self, disk: Open, size_gb: int, copied: Copied) -> None:
        """Let a disk read as zeros.

        :raises OSError: it fails
        """
        with contextlib.closing(disk()) as opened:
            copying.clear(opened, units.gib_to_bytes(size_gb), copied)

    def fill(self, name: str, image: images.Image, disk: Open, size_gb: int, note: Note,
             copied: Copied, keep: bool = False) -> Kept | None:
        """Write an image onto a disk that reads as zeros; a repeat writes the same.

        :param name: of the act
        :param copied: called with how many bytes of the disk are done, see `copying.Copied`
        :param keep: its raw form is to be written once more, by `fill_kept`, and is returned
        :raises ImageNotFound: there is no such image any more
        :raises ImageUnacceptable, ConversionFailed: it cannot be used, and nothing was written
        :raises GlanceUnavailable: it has not come
        :raises OSError: the disk, or the folder, fails
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
        """Write what `fill` has kept onto another disk; False: it is not there any more, as it is
        not afterwards.

        :param make: makes a disk that reads as zeros
        :raises OSError: it cannot be read, or the disk fails
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
        """Give an image the bytes of a disk.

        :param sized: called before with the bytes that the image will have
        :raises ImageNotFound, ImageRefused: there is no such image, or Glance does not take it
        :raises ConversionFailed: it cannot have the image's format
        :raises GlanceUnavailable: it may have the bytes
        :raises BackendError: reading the disk fails during the upload to Glance
        :raises OSError: the disk, or the folder, fails
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
        """Bring the bytes of an image into a file, those that it says that it has."""
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
        """A folder that nobody else looks into."""
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
    """Keep the raw form of an image for the cache. Return None if that fails.

    The volume already has its data, so a failure is not an error.
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
    """Say of a full disk what was too large for it."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in disks.NO_ROOM:
            raise
        raise errors.ImageTooLarge(
            image_id=image.id, reason='no space is left for image conversion') from exc


def _share(done: int, whole: int, begin: int, end: int) -> int:
    """Which part of the act is done, in percent, where this step is from ``begin`` to ``end``."""
    return begin + (end - begin) * min(done, whole) // max(whole, 1)
