"""[metrics] and [tracing]: export of metrics and traces."""
import dataclasses
import socket
from collections.abc import Sequence

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

METRICS_GROUP = 'metrics'
TRACING_GROUP = 'tracing'

METRICS_OPTS = (
    cfg.PortOpt('port', default=0,
                help='First port on which Prometheus metrics are served, without authentication. '
                     '0 disables metrics.'),
    cfg.IntOpt('port_range', default=16, min=1,
               help='Number of ports. On each host, blockattach-api (or blockattach-all) uses the '
                    'first port, blockattach-control the second, blockattach-scheduler the third, '
                    'and blockattach-volume the fourth. If that port is in use, for example by '
                    'another process of the same kind, the first free port from the fifth on is '
                    'used. Each process logs its port.'),
    cfg.HostAddressOpt('host', default='127.0.0.1',
                       help='Address on which metrics are served. Use an address that only the '
                            'monitoring system can reach.'),
)

_LAST_PORT = 65535
_PLACES = {'blockattach-control': 1, 'blockattach-scheduler': 2, 'blockattach-volume': 3}
"""Index of the preferred port by process; 0 for any other process.

The port of a process is thus the same after a restart.
"""
_KINDS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Settings of the ``[metrics]`` group.

    ``ports`` are the ports to try, in this order. The sequence is empty if metrics are disabled.
    """

    host: str
    ports: Sequence[int]


@dataclasses.dataclass(frozen=True, slots=True)
class TracingSettings:
    """Settings of the ``[tracing]`` group.

    ``endpoint`` is a URL, or None if tracing is disabled. ``instance`` distinguishes processes of
    the same program.
    """

    endpoint: str | None = groups.option(cfg.URIOpt, schemes=['http', 'https'], help=(
        'URL of the OpenTelemetry collector (OTLP over HTTP) to which traces are sent, with its '
        'path, such as http://127.0.0.1:4318/v1/traces. If unset, tracing is disabled. Requires '
        'the optional extra blockattach[otel].'))
    sample_ratio: float = groups.option(cfg.FloatOpt, default=1.0, min=0.0, max=1.0, help=(
        'Ratio of the traces that are sent. A trace that was started by another system keeps the '
        'sampling decision of that system.'))
    trust_clients: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Continue the trace of an incoming request (header traceparent) and use its sampling '
        'decision. Enable this option only if all clients are trusted.'))
    instance: str = ''


TRACING_OPTS = groups.options(TracingSettings)


def metrics_settings(conf: cfg.ConfigOpts, process: str) -> MetricsSettings:
    """Return the settings of the ``[metrics]`` group.

    :param process: name of the process, which determines the order of the ports
    """
    group = conf[METRICS_GROUP]
    end = min(group.port + group.port_range, _LAST_PORT + 1) if group.port else 0
    ports = list(range(group.port, end))
    own = _PLACES.get(process, 0)
    # Ports that other programs prefer come last, because these programs may not have started yet.
    return MetricsSettings(group.host, [
        *ports[own:own + 1], *ports[_KINDS:], *ports[:own], *ports[own + 1:_KINDS]])


def tracing_settings(conf: cfg.ConfigOpts) -> TracingSettings:
    """Return the settings of the ``[tracing]`` group."""
    return groups.read(conf, TRACING_GROUP, TracingSettings, instance=socket.gethostname())
