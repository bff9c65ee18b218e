"""Creation of the data of a new volume: empty, or from the source that its row names."""
from blockattach.platform import errors
from blockattach.storage.db.volumes import sources
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import records
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
        """Return True if data may have to be copied, which takes minutes or hours."""
        volume = item.volume
        copied = volume.snapshot_id is not None or volume.source_volid is not None
        return copied or (volume_images.image_of(item.progress) is not None
                          and self._cache.keeps(item))

    def make(self, item: volume_queries.AtWork) -> volume_queries.AtWork:
        """Create a volume on the backend, with the data of its source if it has one.

        An existing volume is left as it is. The source is only read. If the claim of the work is
        lost, a copy ends early.

        :returns: the work item, with the source that was used
        :raises BackendRefused: if the backend refuses, the source no longer exists, or the store
            cannot copy it; a repetition is pointless
        :raises verbs.Left: if this process ends before the copy is finished
        """
        volume = item.volume
        copied = self._copied(item.claim)
        try:
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
