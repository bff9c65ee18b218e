"""Reading, writing and comparing the data of disks, files and block devices in pieces."""
import contextlib
import ctypes
import errno
import functools
import hashlib
import os
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Protocol

from blockattach.platform import errors
from blockattach.platform import units

PIECE = units.MIB
"""Size of a piece in bytes.

Pieces start at multiples of this size, so that disks with the same data have the same pieces.
"""
SETTLED = units.MIB
"""Number of written bytes after which a copy flushes them to the medium.

The limit bounds how long other writers of the same disk wait for their own flushes, and keeps the
copy from filling the page cache.
"""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of exhausted space. A retry would fail as well."""
# Meaning of error numbers for any storage of volume data. Any other number is uncertain.
MEANINGS: Mapping[int, type[errors.BackendError]] = {
    **dict.fromkeys(NO_ROOM, errors.BackendFull),
    # Final, because writes fail until an operator remounts the file system.
    errno.EROFS: errors.BackendRefused,
    # The disk may have done the I/O, and a retry may succeed.
    errno.EIO: errors.BackendUncertain,
}
# fallocate of linux/falloc.h: keep the size, punch a hole.
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


@functools.cache
def zeros() -> bytes:
    """Return a piece of zeros.

    The kernel allocates no memory for these bytes, because nothing writes to them. The repetition
    of a single byte would write to the memory.
    """
    return bytes(PIECE)


class Disk(Protocol):
    """Data of one volume. Any I/O may raise OSError."""

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the data of each piece, except for pieces known to be holes."""

    def write(self, offset: int, piece: bytes) -> None:
        """Write a piece at an offset."""

    def discard(self, offset: int, length: int) -> bool:
        """Release the space of a range, which then reads as zeros.

        :returns: False if the disk does not support discarding
        """

    def sync(self) -> None:
        """Flush all written data to the medium, and drop the data from the page cache."""

    def close(self) -> None:
        """Close the disk."""


def error_of(exc: OSError, size_gb: float = 0) -> errors.BackendError:
    """Return the backend error for an error of a disk or a file system.

    :param size_gb: requested space in GiB, for the error about exhausted space
    """
    kind = MEANINGS.get(exc.errno or 0, errors.BackendUncertain)
    reason = exc.strerror or str(exc)
    if kind is errors.BackendFull:
        return errors.BackendFull(size_gb=f'{size_gb:g}', reason=reason)
    return kind(reason=f'file system error: {reason}')


@contextlib.contextmanager
def translated(size_gb: float = 0) -> Iterator[None]:
    """Translate errors of a disk or a file system into backend errors.

    :raises BackendError: the error that `error_of` returns for an OSError
    """
    try:
        yield
    except OSError as exc:
        raise error_of(exc, size_gb) from exc


def punch(file: int, offset: int, length: int) -> None:
    """Release the space of a range of an open file. The range then reads as zeros.

    :raises OSError: the file system does not support holes, or the disk failed
    """
    # The module os has no fallocate that takes a mode.
    call = ctypes.CDLL(None, use_errno=True).fallocate64
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(file, _KEEP_SIZE | _PUNCH_HOLE, offset, length):
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


def settle(file: int) -> None:
    """Flush written data to the medium, and drop the data from the page cache."""
    # Only clean pages can be dropped, so the data is flushed first.
    os.fdatasync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


class Device:
    """Block device, or a regular file that is used like a block device."""

    def __init__(self, path: str, size: int, writes: bool = False,
                 punch: Callable[[int, int, int], None] = punch) -> None:
        """
        :param size: number of bytes of the device that are used
        :param punch: function that releases the space of a range, with the parameters of `punch`
        :raises OSError: the device cannot be opened, or is smaller than ``size``
        """
        self._size = size
        self._punch = punch
        self._unsettled = 0
        # Without O_CREAT, so that a missing device does not become a regular file.
        self._file = os.open(path, (os.O_RDWR if writes else os.O_RDONLY) | os.O_CLOEXEC)
        if os.lseek(self._file, 0, os.SEEK_END) < size:
            os.close(self._file)
            raise OSError(errno.EIO, 'the disk is smaller than the volume', path)
        # Cached pages do not contain data that a target has written past the page cache.
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        offset = 0
        while offset < self._size:
            offset = self._data(offset)
            piece = self._read(offset, min(PIECE, self._size - offset))
            if piece:
                yield offset, piece
            offset += len(piece)

    def write(self, offset: int, piece: bytes) -> None:
        """Write a piece, flushing the device after every `SETTLED` bytes."""
        while piece:
            done = os.pwrite(self._file, piece, offset)
            # A write may be short, for example before the disk is full.
            piece, offset = piece[done:], offset + done
            self._unsettled += done
        if self._unsettled >= SETTLED:
            self.sync()

    def discard(self, offset: int, length: int) -> bool:
        try:
            self._punch(self._file, offset, length)
        except OSError as exc:
            # The documented number is EOPNOTSUPP, but some file systems and kernels use other
            # numbers.
            if exc.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            return False
        return True

    def sync(self) -> None:
        settle(self._file)
        self._unsettled = 0

    def close(self) -> None:
        os.close(self._file)

    def _data(self, offset: int) -> int:
        """Return the offset of the next data, rounded down to the beginning of a piece."""
        try:
            found = os.lseek(self._file, offset, os.SEEK_DATA)
        except OSError as exc:
            # Raised if only a hole follows.
            if exc.errno == errno.ENXIO:
                return self._size
            # Block devices do not support SEEK_DATA.
            if exc.errno == errno.EINVAL:
                return offset
            raise
        return max(offset, min(found, self._size) // PIECE * PIECE)

    def _read(self, offset: int, length: int) -> bytes:
        found = b''
        while len(found) < length:
            part = os.pread(self._file, length - len(found), offset + len(found))
            if not part:
                raise OSError(errno.EIO, 'the disk is smaller than the volume')
            found += part
        return found


def is_empty(piece: bytes) -> bool:
    """Return True if a piece contains only zeros, as a new volume does."""
    # A comparison stops at the first difference. Counting zeros would always read the whole piece
    # and hold the interpreter lock meanwhile.
    return piece == zeros()[:len(piece)]


class Digest:
    """SHA-256 checksum of the non-empty pieces of a disk, with their offsets and lengths."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, offset: int, piece: bytes) -> None:
        """Add a piece to the checksum. Empty pieces are ignored."""
        if not is_empty(piece):
            self._sum.update(b'%d:%d:' % (offset, len(piece)))
            self._sum.update(piece)

    def value(self) -> bytes:
        """Return the checksum of all pieces added so far."""
        return self._sum.digest()
