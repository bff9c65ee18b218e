"""Filters and weighers by name: our own, then what others have installed as entry points.

A filter says why a pool will not do, or nothing; they are asked in their order. A weigher is a
function ``(request, pool)`` that gives a number; its multiplier is configured.

A backend itself is asked by its ``filter_function`` and its ``goodness_function``: expressions
that its operator has configured, or that its driver reports
(`blockattach.storage.domain.expressions`). What is wrong with one is the operator's matter: it is
logged, and the user reads only that the pool will not do.
"""
import hashlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from oslo_log import log as oslo_log
from stevedore import driver
from stevedore import exception

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage.domain import expressions
from blockattach.storage.domain import hint_filters
from blockattach.storage.domain import placement
from blockattach.storage.domain import pools
from blockattach.storage.scheduler import pipeline

LOG = oslo_log.getLogger(__name__)

FILTER_GROUP = 'blockattach.scheduler.filters'
WEIGHER_GROUP = 'blockattach.scheduler.weighers'
LOCALITY = 'instance_locality'
"""The filter that needs to know where servers run."""
BEST = 100
"""The most that a ``goodness_function`` gives."""

Function = TypeVar('Function')

_CHANCE_BYTES = 8


def allocated(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """GiB given away, claims included; with a negative multiplier, the pool with least first."""
    return float(pool.allocated_gb)


def chance(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """From 0 to 1: drawn from the names of the volume and the pool, so that the same question has
    the same answer, while ids of volumes are themselves drawn by chance.
    """
    drawn = hashlib.blake2b(f'{request.volume_id} {request.generation} {pool.name}'.encode(),
                            digest_size=_CHANCE_BYTES).digest()
    return int.from_bytes(drawn, 'big') / 2 ** (8 * _CHANCE_BYTES)


def free_space(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """GiB left to give, of a thin pool the over-subscribed ones.

    A pool that calls its room infinite or unknown cannot be measured and ranks last, as in Cinder:
    it is taken where no other will do.
    """
    return placement.left_gb(pool)


def volume_number(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Volumes, those included that are being made there; with a negative multiplier, the pool
    with fewest first.
    """
    return float(request.facts.volumes.get(pool.name, 0))


def filter_function(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool whose ``filter_function`` is against the volume, or cannot be evaluated."""
    allowed = _evaluated(request, pool, 'filter_function', True)
    if allowed is None:
        return 'the filter_function of the pool cannot be evaluated'
    return None if allowed else 'the filter_function of the pool rejects the volume'


def goodness(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """How well a pool says that it suits, from 0 to 100; 0 where it says nothing usable."""
    found = _evaluated(request, pool, 'goodness_function', 0)
    if found is None:
        return 0.0
    if isinstance(found, bool):
        return float(BEST * found)
    if isinstance(found, str) or not 0 <= found <= BEST:
        _warn(request, pool, 'goodness_function', f'{found!r} is not between 0 and {BEST}')
        return 0.0
    return float(found)


def _evaluated(request: pools.VolumeRequest, pool: pools.Pool, function: str,
               default: expressions.Value) -> expressions.Value | None:
    """What an expression comes to that a pool reports; the default without one; None: it is
    wrong.
    """
    expression = pool.capabilities.get(function)
    if expression is None:
        return default
    try:
        return expressions.evaluate(str(expression), {
            'stats': pools.stats(pool), 'capabilities': pool.capabilities,
            'volume': {**request.facts.volume, 'id': request.volume_id, 'size': request.size_gb,
                       'multiattach': request.multiattach,
                       'availability_zone': request.availability_zone},
            'extra': request.extra_specs, 'qos': request.facts.qos})
    except expressions.ExpressionError as error:
        _warn(request, pool, function, error)
        return None


def _warn(request: pools.VolumeRequest, pool: pools.Pool, function: str,
          reason: object) -> None:
    LOG.warning('Failed to evaluate expression of backend%s', log.fields(
        function=function, pool=pool.name, volume_id=request.volume_id, reason=reason))


FILTERS: Mapping[str, placement.Filter] = {
    **placement.FILTERS,
    **hint_filters.FILTERS,
    'driver': filter_function,
}
"""Those of `blockattach.storage.domain.placement` are asked by default, and by the API too; the
others need facts on the volume, which only the scheduler reads
(`blockattach.storage.scheduler.pipeline`).
"""

WEIGHERS: Mapping[str, pipeline.Weigher] = {
    'allocated': allocated,
    'chance': chance,
    'free_space': free_space,
    'goodness': goodness,
    'volume_number': volume_number,
}


def load_filters(names: Iterable[str]) -> dict[str, placement.Filter]:
    """The filters of these names, in their order, after those that are always asked.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return {name: _find(FILTER_GROUP, FILTERS, name) for name in (*placement.ALWAYS, *names)}


def load_weighers(multipliers: Iterable[tuple[str, float]]) -> list[pipeline.Weighing]:
    """The weighers of these names with their multipliers.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return [pipeline.Weighing(name, _find(WEIGHER_GROUP, WEIGHERS, name), multiplier)
            for name, multiplier in multipliers]


def _find(group: str, own: Mapping[str, Function], name: str) -> Function | Any:
    """The function of that name.

    :param group: entry points where it is looked for if it is none of our own
    :raises ConfigurationError: there is none, or it cannot be loaded
    """
    if name in own:
        return own[name]
    try:
        return driver.DriverManager(group, name, warn_on_missing_entrypoint=False).driver
    except exception.NoMatches as error:
        known = ', '.join(sorted(own))
        raise errors.ConfigurationError(
            reason=f'cannot find {name} in entry point group {group}; built-in names: '
                   f'{known}') from error
    except Exception as error:
        # A module from elsewhere: what goes wrong in it may be anything.
        raise errors.ConfigurationError(
            reason=f'cannot load {name} from entry point group {group}: {error}') from error
