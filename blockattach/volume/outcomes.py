"""How an act on a volume ended: the row, the user's message, the next step."""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import messages
from blockattach.db import placing_facts
from blockattach.db import volumes
from blockattach.domain import messages as domain_messages
from blockattach.domain import records
from blockattach.objects import placement
from blockattach.rpc import scheduler as scheduler_rpc

LOG = oslo_log.getLogger(__name__)


class VolumeOutcomes:
    """Records how an act on a volume ended. A volume that has moved on is left alone."""

    def __init__(self, database: engine.Database, scheduler: scheduler_rpc.SchedulerInterface,
                 schedule_seconds: float) -> None:
        self._database = database
        self._scheduler = scheduler
        self._schedule_seconds = schedule_seconds

    def created(self, volume: records.Volume) -> bool:
        """The backend has made it; False when it was given to somebody else meanwhile."""
        try:
            volumes.created(self._database, volume.id, volume.generation, shared_targets=False)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            LOG.warning('Volume was taken away while it was made%s', _fields(volume))
            return False
        return True

    def not_created(self, caller: context.RequestContext, volume: records.Volume,
                    reason: str) -> None:
        """This pool could not make it: the user is told, the scheduler tries another."""
        try:
            generation = volumes.unclaim(self._database, volume.id, volume.generation,
                                         self._schedule_seconds)
            request = placing_facts.request(self._database, volume.id)
            if request.generation != generation:
                raise errors.StaleGeneration(noun='volume', id=volume.id, generation=generation)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            LOG.info('Volume has gone on by itself%s', _fields(volume))
            return
        messages.create(self._database, volume.project_id, caller.request_id,
                        domain_messages.DRIVER_CREATE_FAILED, volume.id, reason)
        self._scheduler.create_volume(caller, placement.VolumeRequest.from_domain(request))

    def deleted(self, volume: records.Volume) -> None:
        """The backend has removed it."""
        try:
            volumes.deleted(self._database, volume.id, volume.generation)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            LOG.info('Volume has gone on by itself%s', _fields(volume))

    def not_deleted(self, caller: context.RequestContext, volume: records.Volume,
                    reason: str) -> None:
        """The backend refused for good to remove it: the user is told."""
        try:
            volumes.delete_failed(self._database, volume.id, volume.generation)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            LOG.info('Volume has gone on by itself%s', _fields(volume))
            return
        messages.create(self._database, volume.project_id, caller.request_id,
                        domain_messages.DELETE_FAILED, volume.id, reason)


def _fields(volume: records.Volume) -> log.Fields:
    return log.fields(volume_id=volume.id, pool=volume.pool, generation=volume.generation)
