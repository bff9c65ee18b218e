"""What a backend itself says of a volume: its ``filter_function`` and its ``goodness_function``.

Expressions that its operator has configured, or that its driver reports
(`blockattach.domain.expressions`). What is wrong with one is the operator's matter: it is logged,
and the user reads only that the pool will not do.
"""
from oslo_log import log as oslo_log

from blockattach import log
from blockattach.domain import expressions
from blockattach.domain import pools

LOG = oslo_log.getLogger(__name__)

FILTER = 'filter_function'
GOODNESS = 'goodness_function'
BEST = 100


def refuse(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool whose ``filter_function`` is against the volume, or cannot be evaluated."""
    function = pool.capabilities.get(FILTER)
    if function is None:
        return None
    try:
        allowed = expressions.evaluate(str(function), _names(request, pool))
    except expressions.ExpressionError as error:
        _warn(request, pool, FILTER, error)
        return f'its {FILTER} cannot be evaluated'
    return None if allowed else f'its {FILTER} does not allow the volume'


def goodness(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """How well a pool says that it suits, from 0 to 100; 0 where it says nothing usable."""
    function = pool.capabilities.get(GOODNESS)
    if function is None:
        return 0.0
    try:
        found = expressions.evaluate(str(function), _names(request, pool))
    except expressions.ExpressionError as error:
        _warn(request, pool, GOODNESS, error)
        return 0.0
    if isinstance(found, bool):
        return float(BEST * found)
    if isinstance(found, str) or not 0 <= found <= BEST:
        _warn(request, pool, GOODNESS, f'{found!r} is not from 0 to {BEST}')
        return 0.0
    return float(found)


def _names(request: pools.VolumeRequest, pool: pools.Pool) -> expressions.Names:
    return {
        'stats': pools.stats(pool), 'capabilities': pool.capabilities,
        'volume': {**request.facts.volume, 'id': request.volume_id, 'size': request.size_gb,
                   'multiattach': request.multiattach,
                   'availability_zone': request.availability_zone},
        'extra': request.extra_specs, 'qos': request.facts.qos}


def _warn(request: pools.VolumeRequest, pool: pools.Pool, function: str,
          reason: object) -> None:
    LOG.warning('Cannot evaluate the expression of a backend: %s%s', reason,
                log.fields(function=function, pool=pool.name, volume_id=request.volume_id))
