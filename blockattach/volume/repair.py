"""Compare a target with the rows, and repair what differs, in a few threads side by side.

A pair that differs is converged, under a lease of its own; nothing is granted or revoked here.
What fails is logged, and comes again on the next pass.
"""
import datetime
import threading
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from concurrent import futures
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach import clock as clocks
from blockattach import errors
from blockattach import log
from blockattach import metrics
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import grants
from blockattach.db import volume_queries
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.telemetry import acts
from blockattach.volume import converge

LOG = oslo_log.getLogger(__name__)

REPAIRED, CONFLICT = 'done', 'another process went on with it first'


class Case(NamedTuple):
    """Something that is not as it should be.

    ``said`` is what differs, ``remedy`` what ``act`` does about it; each in a few words. An act
    that returns False leaves it to the thread at work there.
    """

    drift: metrics.Drift
    said: str
    remedy: str
    act: Callable[[], bool | None]
    volume_id: str
    attachment_id: str | None = None
    initiator: str | None = None


class Repairer:
    """A few threads for repairs, and what they have repaired since the process began."""

    def __init__(self, pool: futures.Executor, telemetry: acts.Telemetry | None = None,
                 clock: clocks.Clock | None = None,
                 volumes: futures.Executor | None = None) -> None:
        """
        :param volumes: threads for making and removing volumes, which may take minutes: nothing
            else waits for them. None: the same ones
        """
        self.pool = pool
        self._volumes = volumes or pool
        self._telemetry = telemetry or acts.Telemetry()
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
        begun = [(self._volumes if pair[0].drift == 'volume' else self.pool).submit(
            self._in_order, pair) for pair in pairs.values()]
        for drift in metrics.DRIFTS:
            # A series that began at one would show no increase.
            self._telemetry.drift(drift)
        outcomes = {id(case): outcome for pair, running in zip(pairs.values(), begun, strict=True)
                    for case, outcome in zip(pair, running.result(), strict=True)}
        return [self._counted(case, outcomes[id(case)]) for case in cases]

    def repair(self, cases: Sequence[Case]) -> int:
        """Repair these; returns how many were repaired."""
        return self.each(cases).count(REPAIRED)

    def summary(self) -> records.Reconciled:
        """What was repaired since the process began."""
        with self._guard:
            last, at = self._last or (None, None)
            return records.Reconciled(dict(self._repaired), last, at)

    def stop(self) -> None:
        """End the threads after what they are doing; pairs that were enqueued are converged."""
        self.pool.shutdown(wait=True)
        self._volumes.shutdown(wait=True, cancel_futures=True)

    def _in_order(self, cases: Sequence[Case]) -> list[str]:
        return [self._ended(case) for case in cases]

    def _ended(self, case: Case) -> str:
        try:
            return CONFLICT if case.act() is False else REPAIRED
        except (errors.StaleGeneration, errors.NotFound, errors.InvalidTransition):
            LOG.info('Another process went on with it first')
            return CONFLICT
        except Exception as exc:
            LOG.error('Cannot repair one difference; it is tried again%s', log.fields(reason=exc),
                      exc_info=not errors.is_known(exc))
            return f'cannot: {exc}'

    def _counted(self, case: Case, outcome: str) -> str:
        """What is at work elsewhere is no drift."""
        if outcome == CONFLICT:
            return outcome
        self._telemetry.drift(case.drift, found=1, repaired=int(outcome == REPAIRED))
        if outcome == REPAIRED:
            with self._guard:
                self._repaired[case.drift] += 1
                self._last = case.drift, self._clock.utcnow()
        return outcome


