"""The bytes of disks: files and block devices, at the speed that copies may have."""
import errno
import os
from collections.abc import Callable
from collections.abc import Iterator

from blockattach import units

PIECE = units.MIB
_ZEROS = b'\0' * PIECE


Copied = Callable[[int], None]
"""Called with how many bytes of a disk were read or written: it waits as long as the limit of the
backend wants, and what it raises ends the copy."""


def read(path: str, size: int, copied: Copied) -> Iterator[bytes]:
    """The first bytes of a disk, as they are on it now.

    :raises OSError: they cannot be read, or there are fewer
    """
    with open(path, 'rb', buffering=0) as file:
        # What a target has written past this machine's cache is not in what was read before.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        left = size
        while left:
            piece = file.read(min(PIECE, left))
            if not piece:
                raise OSError(errno.EIO, 'it ends before its size', path)
            left -= len(piece)
            yield piece
            copied(len(piece))


def write(source: str, target: str, copied: Copied, note: Callable[[int], None]) -> None:
    """Write a file onto a disk that reads as zeros and is at least as large.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be written
    """
    with open(source, 'rb', buffering=0) as file:
        # A device that is gone must not become a file.
        disk = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for offset, piece in _pieces(file.fileno()):
                if piece != _ZEROS[:len(piece)]:
                    _write(disk, piece, offset)
                    copied(len(piece))
                note(offset + len(piece))
            os.fsync(disk)
            os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(disk)


def save(source: str, size: int, target: str, copied: Copied, note: Callable[[int], None]) -> None:
    """Write a disk into a new file, which has holes where the disk is empty.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be read or written
    """
    with open(target, 'xb', buffering=0) as file:
        done = 0
        for piece in read(source, size, copied):
            if piece != _ZEROS[:len(piece)]:
                _write(file.fileno(), piece, done)
            done += len(piece)
            note(done)
        file.truncate(size)


def clear(path: str, size: int, copied: Copied,
          punch: Callable[[int, int, int], None]) -> None:
    """Let a disk read as zeros.

    :param punch: gives the room of a part of an open file back
    :raises OSError: it cannot be written
    """
    disk = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        step = units.GIB
        for offset in range(0, size, step):
            length = min(step, size - offset)
            try:
                punch(disk, offset, length)
                copied(0)
            except OSError as exc:
                if exc.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                    raise
                for begin in range(offset, offset + length, PIECE):
                    piece = _ZEROS[:offset + length - begin]
                    _write(disk, piece, begin)
                    copied(len(piece))
        os.fsync(disk)
    finally:
        os.close(disk)


def _pieces(file: int) -> Iterator[tuple[int, bytes]]:
    """What a file has, without its holes."""
    offset, end = 0, os.fstat(file).st_size
    while offset < end:
        try:
            offset = os.lseek(file, offset, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return
            raise
        piece = os.pread(file, PIECE, offset)
        if not piece:
            return
        yield offset, piece
        offset += len(piece)


def _write(file: int, piece: bytes, offset: int) -> None:
    while piece:
        done = os.pwrite(file, piece, offset)
        piece, offset = piece[done:], offset + done
