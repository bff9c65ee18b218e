"""Reports of the pools of a backend, stored in the database for all schedulers."""
import itertools
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.platform import units
from blockattach.platform.telemetry import threads
from blockattach.storage import objects
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools
from blockattach.storage.domain import pools as domain_pools
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import backends

LOG = oslo_log.getLogger(__name__)

_PROVISIONED = 'provisioned_capacity_gb'


class PoolReporter:
    """Reporter of the pools of one backend, which measures the pools and stores the reports."""

    def __init__(self, database: storage_db.Database, backend: backends.KeptBackend, host: str,
                 availability_zone: str,
                 scheduler: scheduler_rpc.SchedulerInterface,
                 waiting: threads.Threads | None = None) -> None:
        """Create a reporter without querying the store.

        :param waiting: factory of locks for threads of this process
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
        """Record whether the target answers, and report the pools again.

        While the target does not answer, schedulers place no new volumes on the pools.

        :param wrong: reason why the target does not answer; None if it answers
        """
        self._target_wrong = wrong
        self.report()

    def report(self, again: bool = False) -> None:
        """Query the store for its pools, and store their reports in the database.

        If the query fails, the backend counts as down.

        :param again: True after a volume was changed, so that the set of pools is probably still
            the same and only the stored reports need to be updated
        """
        try:
            number = next(self._measurements)
            measured = self._measured()
            with self._storing:
                # Several threads report. An earlier measurement must not overwrite a later one.
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
        # `pools.refresh` only updates rows, and needs the provisioned capacity.
        again = again and measured.keys() == self._said.keys() and all(
            _PROVISIONED in said for said in measured.values())
        self._said = measured
        if not again or not pools.refresh(self._database, measured):
            pools.report(self._database, self._host, list(measured.items()),
                         self._availability_zone)

    def wrong(self) -> str | None:
        """Return the reason why the backend counts as down, or None if it is up."""
        return 'the backend cannot report its pools' if self._silent else self._target_wrong

    def sizes(self) -> dict[metrics.Metric, dict[tuple[str, ...], float]]:
        """Return the last reported sizes of each pool in bytes, by metric and pool name."""
        sizes: dict[metrics.Metric, dict[tuple[str, ...], float]] = {
            metrics.POOL_TOTAL: {}, metrics.POOL_FREE: {}, metrics.POOL_PROVISIONED: {}}
        for name, said in self._said.items():
            room = domain_pools.measure(said)
            sizes[metrics.POOL_TOTAL][name,] = room.total_gb * units.GIB
            sizes[metrics.POOL_FREE][name,] = room.free_gb * units.GIB
            sizes[metrics.POOL_PROVISIONED][name,] = room.provisioned_gb * units.GIB
        return sizes

    def announce(self) -> None:
        """Notify all schedulers that the backend is up, so that they schedule waiting volumes."""
        try:
            self._scheduler.report_pools(
                context.admin_context(),
                objects.PoolsReport.from_capabilities(self._host, self._measured()))
        except Exception as exc:
            LOG.error('Failed to notify schedulers of pools%s',
                      log.fields(host=self._host, reason=exc),
                      exc_info=not errors.is_known(exc))

    def _measured(self) -> dict[str, dict[str, Any]]:
        state = ({'backend_state': 'down', 'backend_state_reason': self._target_wrong}
                 if self._target_wrong else {})
        return {f'{self._host}#{report.name}': {**report.capabilities, **state}
                for report in self._backend.pools()}
