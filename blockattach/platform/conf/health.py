"""[health]: interval of the health checks, and where their results are reported."""
import dataclasses
import ipaddress

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import locations
from blockattach.platform.conf import settings as groups

GROUP = 'health'
_PROCESS = '{process}'

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(texts: list[str]) -> tuple[Network, ...]:
    try:
        return tuple(map(ipaddress.ip_network, texts))
    except ValueError as exc:
        raise errors.ConfigurationError(reason=f'cannot parse a network: {exc}') from exc


@dataclasses.dataclass(frozen=True, slots=True)
class HealthSettings:
    """Settings of the ``[health]`` group.

    ``interval`` is in seconds. ``file`` is the path of the report of this process.
    """

    interval: int = groups.option(cfg.IntOpt, default=5, min=1, mutable=True, help=(
        'Interval between health checks of the database, the message bus, and the backends, in '
        'seconds. A dependency without an answer for three intervals is considered failed.'))
    file: str | None = groups.option(cfg.StrOpt, help=(
        'File to which the health of the process is written after each interval, for '
        '"blockattach-status health". {process} is replaced with the name of the process, such as '
        '/run/blockattach/{process}.health. Each process needs a file of its own. If unset, no '
        'file is written.'))
    detailed_source_ranges: tuple[Network, ...] = groups.option(
        cfg.ListOpt, default=['127.0.0.0/8', '::1/128'], read=_networks, help=(
            'Networks whose hosts receive the details of /healthcheck (thread stacks and '
            'versions) if [healthcheck] detailed is set. Requests through a proxy never receive '
            'details.'))


OPTS = groups.options(HealthSettings)


def settings(conf: cfg.ConfigOpts, process: str) -> HealthSettings:
    """Return the settings of the ``[health]`` group.

    :param process: name of the process, which replaces the placeholder in ``file``
    :raises ConfigurationError: a value is not a network
    """
    with locations.named(conf, GROUP, 'detailed_source_ranges'):
        return groups.read(conf, GROUP, HealthSettings,
                           file=(conf[GROUP].file or '').replace(_PROCESS, process) or None)
