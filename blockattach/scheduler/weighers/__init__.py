"""What ranks the pools that passed: names to functions.

A weigher is a function ``(request, pool)`` that gives a number; the multiplier is configured.
Others are found as entry points of the group `GROUP`.
"""
from collections.abc import Iterable

from blockattach.scheduler import pipeline
from blockattach.scheduler import plugins
from blockattach.scheduler.weighers import allocated
from blockattach.scheduler.weighers import chance
from blockattach.scheduler.weighers import free_space
from blockattach.scheduler.weighers import goodness
from blockattach.scheduler.weighers import volume_number

GROUP = 'blockattach.scheduler.weighers'

WEIGHERS: dict[str, pipeline.Weigher] = {
    'allocated': allocated.measure,
    'chance': chance.measure,
    'free_space': free_space.measure,
    'goodness': goodness.measure,
    'volume_number': volume_number.measure,
}


def load(multipliers: Iterable[tuple[str, float]]) -> list[pipeline.Weighing]:
    """The weighers of these names with their multipliers.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return [pipeline.Weighing(plugins.find(GROUP, WEIGHERS, name), multiplier)
            for name, multiplier in multipliers]
