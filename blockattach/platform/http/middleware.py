"""What every request goes through around its operation: layers of one plain function each.

A layer takes the next handler and gives a handler back, ``(request) -> response``. One WSGI
application stands outside, so that webob takes the environ apart once and not once a layer.
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

# As oslo.middleware calls it, for other middlewares to find.
_REQUEST_ID = 'openstack.request_id'
VERSION = 'blockattach.version_header'
"""In an environ: which version was negotiated, for the answer."""
ACT = 'blockattach.act'
"""In an environ: what `watch_request` times, to be given the operation's name."""
MUST_NOT_WRITE = 'blockattach.must_not_write'
"""In an environ: why this request must not change anything, whatever its method."""
_GLOBAL_REQUEST_ID = re.compile(
    r'req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')


def application(layers: Sequence[Layer], inner: Handler) -> Wsgi:
    """The layers, outermost first, and what they surround, as one WSGI application."""
    handle = inner
    for layer in reversed(layers):
        handle = layer(handle)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answered: Iterable[bytes] = handle(webob.Request(environ))(environ, start_response)
        return answered
    return answer


def wsgi_layer(surround: Callable[[Wsgi], Wsgi]) -> Layer:
    """A layer out of a middleware of WSGI's kind. An error of ours passes through it."""
    def layer(inner: Handler) -> Handler:
        surrounded = surround(application((), inner))

        def handle(request: webob.Request) -> webob.Response:
            return request.get_response(surrounded)
        return handle
    return layer


def request_ids(request: webob.Request) -> dict[str, Any]:
    """What we call this request, ``req-`` and a UUID, and what the caller calls it, if that is in
    the form of a request id; for its context."""
    name = request.environ.get('HTTP_X_OPENSTACK_REQUEST_ID', '')
    return {'request_id': request.environ[_REQUEST_ID],
            'global_request_id': name if _GLOBAL_REQUEST_ID.fullmatch(name) else None}


def watch_request(telemetry: acts.Telemetry) -> Layer:
    """Give the request an id, time it, see it in a trace, and write its one line when it has been
    answered. Each answer carries the id and the negotiated version.

    The query string is not logged: what it filters by is the user's own business.
    """
    def layer(inner: Handler) -> Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            environ[_REQUEST_ID] = name = oslo_context.generate_request_id()
            # Lines before authentication must not carry the former request's context.
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
    """Make an answer of any error."""
    def handle(request: webob.Request) -> webob.Response:
        try:
            return inner(request)
        except Exception as error:  # noqa: BLE001 - the last line: nothing may escape to the server
            log.about(code=getattr(error, 'code', None))
            return responses.error(error)
    return handle
