"""[service]: names of a long-running process, and the interval of its heartbeats."""
import dataclasses
import socket

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'service'


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of the ``[service]`` group. Times are in seconds."""

    report_interval: int = groups.option(cfg.IntOpt, default=10, min=1, mutable=True, help=(
        'Interval between heartbeats of a service, in seconds.'))
    service_down_time: int = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'Time in seconds without a heartbeat after which a service is considered down. Use a '
        'multiple of report_interval.'))
    host: str = groups.option(cfg.StrOpt, sample_default='<host name>', regex='^[^@#]+$', help=(
        'Name of this host in the list of services and in the names of its pools. The name is '
        'stored with volumes and must be kept if the machine is replaced. Two blockattach-volume '
        'processes with the same backend must not use the same name. Defaults to the host name.'))
    cluster: str | None = groups.option(cfg.StrOpt, regex='^[^@#]+$', help=(
        'Name of the cluster whose backends this blockattach-volume serves together with other '
        'processes, which use the same cluster and different host names. The name replaces host '
        'in the names of pools and is stored with volumes. If unset, this process serves its '
        'backends alone.'))

    accept_unsupported: tuple[str, ...] = groups.option(cfg.ListOpt, default=[], help=(
        'Security-related options of Cinder to ignore, each as name or group.name. The service '
        'does not support such options, and refuses to start if a configuration file sets one '
        'that is not listed here.'))

    def address(self, backend: str) -> str:
        """Return the address of a backend: ``host@backend`` or ``cluster@backend``."""
        return f'{self.cluster or self.host}@{backend}'


OPTS = groups.options(ServiceSettings)


def settings(conf: cfg.ConfigOpts) -> ServiceSettings:
    """Return the settings of the ``[service]`` group."""
    return groups.read(conf, GROUP, ServiceSettings,
                       host=conf[GROUP].host or socket.gethostname())
