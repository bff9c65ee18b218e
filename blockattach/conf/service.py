"""[service]: what every long-running process says of itself, and how often."""
import dataclasses
import socket

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'service'


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Seconds, and the name of this host."""

    report_interval: int = groups.option(cfg.IntOpt, default=10, min=1, mutable=True, help=(
        'Seconds between two heartbeats of a service.'))
    service_down_time: int = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'A service that sent no heartbeat for so many seconds counts as down; '
        'several times report_interval.'))
    host: str = groups.option(cfg.StrOpt, sample_default='<host name>', regex='^[^@#]+$', help=(
        'Name of this host in the list of services and in the names of its pools. '
        'Volumes remember it: keep it when the machine changes. No two '
        'blockattach-volume with the same backend may have the same one. Default: '
        'the host name.'))
    cluster: str | None = groups.option(cfg.StrOpt, regex='^[^@#]+$', help=(
        'Name of the cluster whose backends this blockattach-volume serves together '
        'with others, which name the same one and each have a host of their own. It '
        'takes the place of host in the names of pools, so volumes remember it. '
        'Empty: this one serves its backends alone.'))

    accept_unsupported: tuple[str, ...] = groups.option(cfg.ListOpt, default=[], help=(
        'Security-related options of Cinder to ignore, each as name or group.name. The '
        'service does not read such options, and refuses to start if its files set one that '
        'is not listed here.'))

    def address(self, backend: str) -> str:
        """What serves the volumes of a backend: ``host@backend``, or ``cluster@backend``."""
        return f'{self.cluster or self.host}@{backend}'


OPTS = groups.options(ServiceSettings)


def settings(conf: cfg.ConfigOpts) -> ServiceSettings:
    """Read the group."""
    return groups.read(conf, GROUP, ServiceSettings,
                       host=conf[GROUP].host or socket.gethostname())
