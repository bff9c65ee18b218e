"""Volumes whose placing was interrupted: found by their deadlines and placed anew."""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import placing_facts
from blockattach.db import services
from blockattach.db import volume_queries
from blockattach.db import volumes
from blockattach.domain import binaries
from blockattach.domain import records
from blockattach.domain import volume_lifecycle
from blockattach.scheduler import placement

LOG = oslo_log.getLogger(__name__)


class WaitingVolumes:
    """What a scheduler looks for from time to time. Several may: a volume's generation decides."""

    def __init__(self, database: engine.Database, placement: placement.Placement,
                 down_after: float, lease_seconds: float) -> None:
        self._database = database
        self._placement = placement
        self._down_after = down_after
        self._lease_seconds = lease_seconds
        self._first = True

    def look(self) -> None:
        """Place every volume that waits for a pool, or for a manager that is dead, too long."""
        self._placement.place_postponed()
        # Whoever else is at it meanwhile is met by the volume's generation.
        first, self._first = self._first, False
        for volume in volume_queries.unplaced(self._database, everything=first):
            self._place(volume, volume.generation)
        for backend in services.silent(self._database, binaries.VOLUME, self._down_after):
            for volume in volume_queries.interrupted(self._database, backend):
                self._take_from(volume)

    def _take_from(self, volume: records.Volume) -> None:
        """A manager that lives goes on itself; from a dead one the volume is taken."""
        if volume.own_status != volume_lifecycle.OwnStatus.CREATING:
            return
        try:
            generation = volumes.unclaim(self._database, volume.id, volume.generation,
                                         self._lease_seconds)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            return
        self._place(volume, generation)

    def _place(self, volume: records.Volume, generation: int) -> None:
        caller = context.admin_context(project_id=volume.project_id, user_id=volume.user_id)
        try:
            request = placing_facts.request(self._database, volume.id)
            if request.generation != generation:
                # Another scheduler was faster: what it claimed is not waiting any more.
                return
            LOG.info('Placing of a volume is taken up again%s', log.fields(volume_id=volume.id))
            self._placement.place(caller, request)
        except errors.VolumeNotFound:
            return
        except Exception as exc:
            LOG.error('Cannot place a volume; its deadline brings it back%s',
                      log.fields(volume_id=volume.id, reason=exc),
                      exc_info=not errors.is_known(exc))
