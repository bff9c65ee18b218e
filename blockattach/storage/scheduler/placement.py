"""Placement of work on pools, and the failure of the work if no pool is suitable."""
import logging
import threading
from collections.abc import Callable

from blockattach.platform import context
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import placement as domain_placement
from blockattach.storage.domain import pools
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placed

LOG = logging.getLogger(__name__)


class Placement:
    """Handler of requests to place work on a pool.

    Requests that must wait until more backends have started are kept in memory.
    """

    def __init__(self, database: storage_db.Database,
                 run: Callable[[context.RequestContext, pools.VolumeRequest], None]) -> None:
        """
        :param run: function that runs the flow for one request
            (`blockattach.storage.scheduler.flows.PlacingFlow.run`)
        """
        self._database = database
        self._run = run
        self._lock = threading.Lock()
        self._postponed: dict[str, tuple[context.RequestContext, pools.VolumeRequest]] = {}

    def place(self, caller: context.RequestContext, request: pools.VolumeRequest) -> None:
        """Place the work of a request, or fail the work if no pool is suitable.

        Nothing changes if the volume has changed since the request was sent. After any other
        error, the work is placed again when its deadline has passed.
        """
        log.about(volume_id=request.volume_id)
        try:
            self._run(caller, request)
        except errors.NoValidPool as error:
            self._give_up(caller, request.verb, error)
        except pipeline.PoolsIncomplete:
            with self._lock:
                self._postponed[request.volume_id] = (caller, request)
            LOG.warning('Postponing placement of volume%s', log.fields(
                volume_id=request.volume_id, reason='some backends have not reported yet'))
        except (errors.StaleGeneration, errors.VolumeNotFound) as error:
            log.step(LOG, 'Volume changed concurrently, skipping placement',
                     volume_id=request.volume_id, reason=error)

    def place_postponed(self) -> None:
        """Place the volumes that wait in this process because backends were still starting.

        Without this call, the volumes would wait until a scheduler places them after their
        deadlines.
        """
        with self._lock:
            postponed, self._postponed = self._postponed, {}
        # The lock is released first, because `place` acquires it to postpone a volume again.
        for caller, request in postponed.values():
            self.place(caller, request)

    def _give_up(self, caller: context.RequestContext, name: str,
                 error: errors.NoValidPool) -> None:
        refusal, verb = error.kwargs, placed.PLACED[name]
        volume_id, generation = refusal['volume_id'], refusal['generation']
        try:
            volume = volume_queries.get_bare(self._database, volume_id)
            # `refuse` checks the generation under the lock, but only after the message is created.
            if volume.generation != generation:
                raise errors.StaleGeneration(noun='volume', id=volume_id, generation=generation)
            # The message is created before the status changes, so that a user who sees the failure
            # can read the reason.
            messages.no_valid_pool(self._database, volume.project_id, caller.request_id,
                                   volume_id, refusal['reasons'], refusal['summary'],
                                   verb.message)
            work_ends.refuse(self._database, name, volume_id, generation)
        except (errors.StaleGeneration, errors.VolumeNotFound) as gone_on:
            log.step(LOG, 'Volume changed concurrently, ignoring failed placement',
                     volume_id=volume_id, reason=gone_on)
            return
        LOG.warning('Failed to place volume%s', log.fields(
            volume_id=volume_id, size_gb=volume.size_gb,
            reason=domain_placement.summarise(refusal['reasons'], None)))
