"""Block devices of this host: who uses them, what is flushed, and loop devices over files."""
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
    """Nobody mounts the device meanwhile, or makes it a part of another one.

    :raises DeviceBusy: somebody has
    """
    try:
        # Of a block device the kernel gives this to one only, and not while it is mounted.
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
    """In bytes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(file, 0, os.SEEK_END)
    finally:
        os.close(file)


def flush(path: str) -> None:
    """Return when what was written to the device is on its medium.

    :raises HostError: it is not, or not in time: a target that is gone lets it wait for ever
    """
    processes.run(['blockdev', '--flushbufs', path])


def copy(source: str, target: str) -> None:
    """Copy all of a device to the beginning of another one, down to its medium; only what differs
    is written, so that a thin volume takes no room for zeros.

    :raises OSError: the other one is smaller, cannot be written, or one of them failed
    """
    length = size(source)
    with contextlib.closing(disks.Device(source, length)) as read, \
            contextlib.closing(disks.Device(target, length, writes=True)) as written:
        for (offset, piece), (_, present) in zip(read.pieces(), written.pieces(), strict=True):
            if piece != present:
                written.write(offset, piece)
        written.sync()


def loop_over(path: str, read_only: bool, block_size: int = 512) -> str:
    """Make a loop device over a file or a device.

    :raises HostError: there can be none
    """
    options = ['--read-only'] if read_only else []
    made = processes.run(['losetup', '--find', '--show', '--direct-io=on', '--sector-size',
                          str(block_size), *options, path]).strip()
    # What lies under it may take "zero this, or give it back" for a discard, which zeroes nothing:
    # without discards the kernel writes zeros.
    with open(f'/sys/block/{os.path.basename(made)}/queue/discard_max_bytes', 'w',
              encoding='utf-8') as file:
        file.write('0')
    return made


def loop_of(path: str) -> str | None:
    """The loop device over this file."""
    for found in glob.glob('/sys/block/loop*/loop/backing_file'):
        if _backing(found) == path:
            return f'/dev/{found.split("/")[3]}'
    return None


def is_over(loop: str, path: str) -> bool:
    """Whether a loop device is one over this file."""
    return _backing(f'/sys/block/{os.path.basename(loop)}/loop/backing_file') == path


def grow_loop(loop: str) -> None:
    """Let a loop device be as large as what lies under it."""
    processes.run(['losetup', '--set-capacity', loop])


def unloop(loop: str, path: str, clock: clocks.Clock) -> bool:
    """Take a loop device away; False: somebody has it open, with whom it goes."""
    processes.run(['losetup', '--detach', loop])
    # It goes with the last one who has it open, as udevd for a moment.
    if not clock.until(lambda: not is_over(loop, path), _CLEARED_SECONDS, _TICK):
        return False
    # The limit would stay, for who is given this number next, and is not raised again.
    with open('/dev/loop-control', 'rb') as control, contextlib.suppress(OSError):
        fcntl.ioctl(control, _REMOVE, int(loop.removeprefix('/dev/loop')))
    return True


def _backing(name: str) -> str | None:
    try:
        with open(name, encoding='utf-8') as file:
            return file.read().rstrip('\n').removesuffix(' (deleted)')
    except OSError:
        return None
