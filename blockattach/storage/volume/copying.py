"""Copy of the data of a volume to another backend, verified by a checksum."""
import contextlib

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.domain import records
from blockattach.storage.drivers import base
from blockattach.storage.volume import backends


def copy_volume(source: backends.KeptBackend, volume: records.Volume,
                target: backends.KeptBackend, copy: records.Volume, copied: base.Copied) -> None:
    """Copy the data of a volume to a new, empty volume on another backend.

    :param copy: the volume as it will be on the target backend
    :param copied: called with the length of each piece that is read, from the source and, for the
        verification, from the copy
    :raises BackendRefused: if the volume or its copy does not exist, or if their data differs in
        the end
    :raises OSError: if the data cannot be read or written
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
    digest = disks.Digest()
    for offset, piece in disk.pieces():
        digest.add(offset, piece)
        copied(len(piece))
    return digest.value()
