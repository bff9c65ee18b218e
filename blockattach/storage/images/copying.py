"""The bytes of images and disks, from the one to the other, at the speed that copies may have."""
import contextlib
import os
from collections.abc import Callable
from collections.abc import Iterator

from blockattach.platform import disks
from blockattach.platform import units

Copied = Callable[[int], None]
"""Called with how many bytes of a disk were read or written: it waits as long as the limit of the
backend wants, and what it raises ends the copy."""


def read(disk: disks.Disk, size: int, copied: Copied) -> Iterator[bytes]:
    """The first bytes of a disk, as they are on it now; its holes are zeros.

    :raises OSError: they cannot be read
    """
    done = 0
    for offset, piece in disk.pieces():
        yield from _hole(offset - done, copied)
        yield piece
        done = offset + len(piece)
        copied(len(piece))
    yield from _hole(size - done, copied)


def write(source: str, disk: disks.Disk, copied: Copied, note: Callable[[int], None]) -> None:
    """Write a file onto a disk that reads as zeros and is at least as large.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be written
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
    """Write a disk into a new file, which has holes where the disk is empty.

    :param note: called now and then with how many bytes are done
    :raises OSError: it cannot be read or written
    """
    with open(target, 'xb') as made:
        made.truncate(size)
    with contextlib.closing(disks.Device(target, size, writes=True)) as file:
        for offset, piece in disk.pieces():
            if not disks.is_empty(piece):
                file.write(offset, piece)
            copied(len(piece))
            note(offset + len(piece))


def clear(disk: disks.Disk, size: int, copied: Copied) -> None:
    """Let a disk read as zeros.

    :raises OSError: it cannot be written
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
    """What it reads as; nothing of it is read."""
    while length > 0:
        piece = disks.zeros()[:length]
        yield piece
        length -= len(piece)
        copied(0)
