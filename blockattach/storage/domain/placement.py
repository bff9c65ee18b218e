"""Whether a pool will do for a volume: what the scheduler asks, and the API before it.

The scheduler and the API use these functions, so that they cannot disagree on one report. A filter
is a function ``(request, pool)`` that gives the reason to refuse, or None.
"""
import dataclasses
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Self

from blockattach.storage.domain import extra_specs
from blockattach.storage.domain import pools

Filter = Callable[[pools.VolumeRequest, pools.Pool], str | None]
"""Says why a pool will not do, or None."""

_POOLS_IN_SUMMARY = 20
_UNSUITABLE = 'not suitable for the volume'
# What users read instead of a reason that names zones, capabilities or capacities, by the filter;
# of a filter that is not our own they read no more than that it refuses.
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
    """Why a pool will not do, as administrators read it. ``words``: as the user reads it, without
    names or capacities; the same where nothing else is given."""

    words: str

    def __new__(cls, text: str, words: str | None = None) -> Self:
        """A reason is its text."""
        reason = super().__new__(cls, text)
        reason.words = text if words is None else words
        return reason


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What was found on one pool: the first filter that refused it and why, or a score."""

    pool: pools.Pool
    refused_by: str | None = None
    reason: str | None = None
    score: float = 0.0


def judge(request: pools.VolumeRequest, pool: pools.Pool,
          filters: Mapping[str, Filter]) -> Verdict:
    """Ask the filters in their order, until one refuses."""
    for name, refuse in filters.items():
        reason = refuse(request, pool)
        if reason is not None:
            if not isinstance(reason, Reason):
                reason = Reason(reason, _WORDS.get(name, _UNSUITABLE))
            return Verdict(pool, name, reason)
    return Verdict(pool)


def refusals(request: pools.VolumeRequest, candidates: Iterable[pools.Pool],
             filters: Mapping[str, Filter]) -> dict[str, str] | None:
    """Why each pool was refused, by the pools' names; None as soon as one will do."""
    reasons: dict[str, str] = {}
    for pool in candidates:
        reason = judge(request, pool, filters).reason
        if reason is None:
            return None
        reasons[pool.name] = reason
    return reasons


def summarise(reasons: Mapping[str, str], most: int | None = _POOLS_IN_SUMMARY) -> str:
    """Why each pool was refused, in a line: for a message, a log.

    :param most: so many pools are named, the others counted; None names all
    """
    if not reasons:
        return 'no pool has reported to the scheduler'
    named = list(reasons.items())[:most]
    text = '; '.join(f'{name}: {reason}' for name, reason in named)
    left = len(reasons) - len(named)
    return f'{text}; and {left} more' if left else text


def in_words(reasons: Mapping[str, str]) -> str:
    """Why the pools were refused, each reason once, as the user reads it."""
    said = dict.fromkeys(getattr(reason, 'words', _UNSUITABLE) for reason in reasons.values())
    return '; '.join(said) or 'no pool has reported to the scheduler'


def left_gb(pool: pools.Pool) -> float:
    """GiB that are still free to give, by the sum that the claim makes; ``inf``: no limit.

    A thin pool also counts what its backend has provisioned beyond what was given away here; a
    thick one has taken that off its limit already (`blockattach.storage.domain.pools.measure`).
    """
    if pool.thin:
        return pool.limit_gb - max(pool.allocated_gb, pool.provisioned_gb)
    return pool.limit_gb - pool.allocated_gb


def alive(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool whose service is silent, disabled or frozen, or whose backend is down."""
    if not pool.up:
        return 'the service is down, disabled or frozen'
    if not pool.usable:
        return str(pool.capabilities.get('backend_state_reason') or 'the backend is down')
    return None


def source(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool of another backend than the one that has what the volume is made of."""
    host = request.facts.source_host
    if host is None or host == pool.host:
        return None
    return f'the source of the volume is on {host}' if host else \
        'the source of the volume no longer exists'


def beside(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool to which the bytes of a volume cannot be copied: that is done by a process
    that serves both backends.
    """
    if request.home is None or request.home == pool.name:
        return None
    here, there = request.home.partition('#')[0], pool.host
    if here == there:
        return 'the volume is already on the backend'
    if here.partition('@')[0] != there.partition('@')[0]:
        return 'not on the host of the volume'
    return None


def tried(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that failed this volume before."""
    if pool.name in request.tried:
        return 'an earlier attempt on the pool failed'
    return None


def availability(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool in another zone than the one asked for, if any was."""
    wanted = request.availability_zone
    if wanted is None or wanted == pool.availability_zone:
        return None
    return f'in availability zone {pool.availability_zone}, not {wanted}'


def multiattach(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that cannot export one volume to several hosts, if the volume wants that."""
    if request.multiattach and not pool.multiattach:
        return 'multiattach is not supported'
    return None


def capabilities(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that lacks what the type's extra specs ask for."""
    return extra_specs.lacking(pool.capabilities, request.extra_specs)


def capacity(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool with too little left to give away; one without limit has room.

    The claim in the database decides; this spares it hopeless tries.
    """
    if math.isinf(pool.limit_gb):
        return None
    left, room_gb = left_gb(pool), request.room_gb(pool.name)
    if left < room_gb:
        return f'{max(left, 0):g} GiB left, {room_gb} GiB required'
    if pool.thin and _free_virtual_gb(pool) < room_gb:
        return (f'{pool.free_gb:g} GiB free on disk, not enough for {room_gb} GiB with thin '
                f'provisioning')
    return None


def _free_virtual_gb(pool: pools.Pool) -> float:
    """What a thin pool's free bytes, less the reserved ones, are worth over-subscribed."""
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
"""Our own filters by name; `[scheduler] scheduler_default_filters` says which are asked."""
ALWAYS = ('source', 'beside')
"""Asked first, whatever is configured: no other pool could make the volume."""
