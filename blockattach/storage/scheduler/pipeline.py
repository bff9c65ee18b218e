"""Choice of a pool for a volume. Every pool gets a score, or the reason of its rejection.

Every choice reads the pools from the database, with the capacity that all schedulers have claimed.
The scheduler processes therefore have no state to synchronize. The chosen pool is only reserved by
the later claim, which checks the capacity again.
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
"""Name of the weigher that needs the number of volumes of each pool."""

Weigher = Callable[[pools.VolumeRequest, pools.Pool], float]
"""Function that returns a measure of a pool, in any unit.

``inf`` means that the pool cannot be measured. It then gets the worst score of the weigher.
"""


class PoolsIncomplete(Exception):
    """Raised if all pools are rejected while other backends are still starting.

    The volume waits, because a pool of these backends may be suitable.
    """


class Weighing(NamedTuple):
    """Weigher that the scheduler uses, with its multiplier.

    The measures of all suitable pools are scaled to the range from 0 to 1. The products of the
    scaled measures and the multiplier are added to the scores of the pools.
    """

    name: str
    weigher: Weigher
    multiplier: float


@dataclasses.dataclass(frozen=True)
class Choice:
    """Verdicts on all pools (`blockattach.storage.domain.placement.Verdict`).

    :ivar verdicts: verdicts on the suitable pools, the best pool first, followed by the verdicts
        on the rejected pools, ordered by name
    """

    verdicts: tuple[placement.Verdict, ...]

    @property
    def accepted(self) -> tuple[pools.Pool, ...]:
        """Suitable pools, the best pool first."""
        return tuple(verdict.pool for verdict in self.verdicts if verdict.reason is None)

    @functools.cached_property
    def reasons(self) -> dict[str, str]:
        """Reasons of the rejections, by the names of the rejected pools."""
        return {verdict.pool.name: verdict.reason for verdict in self.verdicts
                if verdict.reason is not None}


def choose(request: pools.VolumeRequest, candidates: Iterable[pools.Pool],
           filters: Mapping[str, placement.Filter], weighers: Sequence[Weighing]) -> Choice:
    """Return a verdict on every pool for a volume.

    :param filters: filters by name, in the order in which they run
    """
    judged = [placement.judge(request, pool, filters) for pool in candidates]
    fit = [verdict for verdict in judged if verdict.reason is None]
    scores = _scores(request, [verdict.pool for verdict in fit], weighers)
    # The pool that already has the volume comes first if it is suitable, because no data has to be
    # copied. Pools with equal scores are ordered by name, independently of the order of the
    # candidates.
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
    """Scale measures to the range from 0 (least) to 1 (most). Equal measures all become 0.

    An infinite measure becomes the worst one: the least with a positive multiplier, and the most
    with a negative multiplier.
    """
    finite = [measure for measure in measures if math.isfinite(measure)]
    if not finite:
        return [0.0] * len(measures)
    worst = min(finite) - 1 if multiplier > 0 else max(finite) + 1
    complete = [measure if math.isfinite(measure) else worst for measure in measures]
    least, span = min(complete), max(complete) - min(complete)
    return [(measure - least) / span if span else 0.0 for measure in complete]


class PoolChooser:
    """Chooser of a pool among the pools in the database."""

    def __init__(self, database: storage_db.Database, filters: Mapping[str, placement.Filter],
                 weighers: Sequence[Weighing], down_after: float, clock: clock.Clock,
                 telemetry: acts.Telemetry | None = None,
                 host_of: Callable[[str, str], str] | None = None) -> None:
        """
        :param filters: filters by name, in the order in which they run
        :param down_after: seconds without a heartbeat after which a service counts as down
        :param host_of: function that returns the host of a server, or raises ServerHostUnknown.
            Its arguments are the ids of the server and its project. None if the filter
            ``instance_locality`` is not in use
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
        """Return the request with the facts that the configured filters and weighers need.

        The facts are read here and are not part of the RPC call. A volume that waits, or is placed
        again after a crash, is therefore placed by the current facts.

        :raises VolumeNotFound: the volume was deleted
        """
        facts = placing_facts.read(self._database, request.volume_id, self._counting)
        server_id = hint_filters.server_id(facts.hints)
        if self._host_of is not None and server_id is not None:
            try:
                facts = dataclasses.replace(
                    facts, server_host=self._host_of(server_id, facts.volume['project_id']))
            except errors.ServerHostUnknown as error:
                LOG.warning('Failed to get host of server named in scheduler hint%s', log.fields(
                    volume_id=request.volume_id, server_id=server_id, reason=error))
                # The locality filter rejects all pools with this reason.
                facts = dataclasses.replace(facts, server_lost=str(error))
        return dataclasses.replace(request, facts=facts)

    def choose(self, request: pools.VolumeRequest) -> Choice:
        """Return a verdict on every pool that the request allows, and count the rejections.

        :param request: result of `with_facts`. Its ``pool`` limits the choice to one pool or to
            the pools of one ``host@backend``
        """
        choice = self._choice(request)
        for verdict in choice.verdicts:
            if verdict.refused_by is not None:
                self.telemetry.pool_refused(verdict.refused_by)
        return choice

    def would_choose(self, request: pools.VolumeRequest, volume_type_id: str,
                     project_id: str | None, user_id: str | None) -> Choice:
        """Return a verdict on every pool for a volume that does not exist.

        The volume has no name and no scheduler hints.

        :param request: requirements of the volume
        :raises VolumeTypeNotFound: the volume type does not exist
        """
        facts = placing_facts.of_new(self._database, volume_type_id, project_id, user_id,
                                     self._counting)
        # Rejections are not counted, because no volume is placed.
        return self._choice(dataclasses.replace(request, facts=facts))

    def _choice(self, request: pools.VolumeRequest) -> Choice:
        candidates = [pool for pool in stored_pools.list_all(self._database, self.down_after)
                      if request.pool in (None, pool.name, pool.host)]
        return choose(request, candidates, self._filters, self._weighers)

    def heard_all(self) -> bool:
        """Return True if no further pools are expected, so that a rejection of all pools is final.

        After a start of the whole installation, the backends come up one by one. Further pools are
        expected until every enabled backend is up, or until ``down_after`` seconds have passed
        since the start of this process.
        """
        if self._clock.monotonic() - self._began > self.down_after:
            return True
        return services.all_up(self._database, binaries.VOLUME, self.down_after)
