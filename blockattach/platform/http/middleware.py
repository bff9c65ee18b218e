"""Layers around the dispatcher of requests.

A layer takes the next handler and returns a handler, ``(request) -> response``. Only the outermost
handler is wrapped in a WSGI application, so that WebOb parses the environ once and not once per
layer.
"""
import logging
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import webob
from oslo_context import context as oslo_context

from blockattach.platform import context as request_context
from blockattach.platform import log
from blockattach.platform.http import operation
from blockattach.platform.http import responses
from blockattach.platform.telemetry import acts

LOG = logging.getLogger(__name__)

Handler = Callable[[webob.Request], webob.Response]
Layer = Callable[[Handler], Handler]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# The name that oslo.middleware uses, so that other middleware finds the request id.
_REQUEST_ID = 'openstack.request_id'
VERSION = 'blockattach.version_header'
"""Environ key of the negotiated versions, in the form of the response header."""
ACT = 'blockattach.act'
"""Environ key of the timed operation of a request, which gets its labels from the dispatcher."""
MUST_NOT_WRITE = 'blockattach.must_not_write'
"""Environ key of the reason for which an operation with `Operation.writes` is rejected."""
_GLOBAL_REQUEST_ID = re.compile(
    r'req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')


def application(layers: Sequence[Layer], inner: Handler) -> Wsgi:
    """Return a WSGI application that passes requests through layers to a handler.

    :param layers: outermost first
    :param inner: handler that the layers surround
    """
    handle = inner
    for layer in reversed(layers):
        handle = layer(handle)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answered: Iterable[bytes] = handle(webob.Request(environ))(environ, start_response)
        return answered
    return answer


def wsgi_layer(surround: Callable[[Wsgi], Wsgi]) -> Layer:
    """Convert a WSGI middleware to a layer, through which exceptions of the inner handler pass."""
    def layer(inner: Handler) -> Handler:
        surrounded = surround(application((), inner))

        def handle(request: webob.Request) -> webob.Response:
            return request.get_response(surrounded)
        return handle
    return layer


def request_ids(request: webob.Request) -> dict[str, Any]:
    """Return the request ids for the context of a request.

    ``request_id`` is the id that `watch_request` generated, ``req-`` and a UUID.
    ``global_request_id`` is the id that the caller sent, or None if the caller sent no valid id.
    """
    name = request.environ.get('HTTP_X_OPENSTACK_REQUEST_ID', '')
    return {'request_id': request.environ[_REQUEST_ID],
            'global_request_id': name if _GLOBAL_REQUEST_ID.fullmatch(name) else None}


def watch_request(telemetry: acts.Telemetry) -> Layer:
    """Return a layer that generates a request id, and times, traces and logs each request.

    Each response has headers with the request id and the negotiated version. A request has one log
    line, which is written with its response. The line has no query string, because filters may
    contain private data of the user.
    """
    def layer(inner: Handler) -> Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            environ[_REQUEST_ID] = name = oslo_context.generate_request_id()
            # Log lines before authentication must not have the context of the previous request of
            # this thread.
            request_context.RequestContext(**request_ids(request))
            parent = environ.get('HTTP_TRACEPARENT') if telemetry.trusts_clients else None
            with telemetry.http(parent) as act:
                environ[ACT] = act
                response = inner(request)
                act.note(status=f'{response.status_code // 100}xx')
                LOG.info('Request completed%s%s', log.fields(
                    method=environ['REQUEST_METHOD'], path=environ.get('PATH_INFO', ''),
                    operation=act.labels['operation'],
                    status=response.status_code, length=response.content_length or 0,
                    seconds=round(act.seconds(), 6)), act.noted)
            response.headerlist.extend((('x-openstack-request-id', name),
                                        ('x-compute-request-id', name)))
            if VERSION in environ:
                response.headerlist.extend(((operation.VERSION_HEADER, environ[VERSION]),
                                            ('Vary', operation.VERSION_HEADER)))
            return response
        return handle
    return layer


def answer_faults(inner: Handler) -> Handler:
    """Return a handler that builds an error response for each exception of the inner handler."""
    def handle(request: webob.Request) -> webob.Response:
        try:
            return inner(request)
        except Exception as error:  # noqa: BLE001 - outermost handler: no error may reach the server
            log.about(code=getattr(error, 'code', None))
            return responses.error(error)
    return handle
