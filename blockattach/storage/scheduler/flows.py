"""The flow that places work on a volume: choose a pool, claim its room, hand over to its manager.

What lasts is in the database: the claim, the pools tried, how many attempts were made, and a
deadline at which another process goes on if this one does not. The generation goes along: each
claim and each return raises it, so that a manager that hears of a claim late finds it stale.
What differs between verbs is in `blockattach.storage.scheduler.placed`.
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
    """The manager refused or was silent: it may have taken the volume on, or may do so yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Claim:
    """``stays``: the pool has it already, and nothing is left to do."""

    pool: pools.Pool
    generation: int
    stays: bool = False


class _AnotherPool(retry.Retry):
    """Tries again after a manager that did not take the volume on, and after nothing else.

    The number of attempts is not counted here but in the volume's work, over its whole lifecycle.
    """

    def execute(self, history: retry.History) -> None:
        """Nothing is provided: each try asks for what its flow asks for by then."""

    def on_failure(self, history: retry.History) -> str:
        """Whether there is another try."""
        return str(retry.RETRY if history.caused_by(_NotTakenOn, index=-1) else retry.REVERT)


class PlacingFlow:
    """Places the work that one request is about; its methods are the steps."""

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
        """Return when a manager has the volume.

        :raises NoValidPool: with the ``generation`` at which nothing was left
        :raises StaleGeneration: another process has gone on, as after VolumeNotFound
        :raises PoolsIncomplete: it goes on waiting (`blockattach.storage.scheduler.pipeline`)
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
                # Steps in their order: the earliest one's is of the last try, and ended it.
                raise next(iter(wrapped)).exception from wrapped

    def _choose(self) -> pipeline.Choice:
        """Judge the pools as they are now."""
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
            # The API has answered too early that there is none.
            placing_facts.forget_refusal(self._database, request.volume_id)
        return choice

    def _take_room(self, choice: pipeline.Choice) -> _Claim:
        """Claim room on the best pool that still has it: what others took since the choice is met
        by the next best.
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
        """The pool that has the volume already will do."""
        try:
            return _Claim(pool, stay(self._database, self._request.volume_id,
                                     self._request.generation), True)
        except (errors.VolumeTypeNotFound, errors.VolumeTypeChanged) as exc:
            raise self._refusal({pool.name: str(exc)}) from exc

    def _give_back(self, **results: Any) -> None:
        """Give the room back, unless another process has gone on with the volume: it waits for
        another pool, under a new generation.
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
        """Returns when the manager has written itself down as the volume's owner."""
        failpoints.point('scheduler.flows.after_claim')
        if claim.stays:
            return
        volume_id = self._request.volume_id
        try:
            taken_on = self._managers.on(claim.pool.host).accept_work(
                self._caller, 'volume', self._request.verb, volume_id, claim.generation)
        except Exception as error:
            LOG.warning('Failed to hand over volume to backend%s', log.fields(
                volume_id=volume_id, pool=claim.pool.name, generation=claim.generation,
                reason=error))
            if self._verb.give_back is None:
                # It may have been taken on: what it is lies with that manager.
                return
            raise _NotTakenOn from error
        if not taken_on:
            raise errors.StaleGeneration(noun='volume', id=volume_id, generation=claim.generation)
        log.step(LOG, 'Volume handed over to backend', volume_id=volume_id,
                 pool=claim.pool.name, generation=claim.generation)

    def _refusal(self, reasons: dict[str, str], headline: str = '') -> errors.NoValidPool:
        """Nothing will do: an error that carries why, for the user and for the log."""
        return errors.NoValidPool(
            volume_id=self._request.volume_id, generation=self._request.generation,
            reasons=reasons, summary=headline + placement.summarise(reasons))
