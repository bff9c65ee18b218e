"""Discard support, block sizes and allocated space of block devices and files."""
import functools
import os
import stat

from blockattach.platform import disks
from blockattach.storage.domain import connection

# Unit of ``st_blocks`` (stat(2)), and the block size that is reported for a file.
_SECTOR = 512
_PIECE = 65536


def discards(path: str) -> bool:
    """Return True if discarded space of a block device or a file is freed.

    Only the device or the file system itself is examined, not the layers below. The result is
    False for a path that does not exist.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False
    if stat.S_ISBLK(status.st_mode):
        return _of_queue(status.st_rdev, 'discard_max_bytes', 0) > 0
    return stat.S_ISREG(status.st_mode) and _punches(os.path.dirname(path), status.st_dev)


def block_sizes(path: str) -> connection.BlockSizes:
    """Return the logical and the physical block size of a block device.

    Both sizes are 512 bytes for a file, and for a path that does not exist.
    """
    try:
        status = os.stat(path)
    except OSError:
        return connection.BlockSizes(_SECTOR, _SECTOR)
    if not stat.S_ISBLK(status.st_mode):
        return connection.BlockSizes(_SECTOR, _SECTOR)
    return connection.BlockSizes(_of_queue(status.st_rdev, 'logical_block_size', _SECTOR),
                                 _of_queue(status.st_rdev, 'physical_block_size', _SECTOR))


def allocated(path: str) -> int:
    """Return the space in bytes that a file occupies.

    :raises OSError: if the file does not exist
    """
    return os.stat(path).st_blocks * _SECTOR


def _of_queue(device: int, name: str, unknown: int) -> int:
    """Return an attribute of the request queue of a block device, from sysfs.

    :param unknown: result if the attribute does not exist
    """
    place = f'/sys/dev/block/{os.major(device)}:{os.minor(device)}'
    # A partition has no queue of its own and uses the queue of its disk.
    for folder in (f'{place}/queue', f'{place}/../queue'):
        try:
            with open(f'{folder}/{name}', encoding='ascii') as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return unknown


@functools.lru_cache(maxsize=64)
def _punches(folder: str, _device: int) -> bool:
    """Return True if the file system of a folder frees the space of a punched hole.

    The function punches a hole in a temporary file once, and caches the result.

    :param _device: device number of the file system, as a part of the cache key, because another
        file system may be mounted at the folder later
    """
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
