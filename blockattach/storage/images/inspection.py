"""What the bytes of an image are, seen before any program opens them.

An image says what it is (``disk_format``), and its bytes may say another thing. Formats of disks
can name further files, which qemu-img would read (CVE-2024-32498, CVE-2022-47951, CVE-2015-5162):
none of those passes here. Nothing but `oslo_utils.imageutils.format_inspector` reads an image
before.
"""
import dataclasses
import hashlib
import hmac
from collections.abc import Sequence

from oslo_utils.imageutils import format_inspector

from blockattach.platform import units
from blockattach.storage import errors
from blockattach.storage.domain import images

_PIECE = 64 * units.KIB
# What a plain disk may look like: each is a disk of these bytes, which no program takes apart.
_PLAIN = frozenset(('raw', 'gpt', 'iso', 'luks'))
_RAW = {'raw': _PLAIN, 'ami': _PLAIN, 'iso': frozenset(('iso', 'gpt'))}
"""Formats that are written as they are, and what their bytes may be seen as."""
_DIGESTS = frozenset(('md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'blake2b', 'blake2s',
                      'sha3_224', 'sha3_256', 'sha3_384', 'sha3_512'))


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """An image that may be used: whether it must be converted, and its size as a disk."""

    converted: bool
    virtual_size: int


def inspect(path: str, image: images.Image, allowed: Sequence[str], vmdk_types: Sequence[str],
            ) -> Seen:
    """Look at the file of an image.

    :param allowed: values of ``disk_format``
    :param vmdk_types: values of VMDK's ``createType``
    :raises ImageUnacceptable: it must not be opened
    """
    wanted = image.disk_format or ''
    if wanted not in allowed and not (wanted == 'ami' and 'raw' in allowed):
        raise _refused(image, f'disk format {wanted or "none"} is not allowed')
    if image.container_format not in images.CONTAINERS:
        raise _refused(image, f'container format {image.container_format} is not supported')
    found = _formats(path)
    names = {str(one) for one in found}
    if not names <= _RAW.get(wanted, {wanted}) or (wanted not in _RAW and len(found) != 1):
        raise _refused(image, f'the disk format is declared as {wanted}, but the content is '
                              f'{" and ".join(sorted(names)) or "unknown"}')
    if wanted in _RAW:
        with open(path, 'rb') as file:
            return Seen(False, file.seek(0, 2))
    only = found[0]
    try:
        only.safety_check()
    except (format_inspector.SafetyCheckFailed, format_inspector.ImageFormatError) as exc:
        raise _refused(image, _why(exc)) from exc
    if isinstance(only, format_inspector.VMDKInspector) and only.vmdktype.lower() not in {
            one.lower() for one in vmdk_types}:
        raise _refused(image, f'VMDK type {only.vmdktype} is not allowed')
    if only.virtual_size <= 0:
        raise _refused(image, 'the virtual size is not specified')
    return Seen(True, only.virtual_size)


class Digest:
    """What the bytes of an image add up to, while they come."""

    def __init__(self, image: images.Image) -> None:
        """
        :raises ImageUnacceptable: nobody can tell whether they are the image's
        """
        self._image = image
        name, self._wanted = 'md5', image.checksum
        if image.os_hash_algo and image.os_hash_value:
            name, self._wanted = image.os_hash_algo, image.os_hash_value
        if self._wanted is None or name not in _DIGESTS:
            raise _refused(image, 'the image has no supported hash or checksum')
        self._hash = hashlib.new(name, usedforsecurity=False)
        self._size = 0

    def add(self, piece: bytes) -> int:
        """Count a piece in; the size so far.

        :raises ImageUnacceptable: there are more bytes than the image has
        """
        self._hash.update(piece)
        self._size += len(piece)
        if self._image.size is not None and self._size > self._image.size:
            raise _refused(self._image, 'the image is larger than its declared size')
        return self._size

    def check(self) -> None:
        """Return if they are the image's, all of them.

        :raises GlanceUnavailable: some have not come
        :raises ImageUnacceptable: they are others
        """
        if self._image.size is not None and self._size < self._image.size:
            raise errors.GlanceUnavailable(
                reason=f'only {self._size} of {self._image.size} bytes were received')
        if not hmac.compare_digest(self._hash.hexdigest(), str(self._wanted)):
            raise _refused(self._image, 'the content does not match the hash or checksum')


def _formats(path: str) -> list[format_inspector.FileInspector]:
    """What the bytes can be taken for; ``raw`` only where they are nothing else."""
    with open(path, 'rb') as file:
        seen = format_inspector.InspectWrapper(file)
        while seen.formats is None and seen.read(_PIECE):
            pass
        seen.close()
        return seen.formats or []


def _why(exc: Exception) -> str:
    failed = getattr(exc, 'failures', None)
    return '; '.join(str(one) for one in failed.values()) if failed else str(exc)


def _refused(image: images.Image, reason: str) -> errors.ImageUnacceptable:
    return errors.ImageUnacceptable(image_id=image.id, reason=reason)
