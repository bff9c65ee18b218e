"""Many small repairs side by side; one that fails is said and comes again on the next pass."""
import datetime
import threading
from collections.abc import Callable
from collections.abc import Sequence
from concurrent import futures
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach import clock as clocks
from blockattach import errors
from blockattach import log
from blockattach import metrics
from blockattach.domain import records
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)

REPAIRED, OVERTAKEN = 'done', 'somebody else went on with it first'


class Case(NamedTuple):
    """Something that is not as it should be.

    ``said`` is what differs, ``remedy`` what ``act`` does about it; each in a few words. An act
    that returns False has left it to whoever is at work there.
    """

    drift: metrics.Drift
    said: str
    remedy: str
    act: Callable[[], bool | None]
    volume_id: str
    attachment_id: str | None = None
    initiator: str | None = None


class Repairer:
    """A few threads for repairs, and what they have put right since the process began."""

    def __init__(self, pool: futures.Executor, telemetry: acts.Telemetry | None = None,
                 clock: clocks.Clock | None = None,
                 volumes: futures.Executor | None = None) -> None:
        """
        :param volumes: threads for making and removing volumes, which may take minutes: nothing
            else waits for them. None: the same ones
        """
        self._volumes = volumes or pool
        self._telemetry = telemetry or acts.Telemetry()
        self._pool = pool
        self._clock = clock or clocks.Clock()
        self._guard = threading.Lock()
        self._repaired = dict.fromkeys(map(str, metrics.DRIFTS), 0)
        self._last: tuple[str, datetime.datetime] | None = None

    def each(self, cases: Sequence[Case]) -> list[str]:
        """Act on each case; how each ended, in a few words: `REPAIRED` is one of them.

        What concerns one pair is done one after the other, in one thread.
        """
        pairs: dict[object, list[Case]] = {}
        for case in cases:
            pairs.setdefault((case.volume_id, case.initiator) if case.initiator else id(case),
                             []).append(case)
        begun = [(self._volumes if pair[0].drift == 'volume' else self._pool).submit(
            self._in_order, pair) for pair in pairs.values()]
        for drift in metrics.DRIFTS:
            # A series that began at one would show no increase.
            self._telemetry.drift(drift)
        outcomes = {id(case): outcome for pair, running in zip(pairs.values(), begun, strict=True)
                    for case, outcome in zip(pair, running.result(), strict=True)}
        return [self._counted(case, outcomes[id(case)]) for case in cases]

    def repair(self, cases: Sequence[Case]) -> int:
        """The same; returns how many were put right."""
        return self.each(cases).count(REPAIRED)

    def summary(self) -> records.Reconciled:
        """What was put right since the process began."""
        with self._guard:
            last, at = self._last or (None, None)
            return records.Reconciled(dict(self._repaired), last, at)

    def stop(self) -> None:
        """End the threads after what they are doing."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._volumes.shutdown(wait=True, cancel_futures=True)

    def _in_order(self, cases: Sequence[Case]) -> list[str]:
        return [self._ended(case) for case in cases]

    def _ended(self, case: Case) -> str:
        try:
            return OVERTAKEN if case.act() is False else REPAIRED
        except (errors.StaleGeneration, errors.NotFound, errors.InvalidTransition):
            LOG.info('Somebody else went on with it first')
            return OVERTAKEN
        except Exception as exc:
            LOG.error('Cannot put one thing right; it is tried again%s', log.fields(reason=exc),
                      exc_info=not errors.is_known(exc))
            return f'cannot: {exc}'

    def _counted(self, case: Case, outcome: str) -> str:
        """What was left to whoever is at work there differs from nothing: it is no drift."""
        if outcome == OVERTAKEN:
            return outcome
        self._telemetry.drift(case.drift, found=1, repaired=int(outcome == REPAIRED))
        if outcome == REPAIRED:
            with self._guard:
                self._repaired[case.drift] += 1
                self._last = case.drift, self._clock.utcnow()
        return outcome
