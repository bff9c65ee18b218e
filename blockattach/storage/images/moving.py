"""Download of images to disks of volumes, upload of disks as images, and image signatures.

An image is first downloaded to a folder of its own, and inspected there before any program opens
the image. Only an image that passes the inspection is written to a disk. The folder is deleted at
the end.

A signature consists of the image properties ``img_signature...``, as documented by Glance.
"""
import base64
import binascii
import contextlib
import dataclasses
import math
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NamedTuple

from cryptography import exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric import utils
from oslo_log import log as oslo_log

from blockattach.platform import disks
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.domain import images
from blockattach.storage.images import client
from blockattach.storage.images import formats

LOG = oslo_log.getLogger(__name__)

Open = Callable[[], disks.Disk]
"""Function that opens the disk of a volume. The caller closes the disk."""
Note = Callable[[int], None]
"""Callback with the progress in percent. An exception ends the download or upload."""
_IMAGE, _DISK, _MADE = 'image', 'disk', 'made'
_KEPT = '.kept'
_MORE = 16 * units.MIB
"""Space in bytes that the metadata of an image format may need in addition to the data."""
Copied = Callable[[int], None]
"""Callback with the number of bytes of a disk that were just read or written.

The callback may wait, so that the copy does not exceed the rate limit of the backend. An exception
from the callback ends the copy.
"""
_METHODS: dict[str, Callable[[], hashes.HashAlgorithm]] = {
    'SHA-224': hashes.SHA224, 'SHA-256': hashes.SHA256, 'SHA-384': hashes.SHA384,
    'SHA-512': hashes.SHA512}
_RSA, _DSA, _ECC = 'RSA-PSS', 'DSA', 'ECC_'
_PARTS = tuple(f'{images.SIGNATURE}{part}' for part in (
    '', '_hash_method', '_key_type', '_certificate_uuid'))


