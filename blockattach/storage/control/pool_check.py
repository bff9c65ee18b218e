"""Early check whether any pool can hold a new volume, before the scheduler is called.

The check informs the user earlier than the scheduler, which makes the decision. It uses filters of
the scheduler and the stored reports about pools. The process keeps the reports in memory. It reads
them again if they are older than the report interval, and before each refusal.
"""
import logging
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach.platform import clock
from blockattach.platform import log
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import service as service_conf
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import placement
from blockattach.storage.domain import pools

LOG = logging.getLogger(__name__)


class PoolCheck:
    """Check of the pools for new volumes. All threads of a process share one instance."""

    def __init__(self, database: storage_db.Database, filters: Sequence[str],
                 check: api_conf.CapabilityCheck, service: service_conf.ServiceSettings,
                 clock: clock.Clock) -> None:
        """
        :param filters: names of the filters of the scheduler. Names of third-party filters are
            ignored
        :param check: configured reaction if no pool is suitable
        """
        self._database = database
        # Filters of third parties are only installed for the scheduler, which may thus reject more
        # pools.
        self._filters: Mapping[str, placement.Filter] = {
            name: placement.FILTERS[name] for name in (*placement.ALWAYS, *filters)
            if name in placement.FILTERS}
        self._check = check
        self._service = service
        self._clock = clock
        self._began = clock.monotonic()
        self._kept: tuple[float, list[pools.Pool]] | None = None

    def refusal(self, request: pools.VolumeRequest) -> Mapping[str, str] | None:
        """Return the reasons why no pool is suitable, by the name of the pool.

        :returns: None if a pool is suitable, if further backends may still start, or if the check
            is disabled
        :raises NoPoolForVolume: no pool is suitable, and the configuration rejects such requests
        """
        if self._check == api_conf.CapabilityCheck.OFF:
            return None
        # Old reports are sufficient to accept a request, because the scheduler decides. A refusal
        # needs current reports.
        if placement.refusals(request, self._reports(), self._filters) is None:
            return None
        reasons = placement.refusals(request, self._read(), self._filters)
        if reasons is None or not self._all_up():
            return None
        if self._check == api_conf.CapabilityCheck.REJECT:
            log.step(LOG, 'Rejecting volume creation',
                     reason=placement.summarise(reasons))
            raise errors.NoPoolForVolume(summary=placement.in_words(reasons))
        return reasons

    def record(self, project_id: str, request_id: str | None, volume_id: str,
               reasons: Mapping[str, str]) -> None:
        """Create the user message that no pool is suitable, before the scheduler is called.

        :param reasons: result of `refusal`
        """
        # The message has the same ID as the message of the scheduler, which replaces it later.
        messages.no_valid_pool(self._database, project_id, request_id, volume_id, reasons,
                               placement.summarise(reasons))

    def _reports(self) -> list[pools.Pool]:
        kept = self._kept
        if kept is not None and self._clock.monotonic() - kept[0] < self._service.report_interval:
            return kept[1]
        return self._read()

    def _read(self) -> list[pools.Pool]:
        # The time is taken before the query, so that reports never count as newer than they are.
        now = self._clock.monotonic()
        found = stored_pools.list_all(self._database, self._service.service_down_time)
        # One assignment of both values, because other threads read the attribute without a lock.
        self._kept = now, found
        return found

    def _all_up(self) -> bool:
        """Return True if no further pools are expected, so that a refusal is reliable.

        As in the scheduler, further pools are expected until every enabled backend is up, or until
        ``service_down_time`` has passed since the start of this process.
        """
        down_after = self._service.service_down_time
        if self._clock.monotonic() - self._began > down_after:
            return True
        return services.all_up(self._database, binaries.VOLUME, down_after)
