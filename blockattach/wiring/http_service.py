"""The API on the built-in server."""
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach import log
from blockattach.conf import api as api_conf
from blockattach.conf import core as core_conf
from blockattach.conf import locations
from blockattach.http import health
from blockattach.http import server
from blockattach.http import tls
from blockattach.telemetry import acts
from blockattach.telemetry import readings
from blockattach.wiring import api
from blockattach.wiring import authentication
from blockattach.wiring import dependencies

LOG = oslo_log.getLogger(__name__)


def build_services(base: dependencies.Dependencies) -> list['HttpService']:
    """What a process of its own consists of."""
    listener = listen(base.conf)
    try:
        return [build_http(base, listener)]
    except BaseException:
        # It has threads, which would keep the process.
        listener.stop()
        raise


def build_http(base: dependencies.Dependencies, listener: 'Listener') -> 'HttpService':
    """The API on an address that is taken already."""
    base.reloads.add(listener.reload)
    base.telemetry.readings.add_threads('http', listener.use)
    listener.report_to(base.telemetry)
    return HttpService(listener, api.build_serving(base))


def listen(conf: cfg.ConfigOpts) -> 'Listener':
    """Take the address.

    :raises ConfigurationError: it is taken, or not ours, or must not be served so
    """
    settings = api_conf.settings(conf)
    authentication.check_address(conf, settings)
    with locations.named(conf, api_conf.GROUP, 'tls_cert_file'):
        secured = None if settings.tls is None else tls.Certificate(settings.tls)
    with locations.named(conf, api_conf.GROUP, 'port'):
        return Listener(settings, core_conf.settings(conf).graceful_shutdown_timeout, secured)


class Listener:
    """The address, taken before there is an application to answer."""

    def __init__(self, settings: api_conf.ApiSettings, shutdown_seconds: int,
                 secured: tls.Certificate | None) -> None:
        self._application: Callable[..., Any] | None = None
        self._secured = secured
        host = settings.host
        self._server = server.Server(self._answer, host, settings.port, settings.queue,
                                     settings.max_request_body_size, shutdown_seconds, secured,
                                     health.PATHS)
        self._server.bind()
        shown = f'[{host}]' if ':' in host else host
        self.url = f'{"https" if secured else "http"}://{shown}:{self._server.port}'

    def reload(self) -> None:
        """Read the certificate anew, if there is one."""
        if self._secured is not None:
            self._secured.reload()

    def use(self) -> readings.ThreadUse:
        """How the threads that answer are used."""
        return self._server.use()

    def report_to(self, telemetry: acts.Telemetry) -> None:
        """Count requests that were refused."""
        self._server.report_to(telemetry)

    def serve(self, application: Callable[..., Any]) -> None:
        """Answer with this application from now on; connections have waited."""
        self._application = application
        self._server.start()

    def stop(self) -> None:
        """Take no more connections, and let requests that run end. A repeat does nothing."""
        self._server.stop()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        assert self._application is not None
        return self._application(environ, start_response)


class HttpService:
    """The API as a part of a process."""

    def __init__(self, listener: Listener, application: Callable[..., Any]) -> None:
        self._listener = listener
        self._application = application

    def start(self) -> None:
        """Answer requests."""
        self._listener.serve(self._application)
        LOG.info('API serves%s', log.fields(url=self._listener.url))

    def stop(self) -> None:
        """Let requests that run end, and take no more."""
        self._listener.stop()
        LOG.info('API has stopped%s', log.fields(url=self._listener.url))
