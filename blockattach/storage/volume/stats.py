"""Report the pools: into the database, where every scheduler finds them."""
import itertools
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.platform import units
from blockattach.platform.telemetry import threads
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools
from blockattach.storage.domain import pools as domain_pools
from blockattach.storage.objects import placement
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import backends

LOG = oslo_log.getLogger(__name__)

_PROVISIONED = 'provisioned_capacity_gb'


class PoolReporter:
    """What one backend's pools offer, measured and stored."""

    def __init__(self, database: storage_db.Database, backend: backends.KeptBackend, host: str,
                 availability_zone: str,
                 scheduler: scheduler_rpc.SchedulerInterface,
                 waiting: threads.Threads | None = None) -> None:
        """
        :param waiting: how threads of this process wait for each other
        """
        self._database = database
        self._backend = backend
        self._host = host
        self._availability_zone = availability_zone
        self._scheduler = scheduler
        self._silent = True
        self._target_wrong: str | None = None
        self._said: dict[str, dict[str, Any]] = {}
        self._storing = (waiting or threads.Threads()).lock()
        self._measurements = itertools.count(1)
        self._stored = 0

    def target_is(self, wrong: str | None) -> None:
        """From now on the target is as this says, and so are the pools: nothing new comes to one
        whose target does not answer. None: nothing is wrong.
        """
        self._target_wrong = wrong
        self.report()

    def report(self, again: bool = False) -> None:
        """Measure and store; a backend that cannot be measured is silent and counts as down.

        :param again: after a change of ours: the pools are most probably those of last time
        """
        try:
            number = next(self._measurements)
            measured = self._measured()
            with self._storing:
                # Several threads report; what was measured later is not overwritten.
                if number > self._stored:
                    self._store(measured, again)
                    self._stored = number
        except Exception as exc:
            self._silent = True
            LOG.error('Failed to report pools%s', log.fields(host=self._host, reason=exc),
                      exc_info=not errors.is_known(exc))
        else:
            self._silent = False

    def _store(self, measured: dict[str, dict[str, Any]], again: bool) -> None:
        again = again and measured.keys() == self._said.keys() and all(
            _PROVISIONED in said for said in measured.values())
        self._said = measured
        if not again or not pools.refresh(self._database, measured):
            pools.report(self._database, self._host, list(measured.items()),
                         self._availability_zone)

    def wrong(self) -> str | None:
        """Why the backend counts as down; None: it does not."""
        return 'the backend cannot report its pools' if self._silent else self._target_wrong

    def sizes(self) -> dict[metrics.Metric, dict[tuple[str, ...], float]]:
        """Bytes of each pool, as they were measured last."""
        found: dict[metrics.Metric, dict[tuple[str, ...], float]] = {
            metrics.POOL_TOTAL: {}, metrics.POOL_FREE: {}, metrics.POOL_PROVISIONED: {}}
        for name, said in self._said.items():
            room = domain_pools.measure(said)
            found[metrics.POOL_TOTAL][name,] = room.total_gb * units.GIB
            found[metrics.POOL_FREE][name,] = room.free_gb * units.GIB
            found[metrics.POOL_PROVISIONED][name,] = room.provisioned_gb * units.GIB
        return found

    def announce(self) -> None:
        """Notify every scheduler that this backend is up; what waited for it is placed now."""
        try:
            self._scheduler.report_pools(
                context.admin_context(),
                placement.PoolsReport.from_capabilities(self._host, self._measured()))
        except Exception as exc:
            LOG.error('Failed to notify schedulers of pools%s',
                      log.fields(host=self._host, reason=exc),
                      exc_info=not errors.is_known(exc))

    def _measured(self) -> dict[str, dict[str, Any]]:
        state = ({'backend_state': 'down', 'backend_state_reason': self._target_wrong}
                 if self._target_wrong else {})
        return {f'{self._host}#{report.name}': {**report.capabilities, **state}
                for report in self._backend.pools()}
