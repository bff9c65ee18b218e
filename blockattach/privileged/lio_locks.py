"""One act per volume at a time: among threads, and among the processes of this host.

Several volume managers of one host may share LIO, each with a helper of its own. They meet at one
file, in which each volume has a byte; the kernel lets go of what a dead process held.
"""
import contextlib
import fcntl
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Iterator

from blockattach.privileged import lio_reservations

# struct flock: type, whence, start, length, pid.
_LOCK = struct.Struct('@hhqqi4x')

_GUARD = threading.Lock()
_LOCKS: 'weakref.WeakValueDictionary[str, threading.Lock]' = weakref.WeakValueDictionary()


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the lock of a volume; whoever waits too long is ended by the time of his act.

    :raises OSError: there is no place for the file
    """
    with _GUARD:
        lock = _LOCKS.setdefault(name, threading.Lock())
    with lock, _held_by_this_process(name):
        yield


@contextlib.contextmanager
def _held_by_this_process(name: str) -> Iterator[None]:
    # Of an open file, not of a process: closing another one would let go of those.
    file = os.open(lio_reservations.lock_file(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW,
                    _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, zlib.crc32(name.encode()), 1, 0))
        yield
    finally:
        os.close(file)
