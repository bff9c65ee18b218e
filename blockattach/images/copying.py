"""The bytes of disks: files and block devices, at the speed that copies may have."""
import errno
import os
import threading
from collections.abc import Callable
from collections.abc import Iterator

from blockattach import clock as clocks
from blockattach import units

PIECE = units.MIB
_ZEROS = bytes(PIECE)


class Pace:
    """So many bytes a second at most; 0: as fast as it goes."""

    def __init__(self, bps_limit: int, clock: clocks.Clock) -> None:
        self._limit = bps_limit
        self._clock = clock
        self._begun = clock.monotonic()
        self._bytes = 0

    def after(self, count: int) -> None:
        """Wait until the next bytes may follow these."""
        if self._limit:
            self._bytes += count
            early = self._begun + self._bytes / self._limit - self._clock.monotonic()
            if early > 0:
                self._clock.wait(threading.Event(), early)


def read(path: str, size: int, pace: Pace) -> Iterator[bytes]:
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
            pace.after(len(piece))


def write(source: str, target: str, pace: Pace, note: Callable[[int], None]) -> None:
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
                    pace.after(len(piece))
                note(offset + len(piece))
            os.fsync(disk)
            os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(disk)


def save(source: str, size: int, target: str, pace: Pace, note: Callable[[int], None]) -> None:
    """Write a disk into a new file, which has holes where the disk is empty.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be read or written
    """
    with open(target, 'xb', buffering=0) as file:
        done = 0
        for piece in read(source, size, pace):
            if piece != _ZEROS[:len(piece)]:
                _write(file.fileno(), piece, done)
            done += len(piece)
            note(done)
        file.truncate(size)


def clear(path: str, size: int, note: Callable[[int], None],
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
            except OSError as exc:
                if exc.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                    raise
                for begin in range(offset, offset + length, PIECE):
                    _write(disk, _ZEROS[:min(PIECE, offset + length - begin)], begin)
            note(offset + length)
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
