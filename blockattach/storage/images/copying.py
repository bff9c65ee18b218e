"""Copies between image files and disks of volumes, within the rate limit of the backend."""
import contextlib
import os
from collections.abc import Callable
from collections.abc import Iterator

from blockattach.platform import disks
from blockattach.platform import units

Copied = Callable[[int], None]
"""Callback with the number of bytes of a disk that were just read or written.

The callback waits to keep the rate limit of the backend. An exception from it ends the copy.
"""


def read(disk: disks.Disk, size: int, copied: Copied) -> Iterator[bytes]:
    """Yield the data of a disk of ``size`` bytes in pieces, with zeros for its holes.

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
    """Write a file to a disk that reads as zeros and is at least as large.

    :param source: path of the file
    :param note: called now and then with the number of copied bytes
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
    """Write a disk to a new file, which has holes where the disk is empty.

    :param target: path of the file
    :param note: called now and then with the number of copied bytes
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
    """Make a disk of ``size`` bytes read as zeros, by discards where possible.

    :raises OSError: if the disk cannot be written
    """
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
    """Yield the zeros of a hole, which do not count as read."""
    while length > 0:
        piece = disks.zeros()[:length]
        yield piece
        length -= len(piece)
        copied(0)
