"""Options of [control]: deadlines of operations that the API starts, and defaults of requests."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'control'


@dataclasses.dataclass(frozen=True, slots=True)
class ControlSettings:
    """Deadlines in seconds, by the clock of the database, and defaults of requests."""

    backend_seconds: int = groups.option(cfg.IntOpt, default=90, min=1, help=(
        'Time in seconds after which the connection or disconnection of an attachment is '
        'considered interrupted, and is repeated or undone. Must be greater than [rpc] '
        'call_timeout.'))
    schedule_seconds: int = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'Time in seconds after which the request to the scheduler to place a new volume, or to '
        'the volume service to create a new snapshot, is sent again.'))
    delete_seconds: int = groups.option(cfg.IntOpt, default=600, min=1, help=(
        'Time in seconds after which the request to a backend to delete a volume or a snapshot is '
        'sent again.'))
    idempotency_key_seconds: int = groups.option(cfg.IntOpt, default=86400, min=1, help=(
        'Time in seconds for which the Idempotency-Key of a request is kept.'))
    default_volume_type: str = groups.option(cfg.StrOpt, default='__DEFAULT__', help=(
        'Volume type of a volume that is created without a type in a project that has no default '
        'type.'))
    availability_zone: str = groups.option(
        cfg.StrOpt, 'storage_availability_zone', default='nova', help=(
            'Availability zone of services, and of volumes that are created without a zone.'))


OPTS = groups.options(ControlSettings)


def settings(conf: cfg.ConfigOpts) -> ControlSettings:
    """Return the settings of the group [control]."""
    return groups.read(conf, GROUP, ControlSettings)
