"""What ranks the pools that passed: names to functions.

A weigher is a function ``(request, pool)`` that gives a number; the multiplier is configured.
Others are found as entry points of the group `GROUP`.
"""
from collections.abc import Iterable

from blockattach.scheduler import pipeline
from blockattach.scheduler import plugins
from blockattach.scheduler.weighers import allocated
from blockattach.scheduler.weighers import free_space

GROUP = 'blockattach.scheduler.weighers'

WEIGHERS: dict[str, pipeline.Weigher] = {
    'allocated': allocated.measure,
    'free_space': free_space.measure,
}


def load(multipliers: Iterable[tuple[str, float]]) -> list[pipeline.Weighing]:
    """The weighers of these names with their multipliers.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return [pipeline.Weighing(plugins.find(GROUP, WEIGHERS, name), multiplier)
            for name, multiplier in multipliers]
