"""``/healthcheck``: whether this process can serve, for load balancers and probes.

In front of everything else: without a token, a policy or a line in the log. It is the healthcheck
of oslo.middleware. Its checks are what the process's monitor found last: entry points
``oslo.middleware.healthcheck``, chosen by ``[healthcheck] backends``. ``/healthcheck/live`` says
only that the process answers.
"""
import ipaddress
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_middleware import healthcheck
from oslo_middleware.healthcheck import opts
from oslo_middleware.healthcheck import pluginbase

from blockattach.platform import errors
from blockattach.platform.conf import health as health_conf
from blockattach.platform.health import monitor

GROUP = 'healthcheck'
PATH = '/healthcheck'
LIVE_PATH = '/healthcheck/live'
PATHS = (PATH, LIVE_PATH)
CHECKS = {'blockattach_database': 'database', 'blockattach_bus': 'bus',
          'blockattach_backends': 'backends'}
"""The names of our checks in ``[healthcheck] backends``, and in the monitor."""

_MONITOR = 'blockattach_monitor'
# A request through a proxy has the proxy's address.
_PROXIED = ('HTTP_FORWARDED', 'HTTP_X_FORWARDED_FOR', 'HTTP_X_FORWARDED_HOST',
            'HTTP_X_FORWARDED_PROTO')

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def register(conf: cfg.ConfigOpts) -> None:
    """Make oslo.middleware's group known; ours are the default of its checks."""
    conf.register_opts(opts.HEALTHCHECK_OPTS, group=GROUP)
    conf.set_default('backends', list(CHECKS), group=GROUP)


class _Healthcheck(healthcheck.Healthcheck):
    """Gives its checks the monitor, and some clients the details."""

    def __init__(self, refused: Wsgi, conf: cfg.ConfigOpts, watching: monitor.Monitor,
                 detailed: bool) -> None:
        super().__init__(refused, conf)
        self._show_details = self._show_details and detailed
        # The checks have been made, and were given this very mapping.
        self.conf[_MONITOR] = watching
        missing = set(self._conf_get('backends')).difference(self._backends.names())
        if missing:
            raise errors.ConfigurationError(
                reason=f'cannot use health checks {", ".join(sorted(missing))}: no such plugin is '
                       'installed')

    def _make_text_response(self, results: list[pluginbase.HealthcheckResult],
                            healthy: bool) -> tuple[str, str]:
        """The body of a healthy answer, which load balancers expect."""
        if healthy:
            return 'OK', 'text/plain'
        text, kind = super()._make_text_response(
            [result for result in results if not result.available], healthy)
        return text, kind

    @staticmethod
    def _get_greenstacks() -> list[Any]:
        """None: threads are native. oslo.middleware searches every object of the process for them,
        which takes long, and raises ReferenceError at a dead weak proxy.
        """
        return []


def with_health(application: Wsgi, conf: cfg.ConfigOpts, watching: monitor.Monitor,
                details_to: Sequence[health_conf.Network]) -> Wsgi:
    """What answers the two paths, and hands everything else to the application.

    :param conf: with the options of `register`
    :param details_to: networks whose hosts get the details, if ``[healthcheck]`` allows any
    :raises ConfigurationError: a check that it names is not installed, or a network is none
    """
    brief, detailed = (_Healthcheck(application, conf, watching, shown) for shown in (False, True))

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get('PATH_INFO')
        if path not in PATHS or environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return application(environ, start_response)
        if path == LIVE_PATH:
            start_response('200 OK', [('Content-Type', 'text/plain; charset=UTF-8'),
                                      ('Content-Length', '2')])
            return [] if environ['REQUEST_METHOD'] == 'HEAD' else [b'OK']
        check: Wsgi = detailed if _may_see_details(environ, details_to) else brief
        return check(environ, start_response)
    return answer


def _may_see_details(environ: Mapping[str, Any],
                     details_to: Sequence[health_conf.Network]) -> bool:
    if any(name in environ for name in _PROXIED):
        return False
    try:
        address = ipaddress.ip_address(environ.get('REMOTE_ADDR', ''))
    except ValueError:
        return False
    return any(address in network for network in details_to)


class _MonitorCheck(pluginbase.HealthcheckBaseExtension):
    """What the monitor found last under one name; nothing to find is fine."""

    name: str

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        """The finding as oslo.middleware shows it."""
        wrong = self.conf[_MONITOR].findings().get(self.name)
        return pluginbase.HealthcheckResult(available=wrong is None,
                                            reason=f'{self.name}: {wrong or "OK"}')


class DatabaseCheck(_MonitorCheck):
    """Whether the database answers."""

    name = 'database'


class BusCheck(_MonitorCheck):
    """Whether the message broker takes messages."""

    name = 'bus'


class BackendsCheck(_MonitorCheck):
    """Whether a backend is up, if any is in use."""

    name = 'backends'
