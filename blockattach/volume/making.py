"""How the bytes of a new volume are made: empty, or those of what its row names."""
import functools

from blockattach import errors
from blockattach.db.engine import engine
from blockattach.db.volumes import sources
from blockattach.db.volumes import volume_images
from blockattach.db.volumes import volume_queries
from blockattach.db.volumes import volumes
from blockattach.domain import records
from blockattach.volume import backends
from blockattach.volume import pacing


class Maker:
    """On the pools of one backend."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend,
                 pace: pacing.Pace) -> None:
        self._database = database
        self._backend = backend
        self._pace = pace

    def takes_long(self, volume: records.Volume) -> bool:
        """Whether data may have to be copied, for minutes or hours."""
        return volume.snapshot_id is not None or volume.source_volid is not None

    def make(self, volume: records.Volume, claim: records.Claim) -> None:
        """Make its bytes; a repeat keeps what is there. What it is made of is only read.

        :param claim: under which that is done: where it is lost, a copy ends early
        :raises BackendRefused: final; also where the source is gone, or the store cannot copy
        :raises verbs.Left: this process ends before the copy
        """
        copied = self._pace.of(volume.id, functools.partial(
            volume_queries.is_claimed, self._database, claim))
        try:
            if volume.snapshot_id is not None:
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
                reason=f'what volume {volume.id} is made of is gone: {exc}') from exc

    def made(self, made: volume_queries.AtWork) -> records.Claim | None:
        """Its bytes are made; the claim of what comes next: to fill it from an image."""
        claim = made.claim
        if volume_images.image_of(made.progress) is not None:
            return volume_images.begin_download(self._database, claim)
        volumes.created(self._database, claim.resource_id, claim.generation, False, claim.owner)
        return None
