"""How the bytes of a new volume are made: empty, or those of what its row names."""
from blockattach.platform import errors
from blockattach.storage.db.volumes import sources
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import records
from blockattach.storage.volume import image_cache
from blockattach.storage.volume import work_context


class Maker:
    """On the pools of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._copied = context.copied
        self._cache = image_cache.ImageCache(context)

    def takes_long(self, found: volume_queries.AtWork) -> bool:
        """Whether data may have to be copied, for minutes or hours."""
        volume = found.volume
        copied = volume.snapshot_id is not None or volume.source_volid is not None
        return copied or (volume_images.image_of(found.progress) is not None
                          and self._cache.keeps(found))

    def make(self, found: volume_queries.AtWork) -> volume_queries.AtWork:
        """Make its bytes; a repeat keeps what is there. What it is made of is only read.

        Where the claim is lost under which that is done, a copy ends early.

        :returns: the volume, with what it was made of
        :raises BackendRefused: final; also where the source is gone, or the store cannot copy
        :raises verbs.Left: this process ends before the copy
        """
        volume = found.volume
        copied = self._copied(found.claim)
        try:
            if volume_images.image_of(found.progress) is not None:
                found = self._cache.clone(found, copied)
                if found.volume.source_volid is None:
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
        return found

    def made(self, made: volume_queries.AtWork) -> records.Claim | None:
        """Its bytes are made; the claim of what comes next: to fill it from an image."""
        claim = made.claim
        if volume_images.image_of(made.progress) is not None:
            if made.volume.source_volid is None:
                return volume_images.begin_download(self._database, claim)
            volume_images.cloned(self._database, claim)
            return None
        volumes.created(self._database, claim.resource_id, claim.generation, False, claim.owner)
        return None
