"""Filters and weighers by name: our own, then what others have installed as entry points.

A filter says why a pool will not do, or nothing; they are asked in their order. A weigher is a
function ``(request, pool)`` that gives a number; its multiplier is configured.
"""
import hashlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from stevedore import driver
from stevedore import exception

from blockattach import errors
from blockattach.domain import hint_filters
from blockattach.domain import placement
from blockattach.domain import pools
from blockattach.scheduler import backend_functions
from blockattach.scheduler import pipeline

FILTER_GROUP = 'blockattach.scheduler.filters'
WEIGHER_GROUP = 'blockattach.scheduler.weighers'

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


FILTERS: Mapping[str, placement.Filter] = {
    **placement.FILTERS,
    **hint_filters.FILTERS,
    'driver': backend_functions.refuse,
}
"""Those of `blockattach.domain.placement` are asked by default, and by the API too; the others
need facts on the volume, which only the scheduler reads (`blockattach.scheduler.facts`)."""

WEIGHERS: Mapping[str, pipeline.Weigher] = {
    'allocated': allocated,
    'chance': chance,
    'free_space': free_space,
    'goodness': backend_functions.goodness,
    'volume_number': volume_number,
}


def load_filters(names: Iterable[str]) -> dict[str, placement.Filter]:
    """The filters of these names, in their order.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return {name: _find(FILTER_GROUP, FILTERS, name) for name in names}


def load_weighers(multipliers: Iterable[tuple[str, float]]) -> list[pipeline.Weighing]:
    """The weighers of these names with their multipliers.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return [pipeline.Weighing(_find(WEIGHER_GROUP, WEIGHERS, name), multiplier)
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
            reason=f'cannot find {name} among the entry points {group}; built in are: '
                   f'{known}') from error
    except Exception as error:
        # A module from elsewhere: what goes wrong in it may be anything.
        raise errors.ConfigurationError(
            reason=f'cannot load {name} of the entry points {group}: {error}') from error
