"""Persistent reservations in LIO and their storage across power losses, and the lock of a volume.

LIO writes registrations that must survive a power loss to one file per logical unit. LIO neither
reads this file nor removes revoked initiators from it. This module does both.

The lock of a volume is held by one thread of one process of this host at a time. Several volume
managers of a host may share LIO, each with a privileged daemon of its own. They lock one file, in
which each volume has one byte. The kernel releases the locks of a dead process.
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

# Default of the kernel, for kernels whose configfs tree does not have this setting.
_DATABASE = '/var/target'
# The kernel silently cuts off a list where the next line would not fit into a page.
_PAGE, _LONGEST_LINE = 4096, 384

# linux/fs.h: flags of a folder. Changes in the folder are on the disk before the call returns.
_GETFLAGS, _SETFLAGS = 0x80086601, 0x40086602
_SYNC_FLAGS = 0x00000008 | 0x00010000

# struct flock: type, whence, start, length, pid.
_LOCK = struct.Struct('@hhqqi4x')

_REGISTERED = re.compile(r'^\S+ Node: ([^,\s]+)', re.MULTILINE)
_HOLDER = re.compile(r'Initiator: ([^,\s]+)')
_RECORD = re.compile(r'PR_REG_START: \d+\n(.*?)PR_REG_END: \d+\n?', re.DOTALL)


def make_folders() -> None:
    """Create the folders in which LIO stores reservations.

    LIO does not create these folders itself, and refuses reservations without them. LIO also does
    not wait for the disk, so the folder of the reservations is made to write synchronously.
    """
    for folder in ('pr', 'alua'):
        os.makedirs(f'{_database()}/{folder}', mode=0o700, exist_ok=True)
    _write_through(f'{_database()}/pr')


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the per-volume lock. Time spent waiting counts against the timeout of the call.

    :raises OSError: if the lock file cannot be created
    """
    # Locks of an open file description are used. Locks of a process would not exclude its other
    # threads, and would be released when the process closes any descriptor of the file.
    file = os.open(f'{_database()}/blockattach.lock', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW,
                    _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, zlib.crc32(name.encode()), 1, 0))
        yield
    finally:
        os.close(file)


def held(store: str) -> dict[str, Any]:
    """Return the persistent reservations on a backstore.

    :returns: ``registered``, the initiators with registrations; ``holders``, the initiators that
        hold the reservation; ``complete``, False if LIO may have cut off the list of registrations
    """
    listed = lio_tree.read(f'{store}/pr/res_pr_registered_i_pts') or ''
    registered = sorted(set(_REGISTERED.findall(listed)))
    holders = _HOLDER.findall(lio_tree.read(f'{store}/pr/res_holder') or '')
    if 'All Registrants' in (lio_tree.read(f'{store}/pr/res_pr_type') or ''):
        holders = registered
    return {'registered': registered, 'holders': holders,
            'complete': len(listed) < _PAGE - _LONGEST_LINE}


def restore(store: str, serial: str) -> None:
    """Restore the stored registrations of a volume to its new backstore, before any grant.

    :param store: path of the backstore
    :param serial: serial number of the logical unit, which names the file of the registrations
    :raises BackendRefused: if LIO rejects the registrations; without them, hosts could damage the
        data of the volume
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
    """Delete the stored registrations of an initiator on a volume, so that `restore` ignores them.

    :param serial: serial number of the logical unit of the volume
    :param initiator: name of the initiator; None for all registrations of the volume
    """
    path = _kept(serial)
    while True:
        try:
            before = os.stat(path)
        except FileNotFoundError:
            return
        records = _records(serial)
        remaining = [record for record in records
                     if initiator is not None and f'initiator_node={initiator}\n' not in record]
        if remaining == records:
            return
        if not remaining:
            os.unlink(path)
            return
        draft = f'{path}.new'
        with open(draft, 'w', encoding='utf-8') as file:
            for number, record in enumerate(remaining):
                file.write(f'PR_REG_START: {number}\n{record}PR_REG_END: {number}\n')
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            # LIO may have written the file meanwhile. The loop then starts again.
            now = os.stat(path)
            if (now.st_mtime_ns, now.st_size) == (before.st_mtime_ns, before.st_size):
                os.replace(draft, path)
                return


def _write_through(folder: str) -> None:
    """Set the attributes of ``chattr +SD``, unless the file system does not support them."""
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
