"""A volume's bytes on another backend: copied, and compared by a checksum."""
import contextlib

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.domain import records
from blockattach.storage.drivers import base
from blockattach.storage.volume import backends


def copy_volume(source: backends.KeptBackend, volume: records.Volume,
                target: backends.KeptBackend, copy: records.Volume, copied: base.Copied) -> None:
    """Give a volume that was just made there the bytes that it has here, which are only read.

    :param copy: the same as it will be there
    :param copied: called after each piece that is read, here and there
    :raises BackendRefused: one side has no such volume, or the two are not alike in the end
    :raises OSError: it cannot be read or written
    """
    with contextlib.closing(source.disk(volume)) as here, \
            contextlib.closing(target.disk(copy, writes=True)) as there:
        read = disks.Digest()
        for offset, piece in here.pieces():
            if not disks.is_empty(piece):
                there.write(offset, piece)
            read.add(offset, piece)
            copied(len(piece))
        there.sync()
        failpoints.point('volume.moving.before_verify')
        if _digest(there, copied) != read.value():
            raise errors.BackendRefused(
                reason=f'the copy of volume {volume.id} on backend {target.name} differs from the '
                       f'original')


def _digest(disk: disks.Disk, copied: base.Copied) -> bytes:
    found = disks.Digest()
    for offset, piece in disk.pieces():
        found.add(offset, piece)
        copied(len(piece))
    return found.value()
