"""What a pool must pass: names to functions, in the order in which they are asked.

Our own stand in `OWN`; others are found as entry points of the group `GROUP`.
"""
from collections.abc import Iterable
from collections.abc import Mapping

from blockattach.domain import hint_filters
from blockattach.domain import placement
from blockattach.scheduler import backend_functions
from blockattach.scheduler import plugins

GROUP = 'blockattach.scheduler.filters'

OWN: Mapping[str, placement.Filter] = {
    **placement.FILTERS,
    **hint_filters.FILTERS,
    'driver': backend_functions.refuse,
}
"""Those of `blockattach.domain.placement` are asked by default, and by the API too; the others
need facts on the volume, which only the scheduler reads (`blockattach.scheduler.facts`)."""


def load(names: Iterable[str]) -> dict[str, placement.Filter]:
    """The filters of these names, in their order.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return {name: plugins.find(GROUP, OWN, name) for name in names}
