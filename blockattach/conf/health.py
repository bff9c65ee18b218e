"""[health]: how a process finds out whether it can work, and where it shows that."""
import dataclasses
import ipaddress

from oslo_config import cfg

from blockattach import errors
from blockattach.conf import locations
from blockattach.conf import settings as groups

GROUP = 'health'
_PROCESS = '{process}'

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(texts: list[str]) -> tuple[Network, ...]:
    try:
        return tuple(map(ipaddress.ip_network, texts))
    except ValueError as exc:
        raise errors.ConfigurationError(reason=f'cannot read a network: {exc}') from exc


@dataclasses.dataclass(frozen=True, slots=True)
class HealthSettings:
    """``interval`` in seconds; ``file`` is this process's own."""

    interval: int = groups.option(cfg.IntOpt, default=5, min=1, mutable=True, help=(
        'Seconds between two looks at what the process depends on: database, bus, '
        'backends. What has not answered for three of them counts as failed.'))
    file: str | None = groups.option(cfg.StrOpt, help=(
        'File that says how the process is, for "blockattach-status health": written '
        'anew after each interval. {process} stands for the name of the process, for '
        'instance /run/blockattach/{process}.health: two processes need two files. '
        'Empty: none is written.'))
    detailed_source_ranges: tuple[Network, ...] = groups.option(
        cfg.ListOpt, default=['127.0.0.0/8', '::1/128'], read=_networks, help=(
            'Networks whose hosts get the details of /healthcheck, if [healthcheck] '
            'detailed is set: stacks of threads, versions. Never hosts behind a '
            'proxy.'))


OPTS = groups.options(HealthSettings)


def settings(conf: cfg.ConfigOpts, process: str) -> HealthSettings:
    """Read the group.

    :param process: whose settings
    :raises ConfigurationError: what should be a network is none
    """
    with locations.named(conf, GROUP, 'detailed_source_ranges'):
        return groups.read(conf, GROUP, HealthSettings,
                           file=(conf[GROUP].file or '').replace(_PROCESS, process) or None)
