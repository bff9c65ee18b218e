"""Persistent reservations in LIO: their holders, and what is stored for the next power loss. And
beside it the lock of a volume: one act at a time, among threads and processes of this host.

LIO writes registrations that shall survive into a file per logical unit, but neither reads it back
nor removes revoked initiators: both are done here.

Several volume managers of one host may share LIO, each with a helper of its own. They lock one
file, in which each volume has a byte; the kernel releases the locks of a dead process.
"""
import contextlib
import fcntl
import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from blockattach.platform import errors
from blockattach.storage.privileged import lio_tree

# The kernel's own default, where its tree does not say.
_DATABASE = '/var/target'
# A list is silently cut off where the next line would not fit into a page.
_PAGE, _LONGEST_LINE = 4096, 384

# linux/fs.h: what is changed below a folder with these flags is on the disk before the call ends.
_GETFLAGS, _SETFLAGS = 0x80086601, 0x40086602
_SYNC_FLAGS = 0x00000008 | 0x00010000

# struct flock: type, whence, start, length, pid.
_LOCK = struct.Struct('@hhqqi4x')

_REGISTERED = re.compile(r'^\S+ Node: ([^,\s]+)', re.MULTILINE)
_HOLDER = re.compile(r'Initiator: ([^,\s]+)')
_RECORD = re.compile(r'PR_REG_START: \d+\n(.*?)PR_REG_END: \d+\n?', re.DOTALL)


def make_folders() -> None:
    """Where LIO writes: it makes no folders, refuses a reservation without them, and does not wait
    for the disk.
    """
    for folder in ('pr', 'alua'):
        os.makedirs(f'{_database()}/{folder}', mode=0o700, exist_ok=True)
    _write_through(f'{_database()}/pr')


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the lock of a volume; a wait counts against the timeout of the act.

    :raises OSError: the file cannot be made
    """
    # Of an open file, not of a process: those are released when any descriptor is closed, and
    # exclude no thread.
    file = os.open(f'{_database()}/blockattach.lock', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW,
                    _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, zlib.crc32(name.encode()), 1, 0))
        yield
    finally:
        os.close(file)


def held(store: str) -> dict[str, Any]:
    """Holders of registrations and of the reservation on a backstore.

    ``complete`` is False where there are more than LIO reports.
    """
    listed = lio_tree.read(f'{store}/pr/res_pr_registered_i_pts') or ''
    registered = sorted(set(_REGISTERED.findall(listed)))
    holders = _HOLDER.findall(lio_tree.read(f'{store}/pr/res_holder') or '')
    if 'All Registrants' in (lio_tree.read(f'{store}/pr/res_pr_type') or ''):
        holders = registered
    return {'registered': registered, 'holders': holders,
            'complete': len(listed) < _PAGE - _LONGEST_LINE}


def restore(store: str, serial: str) -> None:
    """Restore the stored registrations of a new backstore, before any grant.

    :raises BackendRefused: LIO does not take it; hosts could harm each other without it
    """
    try:
        for record in _records(serial):
            with open(f'{store}/pr/res_aptpl_metadata', 'w', encoding='utf-8') as file:
                file.write(','.join(record.split()))
    except OSError as exc:
        raise errors.BackendRefused(
            reason=f'LIO cannot restore the reservations in {_kept(serial)} ({exc.strerror}); '
                   f'remove the file if no host relies on the reservations') from exc


def forget(serial: str, initiator: str | None = None) -> None:
    """Remove an initiator, or all, from what is stored, so that it is not restored."""
    path = _kept(serial)
    while True:
        try:
            before = os.stat(path)
        except FileNotFoundError:
            return
        records = _records(serial)
        left = [record for record in records
                if initiator is not None and f'initiator_node={initiator}\n' not in record]
        if left == records:
            return
        if not left:
            os.unlink(path)
            return
        draft = f'{path}.new'
        with open(draft, 'w', encoding='utf-8') as file:
            for number, record in enumerate(left):
                file.write(f'PR_REG_START: {number}\n{record}PR_REG_END: {number}\n')
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            now = os.stat(path)
            if (now.st_mtime_ns, now.st_size) == (before.st_mtime_ns, before.st_size):
                os.replace(draft, path)
                return


def _write_through(folder: str) -> None:
    """Set the attributes of ``chattr +SD``, which file systems in memory lack."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            [flags] = struct.unpack('l', fcntl.ioctl(descriptor, _GETFLAGS, bytes(8)))
            fcntl.ioctl(descriptor, _SETFLAGS, struct.pack('l', flags | _SYNC_FLAGS))
    finally:
        os.close(descriptor)


def _records(serial: str) -> list[str]:
    try:
        with open(_kept(serial), encoding='utf-8', errors='replace') as file:
            return _RECORD.findall(file.read())
    except FileNotFoundError:
        return []


def _kept(serial: str) -> str:
    return f'{_database()}/pr/aptpl_{serial}'


def _database() -> str:
    return lio_tree.read(f'{lio_tree.root()}/dbroot') or _DATABASE
