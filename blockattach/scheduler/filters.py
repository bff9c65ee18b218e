"""What a pool must pass: names to functions, in the order in which they are asked.

Our own stand in `blockattach.domain.placement`; others are found as entry points of the group
`GROUP`.
"""
from collections.abc import Iterable

from blockattach.domain import placement
from blockattach.scheduler import plugins

GROUP = 'blockattach.scheduler.filters'


def load(names: Iterable[str]) -> dict[str, placement.Filter]:
    """The filters of these names, in their order.

    :raises ConfigurationError: one is neither ours nor installed
    """
    return {name: plugins.find(GROUP, placement.FILTERS, name) for name in names}
