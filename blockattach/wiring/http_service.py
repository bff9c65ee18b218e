"""Builder of the Block Storage API on the built-in server."""
from oslo_config import cfg

from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.platform.http import health
from blockattach.platform.webserver import server
from blockattach.storage import watching
from blockattach.storage.api.resources.attachments import watching as rendering
from blockattach.storage.conf import watch as watch_conf
from blockattach.wiring import api
from blockattach.wiring import authentication
from blockattach.wiring import dependencies


def build_services(base: dependencies.Dependencies) -> list[server.Server]:
    """Build the services of an API process."""
    listening = listen(base.conf)
    try:
        return [build_http(base, listening)]
    except BaseException:
        # The server has threads, which would keep the process running.
        listening.stop()
        raise


def build_http(base: dependencies.Dependencies, listening: server.Server) -> server.Server:
    """Build the API as the application of a server that already listens.

    Connections wait until the server is started.
    """
    if listening.secured is not None:
        base.reloads.add(listening.secured.reload, listening.secured.wrong)
    base.telemetry.readings.add_threads('http', listening.use)
    listening.telemetry = base.telemetry
    listening.application = api.build_serving(base)
    settings = watch_conf.settings(base.conf)
    if settings.enabled:
        listening.hub = watching.Hub(base.database, settings, rendering.render, base.clock)
    return listening


def listen(conf: cfg.ConfigOpts) -> server.Server:
    """Return a server that listens on the address of the API, without its application.

    :raises ConfigurationError: the TLS certificate cannot be used, or the address is in use, does
        not belong to this host, or must not be served without authentication
    """
    settings, watch = api_conf.settings(conf), watch_conf.settings(conf)
    authentication.check_address(conf, settings)
    secured = authentication.build_certificate(conf, settings)
    with locations.named(conf, api_conf.GROUP, 'port'):
        return server.Server(None, settings.host, settings.port, settings.queue,
                             settings.max_request_body_size,
                             core_conf.settings(conf).graceful_shutdown_timeout, secured,
                             health.PATHS, watch.most_watchers if watch.enabled else 0)
