"""Options of [volume], the backends of the volume service and its intervals."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'volume'


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeSettings:
    """Settings of the volume service. Times are in seconds."""

    enabled_backends: tuple[str, ...] = groups.option(cfg.ListOpt, default=[], help=(
        'Names of the backends of this host. Each backend has a configuration group with its '
        'name.'))
    stats_seconds: int = groups.option(
        cfg.IntOpt, 'backend_stats_polling_interval', default=60, min=1, mutable=True, help=(
            'Interval between pool reports, in seconds. A report is also sent after each change.'))
    reconcile_seconds: int = groups.option(
        cfg.IntOpt, 'reconcile_interval', default=5, min=1, mutable=True, help=(
            'Interval in seconds between comparisons of the access that targets grant with the '
            'attachments in the database.'))
    create_seconds: int = groups.option(cfg.IntOpt, default=600, min=1, help=(
        'Time in seconds after which the creation, extension, or deletion of a volume or a '
        'snapshot is resumed, if its process sends no heartbeat or the result of an attempt is '
        'unknown. Each heartbeat of a working process extends the time.'))
    worker_threads: int = groups.option(cfg.IntOpt, default=16, min=1, help=(
        'Number of volumes that one backend creates or deletes at the same time.'))
    copy_threads: int = groups.option(cfg.IntOpt, default=4, min=1, help=(
        'Number of volumes that one backend creates from other volumes at the same time, in '
        'addition to worker_threads. Such creations may copy data for a long time. Further '
        'creations wait.'))


OPTS = groups.options(VolumeSettings)


def settings(conf: cfg.ConfigOpts) -> VolumeSettings:
    """Return the settings of the group [volume]."""
    return groups.read(conf, GROUP, VolumeSettings)
