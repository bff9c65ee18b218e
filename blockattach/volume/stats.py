"""Report the pools: into the database, where every scheduler finds them."""
from typing import Any

from oslo_log import log as oslo_log

from blockattach import context
from blockattach import log
from blockattach.db import engine
from blockattach.db import pools
from blockattach.objects import placement
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.volume import backends

LOG = oslo_log.getLogger(__name__)


class PoolReporter:
    """What one backend's pools offer, measured and stored."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend, host: str,
                 availability_zone: str,
                 scheduler: scheduler_rpc.SchedulerInterface) -> None:
        self._database = database
        self._backend = backend
        self._host = host
        self._availability_zone = availability_zone
        self._scheduler = scheduler

    def report(self) -> None:
        """Measure and store; a backend that cannot be measured is silent and counts as down."""
        try:
            pools.report(self._database, self._host, list(self._measured().items()),
                         self._availability_zone)
        except Exception:
            LOG.exception('Cannot report the pools%s', log.fields(host=self._host))

    def announce(self) -> None:
        """Tell every scheduler that this backend has come; what waited for it is placed now."""
        try:
            self._scheduler.report_pools(
                context.admin_context(),
                placement.PoolsReport.from_capabilities(self._host, self._measured()))
        except Exception:
            LOG.exception('Cannot tell the schedulers of the pools%s', log.fields(host=self._host))

    def _measured(self) -> dict[str, dict[str, Any]]:
        return {f'{self._host}#{report.name}': dict(report.capabilities)
                for report in self._backend.pools()}
