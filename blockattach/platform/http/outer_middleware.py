"""Layers of oslo.middleware around every request: headers of proxies, and CORS for browsers.

Other parts of oslo.middleware are not used. `middleware.watch_request` generates request ids,
``[api] max_request_body_size`` limits bodies, and `blockattach.platform.http.health` serves
``/healthcheck``.
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
    """Register the options of oslo.middleware, with the headers of this API as CORS defaults."""
    set_library_defaults()
    conf.register_opts(http_proxy_to_wsgi.OPTS, group=PROXY_GROUP)
    conf.register_opts(cors.OPTS, group=CORS_GROUP)


def set_library_defaults() -> None:
    """Set the CORS defaults of this API. oslo.config's sample generator calls this function."""
    cors.set_defaults(**_CORS_DEFAULTS)


def layers(conf: cfg.ConfigOpts) -> tuple[middleware.Layer, ...]:
    """Return the layers that the configuration enables, outermost first.

    A layer that is not enabled is left out, so that it costs requests no time.
    """
    enabled: list[base.ConfigurableMiddleware] = []
    if conf[CORS_GROUP].allowed_origin:
        enabled.append(cors.CORS(None, conf))
    if conf[PROXY_GROUP].enable_proxy_headers_parsing:
        enabled.append(http_proxy_to_wsgi.HTTPProxyToWSGI(None, conf))
    return tuple(map(_layer, enabled))


def _layer(outer: base.ConfigurableMiddleware) -> middleware.Layer:
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            return (outer.process_request(request)
                    or outer.process_response(inner(request), request=request))
        return handle
    return layer
