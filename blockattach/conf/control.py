"""[control]: deadlines of what the API process asks for."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'control'


@dataclasses.dataclass(frozen=True, slots=True)
class ControlSettings:
    """Seconds of database time, and what is taken where a request says nothing."""

    backend_seconds: int = groups.option(cfg.IntOpt, default=90, min=1, help=(
        'How long a backend may take to connect or disconnect one attachment before '
        'the act counts as interrupted and is repeated or undone. More than the '
        'time-out of a call over the bus.'))
    schedule_seconds: int = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'How long the scheduler may take to place a new volume before it is asked '
        'again, and the volume service to begin with a new snapshot.'))
    delete_seconds: int = groups.option(cfg.IntOpt, default=600, min=1, help=(
        'How long a backend may take to remove a volume or a snapshot before it is asked '
        'again.'))
    idempotency_key_seconds: int = groups.option(cfg.IntOpt, default=86400, min=1, help=(
        'How long the Idempotency-Key of a request is remembered.'))
    default_volume_type: str = groups.option(cfg.StrOpt, default='__DEFAULT__', help=(
        'Type of a volume that is created without one, in a project that has no default type.'))
    availability_zone: str = groups.option(
        cfg.StrOpt, 'storage_availability_zone', default='nova', help=(
            'Zone of services and of volumes that name none.'))


OPTS = groups.options(ControlSettings)


def settings(conf: cfg.ConfigOpts) -> ControlSettings:
    """Read the group."""
    return groups.read(conf, GROUP, ControlSettings)
