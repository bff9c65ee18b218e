"""The bytes of disks, files and block devices, piece by piece: read, written, and compared."""
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
"""Pieces begin at multiples of this, so that two disks with the same bytes have the same ones."""
SETTLED = units.MIB
"""After so many bytes a copy waits until they are on the medium: what others make durable on the
same disk waits for no more than that, and the cache is left to them."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of exhausted space, on which retrying is pointless."""
# Meaning of an error number for any storage of volume data. Any other number is uncertain.
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
    """A piece of them. Nothing writes to it, so it takes no memory, as a repeated byte would."""
    return bytes(PIECE)


class Disk(Protocol):
    """The bytes of one volume. Any I/O raises OSError."""

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Each piece as it is on the medium now, by its offset; holes are left out."""

    def write(self, offset: int, piece: bytes) -> None:
        """Write a piece."""

    def discard(self, offset: int, length: int) -> bool:
        """Give the room of a part back, which reads as zeros then; False: it cannot."""

    def sync(self) -> None:
        """Return when all that was written is on the medium, and is read from there again."""

    def close(self) -> None:
        """End the use."""


def error_of(exc: OSError, size_gb: float = 0) -> errors.BackendError:
    """Return the backend error for an error of a disk or a file system.

    :param size_gb: requested space, for the error about exhausted space
    """
    kind = MEANINGS.get(exc.errno or 0, errors.BackendUncertain)
    reason = exc.strerror or str(exc)
    if kind is errors.BackendFull:
        return errors.BackendFull(size_gb=f'{size_gb:g}', reason=reason)
    return kind(reason=f'file system error: {reason}')


@contextlib.contextmanager
def translated(size_gb: float = 0) -> Iterator[None]:
    """Translate errors of a disk or a file system into backend errors.

    :raises BackendError: see `error_of`
    """
    try:
        yield
    except OSError as exc:
        raise error_of(exc, size_gb) from exc


def punch(file: int, offset: int, length: int) -> None:
    """Give the room of a part of an open file back; it reads as zeros then.

    :raises OSError: the file system cannot, or the disk failed
    """
    call = ctypes.CDLL(None, use_errno=True).fallocate64
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(file, _KEEP_SIZE | _PUNCH_HOLE, offset, length):
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


def settle(file: int) -> None:
    """Return when what was written is on the medium, and is read from there again."""
    os.fdatasync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


class Device:
    """A block device, or a file that is one."""

    def __init__(self, path: str, size: int, writes: bool = False,
                 punch: Callable[[int, int, int], None] = punch) -> None:
        """
        :param size: how many bytes of it are used
        :param punch: see `punch`
        :raises OSError: it cannot be opened, or is smaller
        """
        self._size = size
        self._punch = punch
        self._unsettled = 0
        # A device that is gone must not become a file.
        self._file = os.open(path, (os.O_RDWR if writes else os.O_RDONLY) | os.O_CLOEXEC)
        if os.lseek(self._file, 0, os.SEEK_END) < size:
            os.close(self._file)
            raise OSError(errno.EIO, 'the disk is smaller than the volume', path)
        # What a target has written past this machine's cache is not in what was read before.
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """See `Disk`."""
        offset = 0
        while offset < self._size:
            offset = self._data(offset)
            piece = self._read(offset, min(PIECE, self._size - offset))
            if piece:
                yield offset, piece
            offset += len(piece)

    def write(self, offset: int, piece: bytes) -> None:
        """See `Disk`."""
        while piece:
            done = os.pwrite(self._file, piece, offset)
            piece, offset = piece[done:], offset + done
            self._unsettled += done
        if self._unsettled >= SETTLED:
            self.sync()

    def discard(self, offset: int, length: int) -> bool:
        """See `Disk`."""
        try:
            self._punch(self._file, offset, length)
        except OSError as exc:
            if exc.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            return False
        return True

    def sync(self) -> None:
        """See `Disk`."""
        settle(self._file)
        self._unsettled = 0

    def close(self) -> None:
        """See `Disk`."""
        os.close(self._file)

    def _data(self, offset: int) -> int:
        """Where the next bytes are, rounded down; a device has no holes."""
        try:
            found = os.lseek(self._file, offset, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return self._size
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
    """Whether a piece is nothing but zeros, as a new volume is everywhere."""
    # To compare ends at the first other byte; to count would hold up all threads meanwhile.
    return piece == zeros()[:len(piece)]


class Digest:
    """A checksum of the pieces that are not empty, and of where they are."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, offset: int, piece: bytes) -> None:
        """Take a piece into account."""
        if not is_empty(piece):
            self._sum.update(b'%d:%d:' % (offset, len(piece)))
            self._sum.update(piece)

    def value(self) -> bytes:
        """The checksum of all until now."""
        return self._sum.digest()
