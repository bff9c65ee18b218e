"""Operations on block devices of this host: exclusive open, flush, copy and loop devices."""
import contextlib
import errno
import fcntl
import glob
import os
from collections.abc import Iterator

from blockattach.compute import errors
from blockattach.compute.hosts.local import processes
from blockattach.platform import clock as clocks
from blockattach.platform import disks

_CLEARED_SECONDS = 10.0
_TICK = 0.05
# LOOP_CTL_REMOVE of linux/loop.h.
_REMOVE = 0x4C81


@contextlib.contextmanager
def held(path: str, server_id: str, volume_id: str) -> Iterator[None]:
    """Hold a block device open exclusively while the context is active.

    Meanwhile, no process can mount the device or make it a part of another device.

    :raises DeviceBusy: the device is mounted or in use
    """
    try:
        # The kernel grants O_EXCL on a block device once, and not while it is mounted.
        file = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno != errno.EBUSY:
            raise
        raise errors.DeviceBusy(server_id=server_id, volume_id=volume_id) from None
    try:
        yield
    finally:
        os.close(file)


def size(path: str) -> int:
    """Return the size of a device or file in bytes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(file, 0, os.SEEK_END)
    finally:
        os.close(file)


def flush(path: str) -> None:
    """Flush all writes of a block device to its medium.

    :raises HostError: the flush failed or timed out, for example because the target is unreachable
    """
    processes.run(['blockdev', '--flushbufs', path])


def copy(source: str, target: str) -> None:
    """Copy a whole block device to the beginning of another block device, and sync the result.

    Only differing blocks are written, so that a thin volume allocates no space for zeros.

    :raises OSError: the target is too small or not writable, or a device failed
    """
    length = size(source)
    with contextlib.closing(disks.Device(source, length)) as read, \
            contextlib.closing(disks.Device(target, length, writes=True)) as written:
        for (offset, piece), (_, present) in zip(read.pieces(), written.pieces(), strict=True):
            if piece != present:
                written.write(offset, piece)
        written.sync()


def loop_over(path: str, read_only: bool, block_size: int = 512) -> str:
    """Create a loop device for a file or a device, and return its path.

    :raises HostError: the loop device cannot be created
    """
    options = ['--read-only'] if read_only else []
    made = processes.run(['losetup', '--find', '--show', '--direct-io=on', '--sector-size',
                          str(block_size), *options, path]).strip()
    # The backing device may treat WRITE ZEROES with unmap as a discard that zeroes nothing.
    # Without discards the kernel writes zeros.
    with open(f'/sys/block/{os.path.basename(made)}/queue/discard_max_bytes', 'w',
              encoding='utf-8') as file:
        file.write('0')
    return made


def loop_of(path: str) -> str | None:
    """Return the path of the loop device with the given backing file, or None without one."""
    for found in glob.glob('/sys/block/loop*/loop/backing_file'):
        if _backing(found) == path:
            return f'/dev/{found.split("/")[3]}'
    return None


def is_over(loop: str, path: str) -> bool:
    """Return True if a loop device has the given backing file.

    :param loop: path of the loop device
    :param path: path of the backing file
    """
    return _backing(f'/sys/block/{os.path.basename(loop)}/loop/backing_file') == path


def grow_loop(loop: str) -> None:
    """Update the size of a loop device to the size of its backing file."""
    processes.run(['losetup', '--set-capacity', loop])


def unloop(loop: str, path: str, clock: clocks.Clock) -> bool:
    """Detach a loop device from its backing file, and delete the loop device.

    :param loop: path of the loop device
    :param path: path of the backing file
    :returns: False if a process still has the device open. The kernel then detaches the device
        when the last process closes it
    """
    processes.run(['losetup', '--detach', loop])
    # A process that has the device open, such as udevd for a moment, delays its removal.
    if not clock.until(lambda: not is_over(loop, path), _CLEARED_SECONDS, _TICK):
        return False
    # The discard limit would remain for the next user of this loop device.
    with open('/dev/loop-control', 'rb') as control, contextlib.suppress(OSError):
        fcntl.ioctl(control, _REMOVE, int(loop.removeprefix('/dev/loop')))
    return True


def _backing(name: str) -> str | None:
    try:
        with open(name, encoding='utf-8') as file:
            return file.read().rstrip('\n').removesuffix(' (deleted)')
    except OSError:
        return None
