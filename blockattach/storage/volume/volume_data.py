"""Creation of volumes, empty or with the data of a source, and copies between backends."""
import contextlib

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db.volumes import sources
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import records
from blockattach.storage.drivers import base
from blockattach.storage.volume import backends
from blockattach.storage.volume import image_cache
from blockattach.storage.volume import work_context


class Maker:
    """Creation of volumes in the pools of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._copied = context.copied
        self._cache = image_cache.ImageCache(context)

    def takes_long(self, item: volume_queries.AtWork) -> bool:
        """Return True if the creation of a volume may copy data, which takes minutes or hours."""
        volume = item.volume
        copied = volume.snapshot_id is not None or volume.source_volid is not None
        return copied or (volume_images.image_of(item.progress) is not None
                          and self._cache.keeps(item))

    def make(self, item: volume_queries.AtWork) -> volume_queries.AtWork:
        """Create a volume on the backend, with the data of its source if it has one.

        An existing volume is left as it is. The source is only read. If the claim of the work is
        lost, a copy ends early.

        :returns: the work item. If the volume was cloned from a cached image, its
            ``source_volid`` is the id of the cached volume
        :raises BackendRefused: if the backend refuses, the source no longer exists, or the store
            cannot copy the source; a repetition would fail, too
        :raises verbs.Left: if this process stops before the copy is finished
        """
        volume = item.volume
        copied = self._copied(item.claim)
        try:
            # Images come first, because a clone of a cached image has a ``source_volid`` too.
            if volume_images.image_of(item.progress) is not None:
                item = self._cache.clone(item, copied)
                if item.volume.source_volid is None:
                    self._backend.create(volume)
            elif volume.snapshot_id is not None:
                snapshot = sources.snapshot(self._database, volume.snapshot_id)
                origin = volume_queries.get_bare(self._database, snapshot.volume_id)
                self._backend.clone_snapshot(volume.snapshot_id, origin, volume, copied)
            elif volume.source_volid is not None:
                source = volume_queries.get_bare(self._database, volume.source_volid)
                self._backend.clone(source, volume, copied)
            else:
                self._backend.create(volume)
        except errors.NotFound as exc:
            raise errors.BackendRefused(
                reason=f'the source of volume {volume.id} no longer exists: {exc}') from exc
        return item

    def made(self, item: volume_queries.AtWork) -> records.Claim | None:
        """Record that a volume was created on the backend.

        :returns: claim of the next work item, which fills the volume from an image; None if the
            volume is complete
        """
        claim = item.claim
        if volume_images.image_of(item.progress) is not None:
            if item.volume.source_volid is None:
                return volume_images.begin_download(self._database, claim)
            volume_images.cloned(self._database, claim)
            return None
        volumes.created(self._database, claim.resource_id, claim.generation, False, claim.owner)
        return None


def copy_volume(source: backends.KeptBackend, volume: records.Volume,
                target: backends.KeptBackend, copy: records.Volume, copied: base.Copied) -> None:
    """Copy the data of a volume to a new, empty volume on another backend.

    :param copy: record of the volume with the host and pool of the target backend
    :param copied: callback with the length of each piece that is read. The source is read for the
        copy, then the copy is read for the verification.
    :raises BackendRefused: if the volume or its copy does not exist, or if the data of the
        finished copy differs
    :raises OSError: if the data cannot be read or written
    """
    with contextlib.closing(source.disk(volume)) as here, \
            contextlib.closing(target.disk(copy, writes=True)) as there:
        read = disks.Digest()
        for offset, piece in here.pieces():
            # The new volume reads as zeros already.
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
