"""Formats of images: inspection before any program opens an image, and conversion by qemu-img.

The data of an image may have another format than its ``disk_format`` declares. Some formats can
refer to other files of the host, which qemu-img would read (CVE-2024-32498, CVE-2022-47951,
CVE-2015-5162). The inspection rejects such images. The data is parsed only by
`oslo_utils.imageutils.format_inspector`.

qemu-img runs with limits and cannot gain privileges. If the service runs as root, qemu-img runs as
another user. Its working directory contains the source file and the target file, whose names the
service has chosen. The formats of both files are given explicitly.
"""
import dataclasses
import errno
import hashlib
import hmac
import os
import pwd
import subprocess
from collections.abc import Sequence

from oslo_concurrency import processutils
from oslo_utils.imageutils import format_inspector

from blockattach.platform import units
from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.domain import images

_PIECE = 64 * units.KIB
# Formats that the inspector may detect in the data of a plain disk. Such data is written to a
# volume unchanged, and no program interprets it.
_PLAIN = frozenset(('raw', 'gpt', 'iso', 'luks'))
_RAW = {'raw': _PLAIN, 'ami': _PLAIN, 'iso': frozenset(('iso', 'gpt'))}
"""Declared formats that need no conversion, and the formats that may be detected in their data."""
_DIGESTS = frozenset(('md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'blake2b', 'blake2s',
                      'sha3_224', 'sha3_256', 'sha3_384', 'sha3_512'))
