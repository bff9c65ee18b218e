"""What the pools last reported, and the choice among them.

Every choice reads the stored reports: they hold what all schedulers have given away until now, so
that there is nothing to keep fresh between processes. The claim in the database decides.
"""
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach import clock
from blockattach import errors
from blockattach.db import engine
from blockattach.db import pools as stored_pools
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.domain import placement
from blockattach.domain import pools
from blockattach.scheduler import pipeline
from blockattach.telemetry import acts


class PoolChooser:
    """Chooses among the pools as the database knows them now."""

    def __init__(self, database: engine.Database, filters: Mapping[str, placement.Filter],
                 weighers: Sequence[pipeline.Weighing], down_after: float,
                 clock: clock.Clock, telemetry: acts.Telemetry | None = None) -> None:
        self.telemetry = telemetry or acts.Telemetry(clock)
        self._database = database
        self._filters = filters
        self._weighers = weighers
        self._down_after = down_after
        self._clock = clock
        self._began = clock.monotonic()

    def choose(self, request: pools.VolumeRequest) -> pipeline.Choice:
        """Every pool with its score or the reason against it."""
        choice = pipeline.choose(request, stored_pools.list_all(self._database, self._down_after),
                                 self._filters, self._weighers)
        for verdict in choice.verdicts:
            if verdict.refused_by is not None:
                self.telemetry.pool_refused(verdict.refused_by)
        return choice

    def heard_all(self) -> bool:
        """Whether a refusal may be believed.

        After the whole installation was started, the backends come up one by one: until every
        enabled one has given a sign of life, or has had its time to, another may still come.
        """
        if self._clock.monotonic() - self._began > self._down_after:
            return True
        return services.all_heard(self._database, binaries.VOLUME, self._down_after)

    def service_uuid(self, pool: pools.Pool) -> str | None:
        """The service that keeps a pool, if it has registered itself."""
        try:
            return services.get_by_host(self._database, binaries.VOLUME, pool.host,
                                        self._down_after).uuid
        except errors.ServiceNotFound:
            return None
