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

from blockattach import errors
from blockattach.conf import health as health_conf
from blockattach.health import monitor

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
        self._detailed = detailed
        super().__init__(refused, conf)
        # The checks have been made, and were given this very mapping.
        self.conf[_MONITOR] = watching
        missing = set(self._conf_get('backends')).difference(self._backends.names())
        if missing:
            raise errors.ConfigurationError(
                reason=f'cannot check {", ".join(sorted(missing))}: nothing is installed under '
                       'that name')

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

    def _conf_get(self, key: str, group: str = GROUP) -> Any:
        value = super()._conf_get(key, group)
        return value and self._detailed if key == 'detailed' else value


class HealthCheck:
    """Answers the two paths, and hands everything else to the application."""

    def __init__(self, application: Wsgi, conf: cfg.ConfigOpts, watching: monitor.Monitor,
                 details_to: Sequence[health_conf.Network]) -> None:
        """Read ``[healthcheck]``.

        :param details_to: networks whose hosts get the details, if that group allows any
        :raises ConfigurationError: a check that it names is not installed, or a network is none
        """
        register(conf)
        self._application = application
        self._details_to = details_to
        self._brief = _Healthcheck(application, conf, watching, detailed=False)
        self._detailed = _Healthcheck(application, conf, watching, detailed=True)

    def __call__(self, environ: dict[str, Any],
                 start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, as a WSGI server asks for it."""
        path = environ.get('PATH_INFO')
        if path not in PATHS or environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return self._application(environ, start_response)
        if path == LIVE_PATH:
            start_response('200 OK', [('Content-Type', 'text/plain; charset=UTF-8'),
                                      ('Content-Length', '2')])
            return [] if environ['REQUEST_METHOD'] == 'HEAD' else [b'OK']
        check: Wsgi = self._detailed if self._may_see_details(environ) else self._brief
        return check(environ, start_response)

    def _may_see_details(self, environ: Mapping[str, Any]) -> bool:
        if any(name in environ for name in _PROXIED):
            return False
        try:
            address = ipaddress.ip_address(environ.get('REMOTE_ADDR', ''))
        except ValueError:
            return False
        return any(address in network for network in self._details_to)


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