_NAMES = {'vhd': 'vpc', 'ploop': 'parallels'}
"""Names of formats in qemu-img by their names in Glance, if the names differ."""
# processutils sets the limits with ``python -m`` in the folder of the image. PYTHONSAFEPATH keeps
# Python from importing modules from this folder.
_ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C', 'PYTHONSAFEPATH': '1'}
_LONGEST_REASON = 500
_FULL = {errno.ENOSPC: 'No space left on device', errno.EDQUOT: 'Disk quota exceeded'}
"""Messages of the C library for a full disk, with ``LC_ALL=C``.

EFBIG is not included, because the size limit of the conversion causes it, not a full disk.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """Result of the inspection of an accepted image.

    :ivar converted: True if the image must be converted to raw data
    :ivar virtual_size: size of the raw data in bytes
    """

    converted: bool
    virtual_size: int


def inspect(path: str, image: images.Image, allowed: Sequence[str], vmdk_types: Sequence[str],
            ) -> Seen:
    """Inspect the file of a downloaded image.

    :param path: path of the file
    :param allowed: permitted values of ``disk_format``
    :param vmdk_types: permitted values of ``createType`` in VMDK images
    :raises ImageUnacceptable: if the image is not permitted, not safe, or has another format than
        declared
    """
    declared = image.disk_format or ''
    # An image with the format ``ami`` is a plain disk, like a raw image.
    if declared not in allowed and not (declared == 'ami' and 'raw' in allowed):
        raise _refused(image, f'disk format {declared or "none"} is not allowed')
    if image.container_format not in images.CONTAINERS:
        raise _refused(image, f'container format {image.container_format} is not supported')
    formats = _formats(path)
    names = {str(inspector) for inspector in formats}
    # Data that matches two formats may be safe in one of them and refer to a file in the other.
    if (not names <= _RAW.get(declared, {declared})
            or (declared not in _RAW and len(formats) != 1)):
        raise _refused(image, f'the disk format is declared as {declared}, but the content is '
                              f'{" and ".join(sorted(names)) or "unknown"}')
    if declared in _RAW:
        with open(path, 'rb') as file:
            return Seen(False, file.seek(0, 2))
    only = formats[0]
    try:
        only.safety_check()
    except (format_inspector.SafetyCheckFailed, format_inspector.ImageFormatError) as exc:
        raise _refused(image, _why(exc)) from exc
    if isinstance(only, format_inspector.VMDKInspector) and only.vmdktype.lower() not in {
            vmdk_type.lower() for vmdk_type in vmdk_types}:
        raise _refused(image, f'VMDK type {only.vmdktype} is not allowed')
    if only.virtual_size <= 0:
        raise _refused(image, 'the virtual size is not specified')
    return Seen(True, only.virtual_size)


class Digest:
    """Verification of the hash and size of an image whose data is received in pieces."""

    def __init__(self, image: images.Image) -> None:
        """Read the expected hash and size of an image.

        :raises ImageUnacceptable: if the image has no hash or checksum that can be verified
        """
        self._image = image
        # An image without os_hash_value has only an MD5 checksum.
        name, self._expected = 'md5', image.checksum
        if image.os_hash_algo and image.os_hash_value:
            name, self._expected = image.os_hash_algo, image.os_hash_value
        if self._expected is None or name not in _DIGESTS:
            raise _refused(image, 'the image has no supported hash or checksum')
        # Without ``usedforsecurity=False``, Python refuses MD5 in FIPS mode.
        self._hash = hashlib.new(name, usedforsecurity=False)
        self._size = 0

    def add(self, piece: bytes) -> int:
        """Add a received piece of the data, and return the number of bytes received so far.

        :raises ImageUnacceptable: if the received data is larger than the size of the image
        """
        self._hash.update(piece)
        self._size += len(piece)
        if self._image.size is not None and self._size > self._image.size:
            raise _refused(self._image, 'the image is larger than its declared size')
        return self._size

    def check(self) -> None:
        """Check that the received data is complete and has the expected hash.

        :raises GlanceUnavailable: if data is missing
        :raises ImageUnacceptable: if the hash or checksum does not match
        """
        if self._image.size is not None and self._size < self._image.size:
            raise errors.GlanceUnavailable(
                reason=f'only {self._size} of {self._image.size} bytes were received')
        if not hmac.compare_digest(self._hash.hexdigest(), str(self._expected)):
            raise _refused(self._image, 'the content does not match the hash or checksum')


def _formats(path: str) -> list[format_inspector.FileInspector]:
    """Return the formats that the data of a file matches, or ``raw`` if it matches no other."""
    with open(path, 'rb') as file:
        seen = format_inspector.InspectWrapper(file)
        while seen.formats is None and seen.read(_PIECE):
            pass
        # At the end of the data, formats that would need more data are known not to match.
        seen.close()
        return seen.formats or []


def _why(exc: Exception) -> str:
    failures = getattr(exc, 'failures', None)
    return '; '.join(str(failure) for failure in failures.values()) if failures else str(exc)


def _refused(image: images.Image, reason: str) -> errors.ImageUnacceptable:
    return errors.ImageUnacceptable(image_id=image.id, reason=reason)


class Converter:
    """Converter of disk images from one format to another."""

    def __init__(self, settings: images_conf.ImageSettings) -> None:
        self._settings = settings

    def hand_over(self, folder: str) -> None:
        """Make the account of qemu-img the owner of a folder and of the files in it.

        Nothing happens if this process does not run as root.

        :raises ConfigurationError: if the account does not exist
        """
        if (account := self._account()) is not None:
            for path in (folder, *(os.path.join(folder, name) for name in os.listdir(folder))):
                os.chown(path, account.pw_uid, account.pw_gid)

    def convert(self, folder: str, source: str, source_format: str, target: str,
                target_format: str, most_bytes: int) -> None:
        """Convert the file ``source`` to the new file ``target`` in the same folder.

        :param source_format: format of ``source``, as named by Glance
        :param target_format: format of ``target``, as named by Glance
        :param most_bytes: maximum size of ``target`` in bytes
        :raises ConversionFailed: if the conversion fails or exceeds a limit
        :raises OSError: if there is not enough space for ``target``
        :raises ConfigurationError: if qemu-img or its account does not exist
        """
        self.hand_over(folder)
        settings = self._settings
        words = ['qemu-img', 'convert', '-f', _name(source_format), '-O', _name(target_format)]
        if target_format == 'qcow2' and settings.compress:
            words.append('-c')
        if target_format == 'vhd':
            # Without this option, qemu-img rounds the size of the disk to a CHS geometry.
            words += ['-o', 'force_size=on']
        started: list[subprocess.Popen[bytes]] = []
        try:
            processutils.execute(
                *self._rightless(), *words, f'./{source}', f'./{target}', cwd=folder,
                env_variables=_ENVIRONMENT, timeout=settings.conversion_seconds,
                on_execute=started.append,
                prlimit=processutils.ProcessLimits(
                    address_space=settings.address_space, cpu_time=settings.cpu_seconds,
                    file_size=most_bytes, core_file_size=0))
        except processutils.ProcessExecutionError as exc:
            complaint = (str(exc.stderr or '').strip()
                         or f'qemu-img exited with status {exc.exit_code}')
            for number, said in _FULL.items():
                if said in complaint:
                    raise OSError(number, said) from exc
            raise errors.ConversionFailed(reason=complaint[-_LONGEST_REASON:]) from exc
        except subprocess.TimeoutExpired as exc:
            # processutils does not end a program that exceeds the timeout.
            started[0].kill()
            started[0].communicate()
            raise errors.ConversionFailed(
                reason=f'qemu-img did not finish within {settings.conversion_seconds} '
                       f'seconds') from exc
        except OSError as exc:
            raise errors.ConfigurationError(reason=f'cannot run qemu-img: {exc}') from exc

    def _rightless(self) -> list[str]:
        # With pdeathsig, the kernel kills qemu-img when this process ends.
        words = ['setpriv', '--no-new-privs', '--pdeathsig=KILL']
        if (account := self._account()) is not None:
            words += [f'--reuid={account.pw_uid}', f'--regid={account.pw_gid}', '--clear-groups',
                      '--inh-caps=-all', '--bounding-set=-all']
        return [*words, '--']

    def _account(self) -> pwd.struct_passwd | None:
        """Return the account that must run qemu-img.

        :returns: None if this process does not run as root. qemu-img then runs with the same
            account
        :raises ConfigurationError: if the account does not exist
        """
        if os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(self._settings.conversion_user)
        except KeyError as exc:
            raise errors.ConfigurationError(
                reason=f'account {self._settings.conversion_user} does not exist '
                       '([images] image_conversion_user)') from exc


def _name(disk_format: str) -> str:
    return _NAMES.get(disk_format, disk_format)
