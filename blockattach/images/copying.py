"""The bytes of disks, as they come from images and go into them, at the speed that copies may
have."""
import errno
import os
from collections.abc import Callable
from collections.abc import Iterator
from typing import Protocol

from blockattach import units

PIECE = units.MIB
_ZEROS = bytes(PIECE)


class Disk(Protocol):
    """The bytes of a volume as its backend gives them. Any I/O raises OSError."""

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Each piece as it is on the medium now, by its offset; holes are left out."""

    def write(self, offset: int, piece: bytes) -> None:
        """Write a piece."""

    def discard(self, offset: int, length: int) -> bool:
        """Give the room of a part back, which reads as zeros then; False: it cannot."""

    def sync(self) -> None:
        """Return when all that was written is on the medium."""

    def close(self) -> None:
        """End the use."""


Copied = Callable[[int], None]
"""Called with how many bytes of a disk were read or written: it waits as long as the limit of the
backend wants, and what it raises ends the copy."""


def read(disk: Disk, size: int, copied: Copied) -> Iterator[bytes]:
    """The first bytes of a disk, as they are on it now; its holes are zeros.

    :raises OSError: they cannot be read
    """
    for piece in _whole(disk, size):
        yield piece
        copied(len(piece))


def read_file(path: str, copied: Copied) -> Iterator[bytes]:
    """The bytes of a file that is no disk.

    :raises OSError: they cannot be read
    """
    with open(path, 'rb') as file:
        while piece := file.read(PIECE):
            yield piece
            copied(0)


def write(source: str, disk: Disk, copied: Copied, note: Callable[[int], None]) -> None:
    """Write a file onto a disk that reads as zeros and is at least as large.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be written
    """
    with open(source, 'rb', buffering=0) as file:
        for offset, piece in _pieces(file.fileno()):
            if not _is_empty(piece):
                disk.write(offset, piece)
                copied(len(piece))
            note(offset + len(piece))
    disk.sync()


def save(disk: Disk, size: int, target: str, copied: Copied,
         note: Callable[[int], None]) -> None:
    """Write a disk into a new file, which has holes where the disk is empty.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be read or written
    """
    with open(target, 'xb') as file:
        for offset, piece in disk.pieces():
            if not _is_empty(piece):
                file.seek(offset)
                file.write(piece)
            copied(len(piece))
            note(offset + len(piece))
        file.truncate(size)


def clear(disk: Disk, size: int, copied: Copied) -> None:
    """Let a disk read as zeros.

    :raises OSError: it cannot be written
    """
    for offset in range(0, size, units.GIB):
        length = min(units.GIB, size - offset)
        if disk.discard(offset, length):
            copied(0)
            continue
        for begin in range(offset, offset + length, PIECE):
            piece = _ZEROS[:offset + length - begin]
            disk.write(begin, piece)
            copied(len(piece))
    disk.sync()


def _whole(disk: Disk, size: int) -> Iterator[bytes]:
    done = 0
    for offset, piece in disk.pieces():
        yield from _zeros(offset - done)
        yield piece
        done = offset + len(piece)
    yield from _zeros(size - done)


def _zeros(length: int) -> Iterator[bytes]:
    while length > 0:
        yield _ZEROS[:length]
        length -= PIECE


def _is_empty(piece: bytes) -> bool:
    return piece == _ZEROS[:len(piece)]


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
