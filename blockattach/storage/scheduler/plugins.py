"""Filters and weighers of pools, built-in or installed as entry points.

Filters and weighers are functions ``(request, pool)``. A filter returns the reason why a pool is
not suitable, or None. Filters run in their configured order. A weigher returns a number, which is
multiplied by a configured multiplier.

A backend can have a ``filter_function`` and a ``goodness_function``. These are expressions that
its operator configures or its driver reports (`blockattach.storage.domain.expressions`). An error
in an expression is logged for the operator. The user only reads that the pool is not suitable.
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
"""Name of the filter that needs the host of the server named in a scheduler hint."""
BEST = 100
"""Maximum result of a ``goodness_function``."""

Function = TypeVar('Function')

_CHANCE_BYTES = 8


def allocated(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Return the allocated capacity of a pool in GiB, including claims of the scheduler.

    A negative multiplier prefers the pool with the least allocated capacity.
    """
    return float(pool.allocated_gb)


def chance(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Return a pseudo-random number from 0 to 1, which is the same for a repeated request.

    The number is a hash of the volume id, the generation of the volume and the name of the pool.
    """
    drawn = hashlib.blake2b(f'{request.volume_id} {request.generation} {pool.name}'.encode(),
                            digest_size=_CHANCE_BYTES).digest()
    return int.from_bytes(drawn, 'big') / 2 ** (8 * _CHANCE_BYTES)


def free_space(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Return the GiB that can still be allocated on a pool, including over-subscription.

    The result is ``inf`` for a pool that reports infinite or unknown capacity. Such a pool gets
    the worst score of this weigher, as in Cinder.
    """
    return placement.left_gb(pool)


def volume_number(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Return the number of volumes on a pool, including volumes that are being created.

    A negative multiplier prefers the pool with the fewest volumes.
    """
    return float(request.facts.volumes.get(pool.name, 0))


def filter_function(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool if its ``filter_function`` rejects the volume or cannot be evaluated."""
    allowed = _evaluated(request, pool, 'filter_function', True)
    if allowed is None:
        return 'the filter_function of the pool cannot be evaluated'
    return None if allowed else 'the filter_function of the pool rejects the volume'


def goodness(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """Return the result of the ``goodness_function`` of a pool, from 0 to 100.

    The result is 0 if the pool has no such function, if the function cannot be evaluated, or if
    its value is not from 0 to 100. An expression that compares values gives 100 or 0.
    """
    value = _evaluated(request, pool, 'goodness_function', 0)
    if value is None:
        return 0.0
    if isinstance(value, bool):
        # The expression is a comparison, such as "volume.size < 5".
        return float(BEST * value)
    if isinstance(value, str) or not 0 <= value <= BEST:
        _warn(request, pool, 'goodness_function', f'{value!r} is not between 0 and {BEST}')
        return 0.0
    return float(value)


def _evaluated(request: pools.VolumeRequest, pool: pools.Pool, function: str,
               default: expressions.Value) -> expressions.Value | None:
    """Evaluate an expression that a pool reports.

    :param function: ``filter_function`` or ``goodness_function``
    :param default: result if the pool reports no such expression
    :returns: value of the expression; None if it cannot be evaluated
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
"""Built-in filters by name.

The API also uses the filters of `blockattach.storage.domain.placement`. The other filters need
facts about the volume, which only the scheduler reads (`blockattach.storage.scheduler.pipeline`).
"""

WEIGHERS: Mapping[str, pipeline.Weigher] = {
    'allocated': allocated,
    'chance': chance,
    'free_space': free_space,
    'goodness': goodness,
    'volume_number': volume_number,
}


def load_filters(names: Iterable[str]) -> dict[str, placement.Filter]:
    """Return filters by name, in the order in which they run.

    The filters of `placement.ALWAYS` come first.

    :param names: names of further filters
    :raises ConfigurationError: a filter is neither built-in nor installed, or cannot be loaded
    """
    return {name: _find(FILTER_GROUP, FILTERS, name) for name in (*placement.ALWAYS, *names)}


def load_weighers(multipliers: Iterable[tuple[str, float]]) -> list[pipeline.Weighing]:
    """Return weighers with their multipliers.

    :param multipliers: name and multiplier of each weigher
    :raises ConfigurationError: a weigher is neither built-in nor installed, or cannot be loaded
    """
    return [pipeline.Weighing(name, _find(WEIGHER_GROUP, WEIGHERS, name), multiplier)
            for name, multiplier in multipliers]


def _find(group: str, own: Mapping[str, Function], name: str) -> Function | Any:
    """Return a filter or a weigher by its name.

    :param group: entry point group that is searched if the name is not built-in
    :param own: built-in functions by name
    :raises ConfigurationError: the function is neither built-in nor installed, or cannot be loaded
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
        # The import of a plugin may raise any exception.
        raise errors.ConfigurationError(
            reason=f'cannot load {name} from entry point group {group}: {error}') from error