class Kept(NamedTuple):
    """Folder with the raw data of an image, which is kept to fill a volume of the image cache.

    :ivar path: path of the folder
    :ivar size_gb: size of the raw data in GiB, rounded up
    """

    path: str
    size_gb: int

    def drop(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@dataclasses.dataclass(frozen=True, slots=True)
class ImageMover:
    """Copier of images to disks and of disks to images.

    :ivar folder: folder in which each download or upload has a folder of its own
    :ivar certificate: function that returns a certificate in DER, given its id
    """

    glance: client.ServiceImages
    settings: images_conf.ImageSettings
    folder: str
    certificate: Callable[[str], bytes]

    def clear(self, disk: Open, size_gb: int, copied: Copied) -> None:
        """Make a disk read as zeros.

        :param size_gb: size of the disk in GiB
        :raises OSError: if the disk cannot be written
        """
        with contextlib.closing(disk()) as opened:
            clear(opened, units.gib_to_bytes(size_gb), copied)

    def fill(self, name: str, image: images.Image, disk: Open, size_gb: int, note: Note,
             copied: Copied, keep: bool = False) -> Kept | None:
        """Write an image to a disk that reads as zeros. The call may be repeated.

        :param name: name of the folder for the download
        :param size_gb: size of the disk in GiB
        :param keep: True to keep the raw data of the image for `fill_kept`
        :returns: kept raw data; None if ``keep`` is False, or if the data could not be kept
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
            seen = formats.inspect(source, image, self.settings.allowed_formats,
                                   self.settings.vmdk_allowed_types)
            if seen.virtual_size > size:
                raise errors.ImageTooLarge(
                    image_id=image.id, reason=f'the virtual size of {seen.virtual_size} bytes '
                                              f'exceeds the volume size of {size} bytes')
            if seen.converted:
                source = self._convert(image, folder, seen.virtual_size)
            failpoints.point('images.moving.before_write')
            with contextlib.closing(disk()) as opened:
                write(source, opened, copied,
                      lambda done: note(_share(done, seen.virtual_size, 50, 100)))
            if not keep:
                return None
            return _keep(source, Kept(f'{folder}{_KEPT}',
                                      math.ceil(seen.virtual_size / units.GIB)))

    def fill_kept(self, path: str, make: Callable[[], Open], note: Note, copied: Copied) -> bool:
        """Write raw data that `fill` has kept to a new disk, and delete the folder of the data.

        :param path: folder of the raw data
        :param make: function that creates a disk that reads as zeros
        :returns: False if the raw data do not exist any more. The disk is created nevertheless
        :raises OSError: if the raw data cannot be read or the disk fails
        """
        source = os.path.join(path, _DISK)
        try:
            # The disk is also created if the raw data are gone, because the caller then downloads
            # the image to this disk.
            disk = make()
            if not os.path.exists(source):
                return False
            size = os.path.getsize(source)
            with contextlib.closing(disk()) as opened:
                write(source, opened, copied,
                      lambda done: note(_share(done, size, 0, 100)))
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return True

    def upload(self, name: str, image: images.Image, disk: Open, size_gb: int, note: Note,
               copied: Copied, sized: Callable[[int], None]) -> None:
        """Upload the content of a disk as the data of an existing image.

        :param name: name of the folder for the conversion
        :param size_gb: size of the disk in GiB
        :param sized: called before the upload with the size of the image data in bytes
        :raises ImageNotFound: if the image does not exist
        :raises ImageRefused: if Glance rejects the data
        :raises ConversionFailed: if the disk cannot be converted to the format of the image
        :raises ImageTooLarge: if there is not enough space in the folder
        :raises GlanceUnavailable: if Glance may or may not have stored the data
        :raises BackendError: if reading the disk or the converted file fails during the upload
        :raises OSError: if the disk or the folder fails before the upload
        """
        size = units.gib_to_bytes(size_gb)
        if image.disk_format == images.RAW:
            sized(size)
            with contextlib.closing(disk()) as opened:
                self._send(image, size, read(opened, size, copied), note, 0)
            return
        if self.settings.conversion_disabled:
            raise errors.ConversionFailed(reason='image conversion is disabled')
        with self._own(name, image) as folder:
            made = os.path.join(folder, _MADE)
            with _room(image):
                with contextlib.closing(disk()) as opened:
                    save(opened, size, os.path.join(folder, _DISK), copied,
                         lambda done: note(_share(done, size, 0, 50)))
                formats.Converter(self.settings).convert(
                    folder, _DISK, images.RAW, _MADE, str(image.disk_format), size * 2 + _MORE)
            length = os.path.getsize(made)
            sized(length)
            with contextlib.closing(disks.Device(made, length)) as file:
                # The file is not on the backend, so reading it does not count for the rate limit.
                # The callback is called with 0, because it may end the copy.
                self._send(image, length, read(file, length, lambda _: copied(0)), note,
                           50)

    def _send(self, image: images.Image, size: int, pieces: Iterable[bytes], note: Note,
              begin: int) -> None:
        def noted() -> Iterator[bytes]:
            done = 0
            # The Glance client would report an OSError as a network failure.
            with disks.translated(size / units.GIB):
                for piece in pieces:
                    yield piece
                    done += len(piece)
                    note(_share(done, size, begin, 100))

        self.glance.upload(image.id, noted())

    def _fetch(self, image: images.Image, path: str, copied: Copied,
               note: Note) -> None:
        """Download an image to a file, and verify its hash.

        If the verification of signatures is enabled, the signature of a signed image is verified
        too.
        """
        digest, signature = formats.Digest(image), None
        if self.settings.verify_signatures == 'enabled' and image.signature:
            signature = Signature(image, self.certificate)
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
            formats.Converter(self.settings).convert(
                folder, _IMAGE, str(image.disk_format), _DISK, images.RAW, size + _MORE)
        return os.path.join(folder, _DISK)

    @contextlib.contextmanager
    def _own(self, name: str, image: images.Image) -> Iterator[str]:
        """Create an empty folder that only this account can read. Delete the folder at the end.

        :param image: image to name in the error if there is no space left
        """
        path = os.path.join(self.folder, name)
        # An earlier attempt may have been killed before it deleted the folder.
        shutil.rmtree(path, ignore_errors=True)
        with _room(image):
            # The account of qemu-img may enter its folder below this folder, but not list this
            # folder.
            os.makedirs(self.folder, mode=0o711, exist_ok=True)
            os.mkdir(path, mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _keep(source: str, kept: Kept) -> Kept | None:
    """Move the raw data of an image to a folder that is kept, and return the folder.

    :param source: path of the file with the raw data
    :returns: None if the data cannot be moved. No error is raised, because the volume already has
        its data
    """
    try:
        kept.drop()
        # A new folder, because the folder of the download may belong to the account of qemu-img.
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
    """Return the overall progress in percent during a step from ``begin`` to ``end`` percent.

    :param done: number of processed bytes of the step
    :param whole: total number of bytes of the step; 0 if unknown
    """
    # The total number is 0 for an image without a declared size.
    return begin + (end - begin) * min(done, whole) // max(whole, 1)


def read(disk: disks.Disk, size: int, copied: Copied) -> Iterator[bytes]:
    """Yield the first ``size`` bytes of a disk in pieces, including zeros for holes.

    :raises OSError: if the disk cannot be read
    """
    done = 0
    for offset, piece in disk.pieces():
        yield from _hole(offset - done, copied)
        yield piece
        done = offset + len(piece)
        copied(len(piece))
    yield from _hole(size - done, copied)


def write(source: str, disk: disks.Disk, copied: Copied, note: Callable[[int], None]) -> None:
    """Write a file to a disk that reads as zeros and is at least as large as the file.

    :param source: path of the file
    :param note: called after each piece with the number of bytes up to its end
    :raises OSError: if the file cannot be read or the disk cannot be written
    """
    with contextlib.closing(disks.Device(source, os.path.getsize(source))) as file:
        for offset, piece in file.pieces():
            if not disks.is_empty(piece):
                disk.write(offset, piece)
                copied(len(piece))
            note(offset + len(piece))
    disk.sync()


def save(disk: disks.Disk, size: int, target: str, copied: Copied,
         note: Callable[[int], None]) -> None:
    """Write a disk to a new file. The file has holes where the disk contains only zeros.

    :param size: size of the disk in bytes
    :param target: path of the file
    :param note: called after each piece with the number of bytes up to its end
    :raises OSError: if the disk cannot be read or the file cannot be written
    """
    with open(target, 'xb') as new_file:
        new_file.truncate(size)
    with contextlib.closing(disks.Device(target, size, writes=True)) as file:
        for offset, piece in disk.pieces():
            if not disks.is_empty(piece):
                file.write(offset, piece)
            copied(len(piece))
            note(offset + len(piece))


def clear(disk: disks.Disk, size: int, copied: Copied) -> None:
    """Make a disk of ``size`` bytes read as zeros. Discards are used where possible.

    :raises OSError: if the disk cannot be written
    """
    # The disk is cleared in ranges, because the callback between them may end the operation.
    for offset in range(0, size, units.GIB):
        length = min(units.GIB, size - offset)
        if disk.discard(offset, length):
            copied(0)
            continue
        for begin in range(offset, offset + length, disks.PIECE):
            piece = disks.zeros()[:offset + length - begin]
            disk.write(begin, piece)
            copied(len(piece))
    disk.sync()


def _hole(length: int, copied: Copied) -> Iterator[bytes]:
    """Yield the zeros of a hole. They do not count as bytes read from the disk."""
    while length > 0:
        piece = disks.zeros()[:length]
        yield piece
        length -= len(piece)
        copied(0)


class Signature:
    """Verification of the signature of an image whose data is received in pieces."""

    def __init__(self, image: images.Image, certificate: Callable[[str], bytes]) -> None:
        """Read the signature from the properties of an image, and fetch the certificate.

        :param certificate: function that returns a certificate in DER, given its id
        :raises ImageSignatureWrong: if the properties do not form a valid signature
        :raises ConfigurationError: if certificates cannot be fetched
        """
        self._image = image
        signature, method, self._type, certificate_id = (
            image.properties.get(name) or '' for name in _PARTS)
        if not (signature and certificate_id and method in _METHODS):
            raise self._wrong('the signature properties are incomplete')
        self._method = _METHODS[method]()
        self._hash = hashes.Hash(self._method)
        try:
            # The certificate chain is not verified.
            self._signature = base64.b64decode(signature, validate=True)
            self._key = x509.load_der_x509_certificate(certificate(certificate_id)).public_key()
        except (binascii.Error, ValueError) as exc:
            raise self._wrong('the signature or certificate is malformed') from exc

    def add(self, piece: bytes) -> None:
        self._hash.update(piece)

    def check(self) -> None:
        """Check that the signature matches the received data.

        :raises ImageSignatureWrong: if the signature does not match, or if the key of the
            certificate is not of the type that the image properties name
        """
        digest, given = self._hash.finalize(), utils.Prehashed(self._method)
        try:
            if self._type == _RSA and isinstance(self._key, rsa.RSAPublicKey):
                self._key.verify(self._signature, digest, padding.PSS(
                    padding.MGF1(self._method), padding.PSS.MAX_LENGTH), given)
            elif self._type == _DSA and isinstance(self._key, dsa.DSAPublicKey):
                self._key.verify(self._signature, digest, given)
            elif self._type.startswith(_ECC) and isinstance(self._key, ec.EllipticCurvePublicKey) \
                    and self._type.removeprefix(_ECC).lower() == self._key.curve.name:
                self._key.verify(self._signature, digest, ec.ECDSA(given))
            else:
                raise self._wrong(f'the certificate has no key for {self._type or "a signature"}')
        except exceptions.InvalidSignature as exc:
            raise self._wrong('the content does not match the signature') from exc

    def _wrong(self, reason: str) -> errors.ImageSignatureWrong:
        return errors.ImageSignatureWrong(image_id=self._image.id, reason=reason)
