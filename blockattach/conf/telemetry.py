"""[metrics] and [tracing]: what a process reports of itself, and where."""
import dataclasses
import socket
from collections.abc import Sequence

from oslo_config import cfg

from blockattach.conf import settings as groups

METRICS_GROUP = 'metrics'
TRACING_GROUP = 'tracing'

METRICS_OPTS = (
    cfg.PortOpt('port', default=0,
                help='First port to serve metrics for Prometheus on, without authentication. 0: '
                     'off, and nothing is measured.'),
    cfg.IntOpt('port_range', default=16, min=1,
               help='How many ports there are. On each host blockattach-api (or -all) takes '
                    'the first, control the second, scheduler the third and volume the fourth; '
                    'where that is taken, as by another one of the kind, the first free one from '
                    'the fifth on. Each logs which.'),
    cfg.HostAddressOpt('host', default='127.0.0.1',
                       help='Address to serve metrics on: one that only the monitoring reaches.'),
)

_LAST_PORT = 65535
_PLACES = {'blockattach-control': 1, 'blockattach-scheduler': 2, 'blockattach-volume': 3}
"""Of the port of a process among all, so that it has the same one after each restart."""
_KINDS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class MetricsSettings:
    """``ports``: those that may be served on, the first free one counts; empty: off."""

    host: str
    ports: Sequence[int]


@dataclasses.dataclass(frozen=True, slots=True)
class TracingSettings:
    """``endpoint``: a URL; None: off. ``instance`` distinguishes processes of one program."""

    endpoint: str | None = groups.option(cfg.URIOpt, schemes=['http', 'https'], help=(
        'Collector of OpenTelemetry (OTLP over HTTP) that traces are sent to, with '
        'its path: http://127.0.0.1:4318/v1/traces. Empty: none are made. Needs the '
        'optional extra blockattach[otel].'))
    sample_ratio: float = groups.option(cfg.FloatOpt, default=1.0, min=0.0, max=1.0, help=(
        'Which part of all traces is sent. A trace that was begun elsewhere keeps '
        'to what was chosen there.'))
    trust_clients: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Go on with the trace that a request names (header traceparent), and with '
        'its choice whether it is sent. Only where all clients are your own.'))
    instance: str = ''


TRACING_OPTS = groups.options(TracingSettings)


def metrics_settings(conf: cfg.ConfigOpts, process: str) -> MetricsSettings:
    """Read [metrics].

    :param process: whose settings
    """
    group = conf[METRICS_GROUP]
    end = min(group.port + group.port_range, _LAST_PORT + 1) if group.port else 0
    ports = list(range(group.port, end))
    own = _PLACES.get(process, 0)
    # Those of other kinds last: they may not have started yet.
    return MetricsSettings(group.host, [
        *ports[own:own + 1], *ports[_KINDS:], *ports[:own], *ports[own + 1:_KINDS]])


def tracing_settings(conf: cfg.ConfigOpts) -> TracingSettings:
    """Read [tracing]."""
    return groups.read(conf, TRACING_GROUP, TracingSettings, instance=socket.gethostname())
