"""[volume]: periods of the volume service, and the backends that it keeps."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'volume'


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeSettings:
    """Periods in seconds."""

    enabled_backends: tuple[str, ...] = groups.option(cfg.ListOpt, default=[], help=(
        'Backends that this host serves; each has a group of options of its own.'))
    stats_seconds: int = groups.option(
        cfg.IntOpt, 'backend_stats_polling_interval', default=60, min=1, mutable=True, help=(
            'Seconds between two reports of the pools. A report follows each change too.'))
    reconcile_seconds: int = groups.option(
        cfg.IntOpt, 'reconcile_interval', default=5, min=1, mutable=True, help=(
            'Seconds between two comparisons of what the targets grant with what the '
            'attachments say.'))
    create_seconds: int = groups.option(cfg.IntOpt, default=600, min=1, help=(
        'How long the making or the removal of a volume is left alone where its '
        'process is silent, or where the end of an attempt is unknown. A process '
        'that is at work puts that off with each heartbeat.'))
    worker_threads: int = groups.option(cfg.IntOpt, default=16, min=1, help=(
        'Volumes that one backend makes or removes at the same time.'))
    copy_threads: int = groups.option(cfg.IntOpt, default=4, min=1, help=(
        'Volumes that one backend makes of others at the same time, besides worker_threads: '
        'that may copy data for long. More wait until one has ended.'))


OPTS = groups.options(VolumeSettings)


def settings(conf: cfg.ConfigOpts) -> VolumeSettings:
    """Read the group."""
    return groups.read(conf, GROUP, VolumeSettings)
