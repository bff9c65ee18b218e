"""Health checks of the API, ``/healthcheck``, for load balancers and probes.

Health checks are served before any other layer handles the request, without a token, a policy
check or a log line. The middleware is the healthcheck of oslo.middleware. Its checks are plugins
of the entry point group ``oslo.middleware.healthcheck``, selected by ``[healthcheck] backends``.
Each check of this project returns the last result of the health monitor of the process.
``/healthcheck/live`` only shows that the process responds.
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
"""Names of the checks in the health monitor, by their names in ``[healthcheck] backends``."""

_MONITOR = 'blockattach_monitor'
# The address of a request through a proxy is that of the proxy, which says nothing about the
# client.
_PROXIED = ('HTTP_FORWARDED', 'HTTP_X_FORWARDED_FOR', 'HTTP_X_FORWARDED_HOST',
            'HTTP_X_FORWARDED_PROTO')

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.middleware's healthcheck, with `CHECKS` as the default."""
    conf.register_opts(opts.HEALTHCHECK_OPTS, group=GROUP)
    conf.set_default('backends', list(CHECKS), group=GROUP)


class _Healthcheck(healthcheck.Healthcheck):
    """Healthcheck of oslo.middleware whose checks read the health monitor.

    :raises ConfigurationError: a configured check is not installed
    """

    def __init__(self, refused: Wsgi, conf: cfg.ConfigOpts, watching: monitor.Monitor,
                 detailed: bool) -> None:
        super().__init__(refused, conf)
        self._show_details = self._show_details and detailed
        # The constructor has already created the checks, but they share this mapping.
        self.conf[_MONITOR] = watching
        missing = set(self._conf_get('backends')).difference(self._backends.names())
        if missing:
            raise errors.ConfigurationError(
                reason=f'cannot use health checks {", ".join(sorted(missing))}: no such plugin is '
                       'installed')

    def _make_text_response(self, results: list[pluginbase.HealthcheckResult],
                            healthy: bool) -> tuple[str, str]:
        """Return the body and its type. The body is "OK" if healthy, or else the failures.
        """
        if healthy:
            return 'OK', 'text/plain'
        text, kind = super()._make_text_response(
            [result for result in results if not result.available], healthy)
        return text, kind

    @staticmethod
    def _get_greenstacks() -> list[Any]:
        """Return no stacks, because this service uses native threads."""
        # oslo.middleware would search all objects of the process for greenlets. That takes long,
        # and raises ReferenceError at a dead weak proxy.
        return []


def with_health(application: Wsgi, conf: cfg.ConfigOpts, watching: monitor.Monitor,
                details_to: Sequence[health_conf.Network]) -> Wsgi:
    """Return a WSGI application that serves the health checks, and forwards other requests.

    :param conf: configuration with the options of `register`
    :param details_to: networks whose hosts get the details, if ``[healthcheck] detailed`` is set
    :raises ConfigurationError: a configured check is not installed
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
    """Health check that returns the last result of the monitor.

    The check succeeds if the monitor has no check with this name.
    """

    name: str

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        wrong = self.conf[_MONITOR].findings().get(self.name)
        return pluginbase.HealthcheckResult(available=wrong is None,
                                            reason=f'{self.name}: {wrong or "OK"}')


class DatabaseCheck(_MonitorCheck):
    name = 'database'


class BusCheck(_MonitorCheck):
    name = 'bus'


class BackendsCheck(_MonitorCheck):
    """Health check of the backends, which fails only if backends are in use and none is up."""

    name = 'backends'
