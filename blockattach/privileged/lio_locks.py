"""One act per volume at a time: among threads, and among the processes of this host.

Several volume managers of one host may share LIO, each with a helper of its own. They lock one
file, in which each volume has a byte; the kernel releases the locks of a dead process.
"""
import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator

from blockattach.privileged import lio_reservations

# struct flock: type, whence, start, length, pid.
_LOCK = struct.Struct('@hhqqi4x')


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the lock of a volume; a wait counts against the timeout of the act.

    :raises OSError: the file cannot be made
    """
    # Of an open file, not of a process: those are released when any descriptor is closed, and
    # exclude no thread.
    file = os.open(lio_reservations.lock_file(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW,
                    _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, zlib.crc32(name.encode()), 1, 0))
        yield
    finally:
        os.close(file)
