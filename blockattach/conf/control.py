"""[control]: deadlines of what the API process asks for."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'control'

OPTS = (
    cfg.IntOpt('backend_seconds', default=90, min=1,
               help='How long a backend may take to connect or disconnect one attachment before '
                    'the act counts as interrupted and is repeated or undone. More than the '
                    'time-out of a call over the bus.'),
    cfg.IntOpt('schedule_seconds', default=60, min=1,
               help='How long the scheduler may take to place a new volume before it is asked '
                    'again.'),
    cfg.IntOpt('delete_seconds', default=600, min=1,
               help='How long a backend may take to remove a volume before it is asked again.'),
    cfg.IntOpt('idempotency_key_seconds', default=86400, min=1,
               help='How long the Idempotency-Key of a request is remembered.'),
    cfg.IntOpt('quota_attachments', default=10000, min=-1,
               help='How many attachments a project may have that was given no limit of its own; '
                    '-1: any number.'),
    cfg.StrOpt('default_volume_type', default='__DEFAULT__',
               help='Type of a volume that is created without one.'),
    cfg.StrOpt('storage_availability_zone', default='nova',
               help='Zone of services and of volumes that name none.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class ControlSettings:
    """Seconds of database time, and what is taken where a request says nothing."""

    backend_seconds: int = 90
    schedule_seconds: int = 60
    delete_seconds: int = 600
    idempotency_key_seconds: int = 86400
    quota_attachments: int = 10000
    default_volume_type: str = '__DEFAULT__'
    availability_zone: str = 'nova'


def settings(conf: cfg.ConfigOpts) -> ControlSettings:
    """Read the group."""
    return groups.read(conf, GROUP, ControlSettings,
                       availability_zone=conf[GROUP].storage_availability_zone)
