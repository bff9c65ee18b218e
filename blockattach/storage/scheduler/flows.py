"""Flow that chooses a pool for work on a volume, claims its capacity, and notifies its manager.

The state of a placement is stored in the database: the claim on a pool, the pools tried, the
number of attempts, and a deadline. After the deadline, another process resumes the placement. Each
claim and each release of a claim increases the generation of the volume, and the RPC call to the
manager contains the generation. A manager that receives the call too late thus rejects the call.
The differences between the verbs are in `blockattach.storage.scheduler.placed`.
"""
import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from taskflow import engines
from taskflow import exceptions
from taskflow import retry
from taskflow import task
from taskflow.listeners import logging as listeners
from taskflow.patterns import linear_flow

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import placement
from blockattach.storage.domain import pools
from blockattach.storage.rpc import volume as volume_rpc
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placed

LOG = logging.getLogger(__name__)


class _NotTakenOn(Exception):
    """Raised if the call to the manager fails.

    The manager may have accepted the work nevertheless, or may accept it later.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class _Claim:
    """Claim of the scheduler on capacity of a pool.

    :ivar generation: generation of the volume after the claim
    :ivar stays: True if the volume is already on the pool, and its work has been finished
    """

    pool: pools.Pool
    generation: int
    stays: bool = False


class _AnotherPool(retry.Retry):
    """Retry controller that repeats the flow if the call to the manager has failed.

    The number of attempts is not limited here. The first step of the flow checks the number in the
    database.
    """

    def execute(self, history: retry.History) -> None:
        """Return None, because the steps read the current request from the `PlacingFlow`."""

    def on_failure(self, history: retry.History) -> str:
        # The history also contains the failures of earlier attempts.
        return str(retry.RETRY if history.caused_by(_NotTakenOn, index=-1) else retry.REVERT)


class PlacingFlow:
    """Flow that places the work of one request on a pool. The steps are private methods."""

    def __init__(self, database: storage_db.Database, chooser: pipeline.PoolChooser,
                 managers: volume_rpc.VolumeClients,
                 settings: scheduler_conf.SchedulerSettings, caller: context.RequestContext,
                 request: pools.VolumeRequest) -> None:
        self._database = database
        self._chooser = chooser
        self._managers = managers
        self._settings = settings
        self._caller = caller
        self._request = request
        self._verb = placed.PLACED[request.verb]

    def run(self) -> None:
        """Place the work, and return when a manager has accepted the work.

        Work without `Placed.give_back` is possible on one pool only. If the call to the manager of
        this pool fails, the method also returns. The manager is notified again after the deadline.

        :raises NoValidPool: no pool is suitable. The ``generation`` in its arguments is the
            generation of the volume in the rejected request
        :raises StaleGeneration: another process has changed the volume
        :raises VolumeNotFound: the volume was deleted
        :raises PoolsIncomplete: no pool is suitable yet
            (`blockattach.storage.scheduler.pipeline.PoolsIncomplete`)
        """
        steps = linear_flow.Flow('place_volume', retry=_AnotherPool('waiting')).add(
            task.FunctorTask(self._choose, 'choose', provides='choice'),
            task.FunctorTask(self._take_room, 'take_room', provides='claim',
                             revert=self._give_back),
            task.FunctorTask(self._hand_over, 'hand_over'))
        placing = engines.load(steps, engine='serial')
        with (self._chooser.telemetry.placing(),
              listeners.LoggingListener(placing, log=LOG)):
            try:
                placing.run()
            except exceptions.WrappedFailure as wrapped:
                # The failures are in the order of the steps, and the failure of the earliest step
                # is from the last attempt, which ended the flow.
                raise next(iter(wrapped)).exception from wrapped

    def _choose(self) -> pipeline.Choice:
        request = self._chooser.with_facts(self._request)
        attempts = request.facts.attempts
        if attempts >= self._settings.max_attempts:
            raise self._refusal(dict.fromkeys(
                request.tried, placement.Reason('the backend failed to receive the volume')),
                                f'the maximum of {attempts} attempts was reached: ')
        choice = self._chooser.choose(request)
        if not choice.accepted:
            if not self._chooser.heard_all():
                raise pipeline.PoolsIncomplete
            raise self._refusal(choice.reasons)
        if request.facts.refusal_reported:
            # The user already has a message that no pool is suitable, which is wrong now.
            placing_facts.forget_refusal(self._database, request.volume_id)
        return choice

    def _take_room(self, choice: pipeline.Choice) -> _Claim:
        """Claim capacity on the best pool that still has enough.

        If other volumes have taken the capacity since the choice, the next best pool is tried.
        """
        reasons = dict(choice.reasons)
        for pool in choice.accepted:
            if pool.name == self._request.home and self._verb.stay is not None:
                return self._stay(pool, self._verb.stay)
            generation = self._verb.claim(self._database, self._request, pool)
            if generation is not None:
                return _Claim(pool, generation)
            self._chooser.telemetry.scheduler_retry('room_taken')
            reasons[pool.name] = placement.Reason('another volume took the last space')
        raise self._refusal(reasons)

    def _stay(self, pool: pools.Pool,
              stay: Callable[[storage_db.Database, str, int], int]) -> _Claim:
        try:
            return _Claim(pool, stay(self._database, self._request.volume_id,
                                     self._request.generation), True)
        except (errors.VolumeTypeNotFound, errors.VolumeTypeChanged) as exc:
            raise self._refusal({pool.name: str(exc)}) from exc

    def _give_back(self, **results: Any) -> None:
        """Release the claim on a pool, and increase the generation of the volume.

        If another process has changed the volume, the claim is left to that process.
        """
        claim = results['result']
        if not isinstance(claim, _Claim) or claim.stays or self._verb.give_back is None:
            return
        try:
            generation = self._verb.give_back(self._database, self._request.volume_id,
                                              claim.generation, self._settings.placing_seconds)
        except (errors.StaleGeneration, errors.VolumeNotFound):
            return
        self._chooser.telemetry.scheduler_retry('not_taken_on')
        self._request = dataclasses.replace(self._request, generation=generation,
                                            tried=(*self._request.tried, claim.pool.name))

    def _hand_over(self, claim: _Claim) -> None:
        """Notify the manager, and return when the manager has claimed the work."""
        failpoints.point('scheduler.flows.after_claim')
        if claim.stays:
            return
        volume_id = self._request.volume_id
        try:
            taken_on = self._managers.on(claim.pool.host).accept_work(
                self._caller, 'volume', self._request.verb, volume_id, claim.generation)
        except Exception as error:
            # After any error, the manager may have accepted the work nevertheless. `_give_back`
            # increases the generation, so that the manager cannot finish the work.
            LOG.warning('Failed to hand over work on volume to backend%s', log.fields(
                work=f'volume.{self._request.verb}', volume_id=volume_id, pool=claim.pool.name,
                generation=claim.generation, reason=error))
            if self._verb.give_back is None:
                # No other pool is possible. If the manager has not accepted the work, it is
                # notified again after the deadline.
                return
            raise _NotTakenOn from error
        if not taken_on:
            raise errors.StaleGeneration(noun='volume', id=volume_id, generation=claim.generation)
        log.step(LOG, 'Work on volume handed over to backend',
                 work=f'volume.{self._request.verb}', volume_id=volume_id, pool=claim.pool.name,
                 generation=claim.generation)

    def _refusal(self, reasons: dict[str, str], headline: str = '') -> errors.NoValidPool:
        return errors.NoValidPool(
            volume_id=self._request.volume_id, generation=self._request.generation,
            reasons=reasons, summary=headline + placement.summarise(reasons))
