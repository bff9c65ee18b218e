"""Placement filters, which decide whether a pool is suitable for a volume.

The scheduler and the API use the same functions, so that they come to the same result. A filter is
a function ``(request, pool)`` that returns the reason for rejecting the pool, or None.
"""
import dataclasses
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Self

from blockattach.storage.domain import pools
from blockattach.storage.domain import volume_type

Filter = Callable[[pools.VolumeRequest, pools.Pool], str | None]
"""Function that returns the reason for rejecting a pool, or None to accept it."""

_POOLS_IN_SUMMARY = 20
_UNSUITABLE = 'not suitable for the volume'
# Reasons for users by filter. The reasons for administrators contain names and capacities, which
# users may not see. Filters that are not built in have the reason `_UNSUITABLE`.
_WORDS = {
    'alive': 'out of service',
    'beside': 'not on another backend of the host of the volume',
    'tried': 'an earlier attempt failed',
    'availability': 'in another availability zone',
    'multiattach': 'multiattach is not supported',
    'capabilities': 'capabilities required by the volume type are missing',
    'capacity': 'not enough free space',
    'source': 'the source of the volume is on another backend',
}


class Reason(str):
    """Reason for rejecting a pool. The string value is the text for administrators.

    :ivar words: text for users, without names or capacities. The default is the text for
        administrators.
    """

    words: str

    def __new__(cls, text: str, words: str | None = None) -> Self:
        """Create a reason whose string value is ``text``."""
        reason = super().__new__(cls, text)
        reason.words = text if words is None else words
        return reason


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Result for one pool.

    :ivar refused_by: name of the filter that rejected the pool; None if the pool is suitable
    :ivar reason: reason for rejecting the pool; None if the pool is suitable
    :ivar score: sum of the weights of a suitable pool
    """

    pool: pools.Pool
    refused_by: str | None = None
    reason: str | None = None
    score: float = 0.0


def judge(request: pools.VolumeRequest, pool: pools.Pool,
          filters: Mapping[str, Filter]) -> Verdict:
    """Apply filters until one rejects the pool. The verdict of a suitable pool has no reason."""
    for name, refuse in filters.items():
        reason = refuse(request, pool)
        if reason is not None:
            if not isinstance(reason, Reason):
                reason = Reason(reason, _WORDS.get(name, _UNSUITABLE))
            return Verdict(pool, name, reason)
    return Verdict(pool)


def refusals(request: pools.VolumeRequest, candidates: Iterable[pools.Pool],
             filters: Mapping[str, Filter]) -> dict[str, str] | None:
    """Return the reasons for rejecting all pools by pool name, or None if any pool is suitable."""
    reasons: dict[str, str] = {}
    for pool in candidates:
        reason = judge(request, pool, filters).reason
        if reason is None:
            return None
        reasons[pool.name] = reason
    return reasons


def summarise(reasons: Mapping[str, str], most: int | None = _POOLS_IN_SUMMARY) -> str:
    """Return the reasons for rejecting the pools as one line for a message or a log.

    :param most: maximum number of pools to name. The line ends with the number of the other pools.
        None names all pools
    """
    if not reasons:
        return 'no pool has reported to the scheduler'
    named = list(reasons.items())[:most]
    text = '; '.join(f'{name}: {reason}' for name, reason in named)
    left = len(reasons) - len(named)
    return f'{text}; and {left} more' if left else text


def in_words(reasons: Mapping[str, str]) -> str:
    """Return the reasons for rejecting the pools as one line for users. Each reason occurs once.
    """
    said = dict.fromkeys(getattr(reason, 'words', _UNSUITABLE) for reason in reasons.values())
    return '; '.join(said) or 'no pool has reported to the scheduler'


def left_gb(pool: pools.Pool) -> float:
    """Return the GiB left to allocate in a pool, or ``inf`` for a pool without limit.

    On a thin pool, other users of the backend may have provisioned more than this service has
    allocated. On a thick pool, `blockattach.storage.domain.pools.measure` has already subtracted
    the space of other users from the limit.
    """
    if pool.thin:
        return pool.limit_gb - max(pool.allocated_gb, pool.provisioned_gb)
    return pool.limit_gb - pool.allocated_gb


def alive(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool whose service is down, disabled or frozen, or whose backend is down."""
    if not pool.up:
        return 'the service is down, disabled or frozen'
    if not pool.usable:
        return str(pool.capabilities.get('backend_state_reason') or 'the backend is down')
    return None


def source(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that is not on the backend of the source of the volume."""
    # An empty host means that the source is deleted, see `pools.Facts`.
    host = request.facts.source_host
    if host is None or host == pool.host:
        return None
    return f'the source of the volume is on {host}' if host else \
        'the source of the volume no longer exists'


def beside(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool to which the data of a volume cannot be migrated.

    A single process copies the data, so both backends must be on the same host.
    """
    # The current pool is suitable too, since a retype may leave the volume on this pool.
    if request.home is None or request.home == pool.name:
        return None
    here, there = request.home.partition('#')[0], pool.host
    if here == there:
        return 'the volume is already on the backend'
    if here.partition('@')[0] != there.partition('@')[0]:
        return 'not on the host of the volume'
    return None


def tried(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool on which an earlier attempt for the volume failed (Cinder's RetryFilter)."""
    if pool.name in request.tried:
        return 'an earlier attempt on the pool failed'
    return None


def availability(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that is not in the requested availability zone, if a zone is requested."""
    wanted = request.availability_zone
    if wanted is None or wanted == pool.availability_zone:
        return None
    return f'in availability zone {pool.availability_zone}, not {wanted}'


def multiattach(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that does not support multiattach, if the volume requires multiattach."""
    if request.multiattach and not pool.multiattach:
        return 'multiattach is not supported'
    return None


def capabilities(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that does not satisfy the extra specs of the type (CapabilitiesFilter)."""
    return volume_type.lacking(pool.capabilities, request.extra_specs)


def capacity(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool with too little space left, as Cinder's CapacityFilter does.

    A pool without limit always has space. The filter only avoids attempts that would fail, because
    the claim in the database checks the space again.
    """
    if math.isinf(pool.limit_gb):
        return None
    left, room_gb = left_gb(pool), request.room_gb(pool.name)
    if left < room_gb:
        return f'{max(left, 0):g} GiB left, {room_gb} GiB required'
    # The report may show less space than the allocations of this service leave.
    if pool.thin and _free_virtual_gb(pool) < room_gb:
        return (f'{pool.free_gb:g} GiB free on disk, not enough for {room_gb} GiB with thin '
                f'provisioning')
    return None


def _free_virtual_gb(pool: pools.Pool) -> float:
    """Return the free virtual GiB of a thin pool.

    The result is the free space without the reserved space, times the over-subscription ratio.
    """
    kept = pool.total_gb * pools.gib(pool.capabilities.get('reserved_percentage')) / 100
    usable = pool.total_gb - kept
    return (pool.free_gb - kept) * pool.limit_gb / usable if usable > 0 else 0.0


FILTERS: Mapping[str, Filter] = {
    'source': source,
    'beside': beside,
    'alive': alive,
    'tried': tried,
    'availability': availability,
    'multiattach': multiattach,
    'capabilities': capabilities,
    'capacity': capacity,
}
"""Built-in filters by name. ``[scheduler] scheduler_default_filters`` selects those to apply."""
ALWAYS = ('source', 'beside')
"""Names of filters that are applied first, regardless of the configuration.

If one of these filters rejects a pool, the data of the volume cannot be copied to the pool.
"""