class TargetTruth:
    """One backend's target against its rows. What is as it should be is never touched."""

    def __init__(self, database: engine.Database, host: str, converger: converge.Converger,
                 repairer: Repairer) -> None:
        self._database = database
        self._host = host
        self._converger = converger
        self._leases = converger.leases
        self._target = converger.backend.target
        self._repairer = repairer
        self._bare: set[str] = set()

    def repair(self) -> int:
        """One pass; returns how many differences were repaired."""
        return self._repairer.repair(self.cases())

    def cases(self) -> list[Case]:
        """Every difference; nothing is changed."""
        at_work = attachment_queries.at_work(self._database, self._host)
        exports = self._target.exports()
        known = volume_queries.existing_on(
            self._database, self._host, [export.volume_id for export in exports])
        actual = [export for export in exports if export.volume_id in known]
        wanted = grants.wanted(
            self._database, attachment_queries.volumes_in_use(self._database, self._host))
        found = connection.difference(
            wanted, [grant for export in actual for grant in export.grants])
        pairs = {(grant.volume_id, grant.initiator): _MISSING for grant in found.grant}
        pairs |= {(extra.volume_id, extra.initiator): _SURPLUS for extra in found.revoke}
        if pairs:
            # What is at work, or was a moment ago, differs meanwhile.
            at_work |= attachment_queries.at_work(self._database, self._host)
        bare = {export.volume_id for export in actual if not export.grants}
        return [*(self._grant(pair, pairs[pair]) for pair in sorted(pairs) if pair not in at_work),
                *(self._stray(export.volume_id) for export in exports
                  if export.volume_id not in known and self._is_gone(export.volume_id)),
                *(self._unused(volume_id) for volume_id in self._bare_again(
                    bare - {grant.volume_id for grant in wanted}))]

    def repair_pair(self, volume_id: str, initiator: str) -> bool:
        """Converge a pair; False: another lease holder acts there.

        :raises BackendError: it could not be done
        """
        with self._leases.try_pair(volume_id, initiator) as lease:
            if lease is not None:
                self._converger.converge(lease)
            return lease is not None

    def unexport_unused(self, volume_id: str) -> bool:
        """Unexport a volume, unless a host shall be granted; whether it was done.

        :raises BackendUncertain: the lease has expired: others may have acted meanwhile
        """
        with self._leases.volume(volume_id, wait=False) as lease:
            if lease is None or grants.wanted(self._database, [volume_id]):
                return False
            lease.check()
            self._target.unexport(volume_id)
            return True

    def _bare_again(self, bare: set[str]) -> Collection[str]:
        """Volumes exported without a grant on two passes in a row, and wanted by no row.

        A grant that is being made looks so for a moment; what a crash orphaned stays.
        """
        twice = bare & self._bare
        self._bare = bare
        return sorted(twice)

    def _grant(self, pair: tuple[str, str], differs: '_Differs') -> Case:
        volume_id, initiator = pair

        def act() -> bool:
            LOG.warning('Target differs from the attachments and is repaired%s', log.fields(
                volume_id=volume_id, initiator=initiator))
            return self.repair_pair(volume_id, initiator)

        return Case('grant', differs.said, differs.remedy, act, volume_id, initiator=initiator)

    def _stray(self, volume_id: str) -> Case:
        def act() -> None:
            if self._is_gone(volume_id):
                LOG.warning('Target offers a volume that is gone%s',
                            log.fields(volume_id=volume_id))
                self._target.unexport(volume_id)

        return Case('stray_export', 'the target offers a volume that is gone',
                    'it is offered no longer', act, volume_id)

    def _unused(self, volume_id: str) -> Case:
        return Case('unused_export', 'the target offers a volume that no attachment wants',
                    'it is offered no longer', lambda: self.unexport_unused(volume_id), volume_id)

    def _is_gone(self, volume_id: str) -> bool:
        """Only then: another backend on the same target sees to its own volumes."""
        try:
            volume_queries.get_bare(self._database, volume_id)
        except errors.VolumeNotFound:
            return True
        return False


class _Differs(NamedTuple):
    said: str
    remedy: str


_MISSING = _Differs('the target does not grant the initiator what its attachments say',
                    'it is granted')
_SURPLUS = _Differs('the target grants an initiator that no attachment names',
                    'it is revoked')
