"""[service]: what every long-running process says of itself, and how often."""
import dataclasses
import socket

from oslo_config import cfg

SERVICE_OPTS = (
    cfg.IntOpt('report_interval', default=10, min=1, mutable=True,
               help='Seconds between two heartbeats of a service.'),
    cfg.IntOpt('service_down_time', default=60, min=1,
               help='A service that sent no heartbeat for so many seconds counts as down; '
                    'several times report_interval.'),
    cfg.StrOpt('host', sample_default='<host name>', regex='^[^@#]+$',
               help='Name of this host in the list of services and in the names of its pools. '
                    'Volumes remember it: keep it when the machine changes. No two '
                    'blockattach-volume with the same backend may have the same one. Default: '
                    'the host name.'),
    cfg.StrOpt('cluster', regex='^[^@#]+$',
               help='Name of the cluster whose backends this blockattach-volume serves together '
                    'with others, which name the same one and each have a host of their own. It '
                    'takes the place of host in the names of pools, so volumes remember it. '
                    'Empty: this one serves its backends alone.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Seconds, and the name of this host."""

    report_interval: int = 10
    service_down_time: int = 60
    host: str = 'localhost'
    cluster: str | None = None

    def address(self, backend: str) -> str:
        """Who keeps the volumes of a backend: ``host@backend``, or ``cluster@backend``."""
        return f'{self.cluster or self.host}@{backend}'


def register(conf: cfg.ConfigOpts) -> None:
    """Make the group known."""
    conf.register_opts(SERVICE_OPTS, group='service')


def settings(conf: cfg.ConfigOpts) -> ServiceSettings:
    """Read the group."""
    group = conf.service
    return ServiceSettings(
        report_interval=group.report_interval, service_down_time=group.service_down_time,
        host=group.host or socket.gethostname(), cluster=group.cluster or None)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [('service', list(SERVICE_OPTS))]
