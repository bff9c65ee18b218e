"""Choose a pool: every pool gets a reason against it or a score, and the answer keeps them all.

Every choice reads the stored reports: they hold what all schedulers have given away until now, so
that there is nothing to keep fresh between processes. The claim in the database decides.
"""
import dataclasses
import functools
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import clock
from blockattach.platform import log
from blockattach.platform.telemetry import acts
from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import binaries
from blockattach.storage.domain import hint_filters
from blockattach.storage.domain import placement
from blockattach.storage.domain import pools

LOG = oslo_log.getLogger(__name__)

COUNTING = 'volume_number'
"""The weigher that needs a count of volumes."""

Weigher = Callable[[pools.VolumeRequest, pools.Pool], float]
"""Measures a pool in any unit; ``inf`` where it cannot be measured: such a pool ranks last."""


class PoolsIncomplete(Exception):
    """No pool will do, but backends that may are still starting: the volume goes on waiting."""


class Weighing(NamedTuple):
    """A weigher in use: what it measures, from 0 to 1 over all pools, counts so many times."""

    name: str
    weigher: Weigher
    multiplier: float


@dataclasses.dataclass(frozen=True)
class Choice:
    """Every pool: those that will do first, best before next best, then the others by name."""

    verdicts: tuple[placement.Verdict, ...]

    @property
    def accepted(self) -> tuple[pools.Pool, ...]:
        """The pools that will do, best first."""
        return tuple(verdict.pool for verdict in self.verdicts if verdict.reason is None)

    @functools.cached_property
    def reasons(self) -> dict[str, str]:
        """Why not, by the names of the pools that were refused."""
        return {verdict.pool.name: verdict.reason for verdict in self.verdicts
                if verdict.reason is not None}


def choose(request: pools.VolumeRequest, candidates: Iterable[pools.Pool],
           filters: Mapping[str, placement.Filter], weighers: Sequence[Weighing]) -> Choice:
    """Judge every pool for a volume.

    :param filters: by name, in the order in which they are asked
    """
    judged = [placement.judge(request, pool, filters) for pool in candidates]
    fit = [verdict for verdict in judged if verdict.reason is None]
    scores = _scores(request, [verdict.pool for verdict in fit], weighers)
    ranked = sorted((dataclasses.replace(verdict, score=score)
                     for verdict, score in zip(fit, scores, strict=True)),
                    key=lambda verdict: (verdict.pool.name != request.home, -verdict.score,
                                         verdict.pool.name))
    refused = sorted((verdict for verdict in judged if verdict.reason is not None),
                     key=lambda verdict: verdict.pool.name)
    return Choice((*ranked, *refused))


def _scores(request: pools.VolumeRequest, fit: Sequence[pools.Pool],
            weighers: Sequence[Weighing]) -> list[float]:
    totals = [0.0] * len(fit)
    for _, weigher, multiplier in weighers:
        measures = [weigher(request, pool) for pool in fit]
        for index, share in enumerate(_normalised(measures, multiplier)):
            totals[index] += share * multiplier
    return totals


def _normalised(measures: Sequence[float], multiplier: float) -> list[float]:
    """From 0 for the least to 1 for the most; all alike: 0. The unmeasurable end up worst."""
    finite = [measure for measure in measures if math.isfinite(measure)]
    if not finite:
        return [0.0] * len(measures)
    worst = min(finite) - 1 if multiplier > 0 else max(finite) + 1
    known = [measure if math.isfinite(measure) else worst for measure in measures]
    least, span = min(known), max(known) - min(known)
    return [(measure - least) / span if span else 0.0 for measure in known]


class PoolChooser:
    """Chooses among the pools as the database knows them now."""

    def __init__(self, database: storage_db.Database, filters: Mapping[str, placement.Filter],
                 weighers: Sequence[Weighing], down_after: float, clock: clock.Clock,
                 telemetry: acts.Telemetry | None = None,
                 host_of: Callable[[str, str], str] | None = None) -> None:
        """
        :param host_of: the host of a server of a project, by their ids, or ServerHostUnknown;
            given where the filter on locality is in use
        """
        self.telemetry = telemetry or acts.Telemetry(clock)
        self.down_after = down_after
        self._database = database
        self._filters = filters
        self._weighers = weighers
        self._clock = clock
        self._began = clock.monotonic()
        self._host_of = host_of
        self._counting = any(weighing.name == COUNTING for weighing in weighers)

    def with_facts(self, request: pools.VolumeRequest) -> pools.VolumeRequest:
        """What is asked, with all that the filters and weighers in use look at, as it is now.

        Read and not carried: a volume that waits, or is placed anew after a crash, is judged by
        what holds then.

        :raises VolumeNotFound: the volume is gone
        """
        found = placing_facts.read(self._database, request.volume_id, self._counting)
        server_id = hint_filters.server_id(found.hints)
        if self._host_of is not None and server_id is not None:
            try:
                found = dataclasses.replace(
                    found, server_host=self._host_of(server_id, found.volume['project_id']))
            except errors.ServerHostUnknown as error:
                LOG.warning('Failed to find host of server in scheduler hint%s', log.fields(
                    volume_id=request.volume_id, server_id=server_id, reason=error))
                found = dataclasses.replace(found, server_lost=str(error))
        return dataclasses.replace(request, facts=found)

    def choose(self, request: pools.VolumeRequest) -> Choice:
        """Every pool that is in question, with its score or the reason against it.

        :param request: as `with_facts` makes it
        """
        choice = self._choice(request)
        for verdict in choice.verdicts:
            if verdict.refused_by is not None:
                self.telemetry.pool_refused(verdict.refused_by)
        return choice

    def would_choose(self, request: pools.VolumeRequest, volume_type_id: str,
                     project_id: str | None, user_id: str | None) -> Choice:
        """What would be chosen for a volume that is not there: it has no id, no name, no hints.

        :raises VolumeTypeNotFound: there is no such type
        """
        facts = placing_facts.of_new(self._database, volume_type_id, project_id, user_id,
                                     self._counting)
        return self._choice(dataclasses.replace(request, facts=facts))

    def _choice(self, request: pools.VolumeRequest) -> Choice:
        candidates = [pool for pool in stored_pools.list_all(self._database, self.down_after)
                      if request.pool in (None, pool.name, pool.host)]
        return choose(request, candidates, self._filters, self._weighers)

    def heard_all(self) -> bool:
        """Whether a refusal may be believed.

        After the whole installation was started, the backends come up one by one: until every
        enabled one has sent a heartbeat, or has had its time to, another may still come.
        """
        if self._clock.monotonic() - self._began > self.down_after:
            return True
        return services.all_up(self._database, binaries.VOLUME, self.down_after)
