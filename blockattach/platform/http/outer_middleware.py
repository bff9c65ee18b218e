"""oslo.middleware around every request: headers of proxies, and CORS for browsers. Instead of its
other parts, request ids are given by `middleware.watch_request`, bodies are limited by ``[api]
max_request_body_size``, and `blockattach.platform.http.health` answers ``/healthcheck``.
"""
import webob
from oslo_config import cfg
from oslo_middleware import base
from oslo_middleware import cors
from oslo_middleware import http_proxy_to_wsgi

from blockattach.platform.http import middleware

CORS_GROUP = 'cors'
PROXY_GROUP = 'oslo_middleware'
GROUPS = (CORS_GROUP, PROXY_GROUP)

_CORS_DEFAULTS = {
    'allow_methods': ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    'allow_headers': ['Authorization', 'Idempotency-Key', 'If-None-Match',
                      'OpenStack-API-Version', 'X-Auth-Token', 'X-OpenStack-Request-ID'],
    'expose_headers': ['Blockattach-API-Versions', 'ETag', 'OpenStack-API-Version',
                       'Retry-After', 'X-Compute-Request-Id', 'X-OpenStack-Request-ID'],
}


def register(conf: cfg.ConfigOpts) -> None:
    """Make oslo.middleware's groups known; ours is the default of which headers count."""
    set_library_defaults()
    conf.register_opts(http_proxy_to_wsgi.OPTS, group=PROXY_GROUP)
    conf.register_opts(cors.OPTS, group=CORS_GROUP)


def set_library_defaults() -> None:
    """For oslo.config's sample generator: what `register` changes."""
    cors.set_defaults(**_CORS_DEFAULTS)


def layers(conf: cfg.ConfigOpts) -> tuple[middleware.Layer, ...]:
    """Those that are configured, outermost first; without any a request pays for none."""
    made: list[base.ConfigurableMiddleware] = []
    if conf[CORS_GROUP].allowed_origin:
        made.append(cors.CORS(None, conf))
    if conf[PROXY_GROUP].enable_proxy_headers_parsing:
        made.append(http_proxy_to_wsgi.HTTPProxyToWSGI(None, conf))
    return tuple(map(_layer, made))


def _layer(made: base.ConfigurableMiddleware) -> middleware.Layer:
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            return (made.process_request(request)
                    or made.process_response(inner(request), request=request))
        return handle
    return layer
