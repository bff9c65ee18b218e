"""What the kernel reports of a block device or a file."""
import functools
import os
import stat

from blockattach.platform import disks
from blockattach.storage.domain import connection

_SECTOR = 512
_PIECE = 65536


def discards(path: str) -> bool:
    """Whether room that is discarded there is given back, by this layer at least."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    if stat.S_ISBLK(found.st_mode):
        return _of_queue(found.st_rdev, 'discard_max_bytes', 0) > 0
    return stat.S_ISREG(found.st_mode) and _punches(os.path.dirname(path), found.st_dev)


def block_sizes(path: str) -> connection.BlockSizes:
    """Those of a block device; of anything else those of a plain disk."""
    try:
        found = os.stat(path)
    except OSError:
        return connection.BlockSizes(_SECTOR, _SECTOR)
    if not stat.S_ISBLK(found.st_mode):
        return connection.BlockSizes(_SECTOR, _SECTOR)
    return connection.BlockSizes(_of_queue(found.st_rdev, 'logical_block_size', _SECTOR),
                                 _of_queue(found.st_rdev, 'physical_block_size', _SECTOR))


def allocated(path: str) -> int:
    """How many bytes of room a file takes.

    :raises OSError: it is not there
    """
    return os.stat(path).st_blocks * _SECTOR


def _of_queue(device: int, name: str, unknown: int) -> int:
    """A figure of a block device's queue; that of a partition is its disk's."""
    place = f'/sys/dev/block/{os.major(device)}:{os.minor(device)}'
    for folder in (f'{place}/queue', f'{place}/../queue'):
        try:
            with open(f'{folder}/{name}', encoding='ascii') as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return unknown


@functools.lru_cache(maxsize=64)
def _punches(folder: str, _device: int) -> bool:
    """Whether the file system of a folder gives the room of a hole back; tried once."""
    try:
        file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        os.write(file, b'\1' * _PIECE)
        os.fsync(file)
        before = os.fstat(file).st_blocks
        disks.punch(file, 0, _PIECE)
        return os.fstat(file).st_blocks < before
    except OSError:
        return False
    finally:
        os.close(file)
