"""[scheduler]: how a pool is chosen for a new volume, and how often another one is tried."""
import dataclasses

from oslo_config import cfg
from oslo_config import types

from blockattach.conf import settings as groups

GROUP = 'scheduler'


def _pairs(found: dict[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(found.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Names of filters in order, weighers with their multipliers, and seconds."""

    filters: tuple[str, ...] = groups.option(
        cfg.ListOpt, 'scheduler_default_filters',
        default=['alive', 'tried', 'availability', 'multiattach', 'capabilities', 'capacity'],
        help=(
            'What a pool must pass, in this order; the first that refuses gives the '
            'reason. There are also different_backend, same_backend, instance_locality '
            'and json, which heed the hints of clients, and driver, which asks the '
            'filter_function of each backend. Others may be installed as entry points '
            'blockattach.scheduler.filters.'))
    weighers: tuple[tuple[str, float], ...] = groups.option(
        cfg.Opt, 'scheduler_default_weighers', default={'free_space': 1.0}, read=_pairs,
        type=types.Dict(types.Float()), help=(
            'What ranks the pools that passed, each with its multiplier; a negative one '
            'turns the order round. free_space:1.0 takes the most room first, '
            'allocated:-1.0 the pool of which least was given away, volume_number:-1.0 the '
            'one with fewest volumes, goodness:1.0 the one whose goodness_function says '
            'most, chance:1.0 any. Others may be installed as entry points '
            'blockattach.scheduler.weighers.'))
    max_attempts: int = groups.option(
        cfg.IntOpt, 'scheduler_max_attempts', default=3, min=1, help=(
            'How many pools may be asked to make one volume, over its whole lifecycle.'))
    placing_seconds: int = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'How long one step of placing a volume may take before the volume counts as '
        'interrupted and is placed anew. More than [rpc] short_call_timeout.'))
    waiting_interval: int = groups.option(cfg.IntOpt, default=10, min=1, mutable=True, help=(
        'Seconds between two looks for volumes whose placing was interrupted.'))


OPTS = groups.options(SchedulerSettings)


def settings(conf: cfg.ConfigOpts) -> SchedulerSettings:
    """Read the group."""
    return groups.read(conf, GROUP, SchedulerSettings)
