"""The flow that places one volume: choose a pool, claim its room, hand over to its manager.

What lasts is in the database: the claim, the pools tried, how many attempts were made, and a
deadline at which another process goes on if this one does not. The generation goes along: each
claim and each return raises it, so that a manager that hears of a claim late finds it stale.
"""
import dataclasses
from typing import Any

from oslo_log import log as oslo_log
from taskflow import retry
from taskflow import task
from taskflow.patterns import linear_flow
from taskflow.types import failure as task_failure

from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach.conf import scheduler as scheduler_conf
from blockattach.db import engine
from blockattach.db import placing_facts
from blockattach.db import volumes
from blockattach.domain import pools
from blockattach.rpc import volume as volume_rpc
from blockattach.scheduler import pipeline
from blockattach.scheduler import pools as scheduler_pools

LOG = oslo_log.getLogger(__name__)


class _NotTakenOn(Exception):
    """The manager refused or was silent: it may have taken the volume on, or may do so yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Claim:
    pool: pools.Pool
    generation: int


class Asked:
    """A volume that waits for a pool: what is asked of the pools now."""

    def __init__(self, caller: context.RequestContext, request: pools.VolumeRequest) -> None:
        self.caller = caller
        self.request = request

    def returned(self, pool: pools.Pool, generation: int) -> None:
        """The volume has left a pool and waits for another one, under a new generation."""
        self.request = dataclasses.replace(self.request, generation=generation,
                                           tried=(*self.request.tried, pool.name))


def build(database: engine.Database, chooser: scheduler_pools.PoolChooser,
          managers: volume_rpc.VolumeClients,
          settings: scheduler_conf.SchedulerSettings) -> linear_flow.Flow:
    """The flow of one volume, ``asked``, for TaskFlow's engine.

    Its steps raise ``NoValidPool`` (with the ``generation`` at which nothing was left),
    ``StaleGeneration`` or ``VolumeNotFound`` (another process has gone on), or
    `blockattach.scheduler.pools.PoolsIncomplete`.
    """
    return linear_flow.Flow('place_volume', retry=_Waiting('waiting')).add(
        _Choose(database, chooser, settings.max_attempts),
        _TakeRoom(database, chooser, settings.placing_seconds),
        _HandOver(managers))


class _Waiting(retry.Retry):
    """Tries again after a manager that did not take the volume on, and after nothing else.

    The number of attempts is not counted here but in the volume's row, over its whole lifecycle.
    """

    default_provides = 'request'

    def execute(self, asked: Asked, history: retry.History) -> pools.VolumeRequest:
        """What is asked of the pools in this try."""
        return asked.request

    def on_failure(self, asked: Asked, history: retry.History) -> str:
        """Whether there is another try."""
        return str(retry.RETRY if history.caused_by(_NotTakenOn, index=-1) else retry.REVERT)


class _Choose(task.Task):
    default_provides = 'choice'

    def __init__(self, database: engine.Database, chooser: scheduler_pools.PoolChooser,
                 max_attempts: int) -> None:
        super().__init__('choose')
        self._database = database
        self._chooser = chooser
        self._max_attempts = max_attempts

    def execute(self, request: pools.VolumeRequest) -> pipeline.Choice:
        """Judge the pools as they are now."""
        request = self._chooser.with_facts(request)
        attempts = request.facts.attempts
        if attempts >= self._max_attempts:
            tried = dict.fromkeys(request.tried, 'it could not make the volume')
            raise pipeline.no_valid_pool(request, tried,
                                         f'{attempts} attempts were made, the most allowed')
        choice = self._chooser.choose(request)
        if not choice.accepted:
            if not self._chooser.heard_all():
                raise scheduler_pools.PoolsIncomplete
            raise pipeline.no_valid_pool(request, choice.reasons)
        if request.facts.refusal_reported:
            # The API has answered too early that there is none.
            placing_facts.forget_refusal(self._database, request.volume_id)
        return choice


class _TakeRoom(task.Task):
    """Claims room on the best pool that still has it; undone, the volume waits for another one."""

    default_provides = 'claim'

    def __init__(self, database: engine.Database, chooser: scheduler_pools.PoolChooser,
                 lease_seconds: float) -> None:
        super().__init__('take_room')
        self._database = database
        self._chooser = chooser
        self._lease_seconds = lease_seconds

    def execute(self, request: pools.VolumeRequest, choice: pipeline.Choice) -> _Claim:
        """Claim: what others took since the choice is met by the next best pool."""
        reasons = dict(choice.reasons)
        for pool in choice.accepted:
            generation = volumes.claim(
                self._database, request.volume_id, request.generation, pool.name,
                pool.service_uuid)
            if generation is not None:
                return _Claim(pool, generation)
            self._chooser.telemetry.scheduler_retry('room_taken')
            reasons[pool.name] = 'its last room was taken meanwhile'
        raise pipeline.no_valid_pool(request, reasons)

    def revert(self, asked: Asked, request: pools.VolumeRequest,
               result: _Claim | task_failure.Failure, **other: Any) -> None:
        """Give the room back, unless another process has gone on with the volume."""
        if not isinstance(result, _Claim):
            return
        try:
            generation = volumes.unclaim(self._database, request.volume_id, result.generation,
                                         self._lease_seconds)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            return
        self._chooser.telemetry.scheduler_retry('not_taken_on')
        asked.returned(result.pool, generation)


class _HandOver(task.Task):
    def __init__(self, managers: volume_rpc.VolumeClients) -> None:
        super().__init__('hand_over')
        self._managers = managers

    def execute(self, asked: Asked, request: pools.VolumeRequest, claim: _Claim) -> None:
        """Returns when the manager has written itself down as the volume's owner."""
        failpoints.point('scheduler.flows.after_claim')
        fields = log.fields(volume_id=request.volume_id, pool=claim.pool.name,
                            generation=claim.generation)
        try:
            taken_on = self._managers.on(claim.pool.host).create_volume(
                asked.caller, request.volume_id, claim.generation)
        except Exception as error:
            LOG.warning('Cannot hand a volume over: %s%s', error, fields)
            raise _NotTakenOn from error
        if not taken_on:
            raise errors.StaleGeneration(noun='volume', id=request.volume_id,
                                         generation=claim.generation)
        LOG.info('Volume is handed over%s', fields)
