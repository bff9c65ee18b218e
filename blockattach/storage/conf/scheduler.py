"""Options of [scheduler], for the selection of pools and for repeated placements of volumes."""
import dataclasses

from oslo_config import cfg
from oslo_config import types

from blockattach.platform.conf import settings as groups

GROUP = 'scheduler'


def _pairs(multipliers: dict[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(multipliers.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings of the scheduler. Times are in seconds.

    :ivar filters: names of the filters in the order in which they are applied
    :ivar weighers: names of the weighers with their multipliers
    """

    filters: tuple[str, ...] = groups.option(
        cfg.ListOpt, 'scheduler_default_filters',
        default=['alive', 'tried', 'availability', 'multiattach', 'capabilities', 'capacity'],
        help=(
            'Filters that a pool must pass, in this order. The first filter that rejects a pool '
            'gives the reason. Further filters are different_backend, same_backend, '
            'instance_locality, and json, which evaluate scheduler hints, and driver, which '
            'evaluates the filter_function of each backend. Other filters can be installed as '
            'entry points blockattach.scheduler.filters.'))
    weighers: tuple[tuple[str, float], ...] = groups.option(
        cfg.Opt, 'scheduler_default_weighers', default={'free_space': 1.0}, read=_pairs,
        type=types.Dict(types.Float()), help=(
            'Weighers that rank the pools that passed the filters, with their multipliers. A '
            'negative multiplier reverses the order. free_space:1.0 prefers the pool with the '
            'most free space, allocated:-1.0 the pool with the least allocated capacity, '
            'volume_number:-1.0 the pool with the fewest volumes, goodness:1.0 the pool with the '
            'highest goodness_function, and chance:1.0 a random pool. Other weighers can be '
            'installed as entry points blockattach.scheduler.weighers.'))
    max_attempts: int = groups.option(
        cfg.IntOpt, 'scheduler_max_attempts', default=3, min=1, help=(
            'Maximum number of pools that are tried for one volume, over its lifetime.'))
    placing_seconds: int = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'Time in seconds after which one step of the placement of a volume is considered '
        'interrupted, and the volume is placed again. Must be greater than [rpc] '
        'short_call_timeout.'))
    waiting_interval: int = groups.option(cfg.IntOpt, default=10, min=1, mutable=True, help=(
        'Interval between searches for volumes whose placement was interrupted, in seconds.'))


OPTS = groups.options(SchedulerSettings)


def settings(conf: cfg.ConfigOpts) -> SchedulerSettings:
    """Return the settings of the group [scheduler]."""
    return groups.read(conf, GROUP, SchedulerSettings)
