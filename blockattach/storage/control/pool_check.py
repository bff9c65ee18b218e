"""Early check whether any pool can hold a new volume, before the scheduler is called.

The check uses the functions and the stored reports of the scheduler. The scheduler makes the
decision. The check only informs the user earlier. Reports are read again when they are older than
the report interval, and before each refusal.
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
    """Pool check of a process. It is safe to use from several threads."""

    def __init__(self, database: storage_db.Database, filters: Sequence[str],
                 check: api_conf.CapabilityCheck, service: service_conf.ServiceSettings,
                 clock: clock.Clock) -> None:
        """Create the check.

        :param filters: filter names of the scheduler; names of third-party filters are ignored
        """
        self._database = database
        # Filters of third parties are installed for the scheduler only, which may reject more.
        self._filters: Mapping[str, placement.Filter] = {
            name: placement.FILTERS[name] for name in (*placement.ALWAYS, *filters)
            if name in placement.FILTERS}
        self._check = check
        self._service = service
        self._clock = clock
        self._began = clock.monotonic()
        self._kept: tuple[float, list[pools.Pool]] | None = None

    def refusal(self, request: pools.VolumeRequest) -> Mapping[str, str] | None:
        """Return the reasons why no pool is suitable, by pool name, or None.

        None means that a pool is suitable, or that this is not known yet.

        :raises NoPoolForVolume: no pool is suitable, and the configuration rejects such requests
        """
        if self._check == api_conf.CapabilityCheck.OFF:
            return None
        # Old reports suffice to let a request pass, because the scheduler decides. A refusal needs
        # the current ones.
        if placement.refusals(request, self._reports(), self._filters) is None:
            return None
        reasons = placement.refusals(request, self._read(), self._filters)
        if reasons is None or not self._all_up():
            return None
        if self._check == api_conf.CapabilityCheck.REJECT:
            log.step(LOG, 'Rejecting volume creation, no suitable pool',
                     reason=placement.summarise(reasons))
            raise errors.NoPoolForVolume(summary=placement.in_words(reasons))
        return reasons

    def record(self, project_id: str, request_id: str | None, volume_id: str,
               reasons: Mapping[str, str]) -> None:
        """Create the user message of the scheduler before the scheduler is called."""
        # The message has the same ID as that of the scheduler, which later replaces this one.
        messages.no_valid_pool(self._database, project_id, request_id, volume_id, reasons,
                               placement.summarise(reasons))

    def _reports(self) -> list[pools.Pool]:
        kept = self._kept
        if kept is not None and self._clock.monotonic() - kept[0] < self._service.report_interval:
            return kept[1]
        return self._read()

    def _read(self) -> list[pools.Pool]:
        # The time before the query, so that reports never count as newer than they are.
        now = self._clock.monotonic()
        found = stored_pools.list_all(self._database, self._service.service_down_time)
        # Assigned at once, because other threads read this without a lock.
        self._kept = now, found
        return found

    def _all_up(self) -> bool:
        """Return True if no further pool can appear, so that a refusal is reliable.

        Like the scheduler, the check waits for services that are still starting.
        """
        down_after = self._service.service_down_time
        if self._clock.monotonic() - self._began > down_after:
            return True
        return services.all_up(self._database, binaries.VOLUME, down_after)
