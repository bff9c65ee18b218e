"""What the pools last reported, and the choice among them.

Every choice reads the stored reports: they hold what all schedulers have given away until now, so
that there is nothing to keep fresh between processes. The claim in the database decides.
"""
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach import clock
from blockattach.db import engine
from blockattach.db import pools as stored_pools
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.domain import placement
from blockattach.domain import pools
from blockattach.scheduler import facts
from blockattach.scheduler import pipeline
from blockattach.telemetry import acts


class PoolsIncomplete(Exception):
    """No pool will do, but backends that may are still starting: the volume goes on waiting."""


class PoolChooser:
    """Chooses among the pools as the database knows them now."""

    def __init__(self, database: engine.Database, filters: Mapping[str, placement.Filter],
                 weighers: Sequence[pipeline.Weighing], down_after: float,
                 clock: clock.Clock, telemetry: acts.Telemetry | None = None,
                 reader: facts.FactReader | None = None) -> None:
        """
        :param reader: what is read besides; default: what needs neither Nova nor a count
        """
        self.telemetry = telemetry or acts.Telemetry(clock)
        self._database = database
        self._filters = filters
        self._weighers = weighers
        self._down_after = down_after
        self._clock = clock
        self._began = clock.monotonic()
        self._reader = reader or facts.FactReader(database, (), ())

    def with_facts(self, request: pools.VolumeRequest) -> pools.VolumeRequest:
        """What is asked, with the facts as they are now.

        :raises VolumeNotFound: the volume is gone
        """
        return dataclasses.replace(request, facts=self._reader.read(request.volume_id))

    def choose(self, request: pools.VolumeRequest) -> pipeline.Choice:
        """Every pool with its score or the reason against it.

        :param request: as `with_facts` makes it
        """
        choice = pipeline.choose(request, stored_pools.list_all(self._database, self._down_after),
                                 self._filters, self._weighers)
        for verdict in choice.verdicts:
            if verdict.refused_by is not None:
                self.telemetry.pool_refused(verdict.refused_by)
        return choice

    def heard_all(self) -> bool:
        """Whether a refusal may be believed.

        After the whole installation was started, the backends come up one by one: until every
        enabled one has sent a heartbeat, or has had its time to, another may still come.
        """
        if self._clock.monotonic() - self._began > self._down_after:
            return True
        return services.all_up(self._database, binaries.VOLUME, self._down_after)
