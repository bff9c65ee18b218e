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

from blockattach import context as request_context
from blockattach import errors
from blockattach.http import faults
from blockattach.http import operation
from blockattach.log import fields
from blockattach.telemetry import acts

LOG = logging.getLogger(__name__)

Handler = Callable[[webob.Request], webob.Response]
Layer = Callable[[Handler], Handler]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# As oslo.middleware calls it, for other middlewares to find.
_REQUEST_ID = 'openstack.request_id'
_VERSION = 'blockattach.version_header'
_ACT = 'blockattach.act'
_MUST_NOT_WRITE = 'blockattach.must_not_write'
_GLOBAL_REQUEST_ID = re.compile(
    r'req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')


class Application:
    """The layers and what they surround, as one WSGI application."""

    def __init__(self, layers: Sequence[Layer], inner: Handler) -> None:
        """Put the layers around the handler.

        :param layers: outermost first
        """
        handler = inner
        for layer in reversed(layers):
            handler = layer(handler)
        self._handle = handler

    def __call__(self, environ: dict[str, Any],
                 start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, as a WSGI server asks for it."""
        response = self._handle(webob.Request(environ))
        return response(environ, start_response)


def wsgi_layer(surround: Callable[[Wsgi], Wsgi]) -> Layer:
    """A layer out of a middleware of WSGI's kind. An error of ours passes through it."""
    def layer(inner: Handler) -> Handler:
        def application(environ: dict[str, Any],
                        start_response: Callable[..., Any]) -> Iterable[bytes]:
            answered: Iterable[bytes] = inner(webob.Request(environ))(environ, start_response)
            return answered
        surrounded = surround(application)

        def handle(request: webob.Request) -> webob.Response:
            return request.get_response(surrounded)
        return handle
    return layer


def request_id(request: webob.Request) -> str:
    """What we call this request: ``req-`` and a UUID."""
    name: str = request.environ[_REQUEST_ID]
    return name


def global_request_id(request: webob.Request) -> str | None:
    """What the caller calls it, if that is in the form of a request id."""
    name: str | None = request.environ.get('HTTP_X_OPENSTACK_REQUEST_ID')
    return name if name and _GLOBAL_REQUEST_ID.fullmatch(name) else None


def name_operation(request: webob.Request, name: str) -> None:
    """Give `watch_request` the operation."""
    act = request.environ.get(_ACT)
    if act is not None:
        act.note(operation=name)


def set_version_header(request: webob.Request, value: str) -> None:
    """Remember what was negotiated, for the answer."""
    request.environ[_VERSION] = value


def forbid_writing(request: webob.Request, reason: str) -> None:
    """Remember why this request must not change anything, whatever its method."""
    request.environ[_MUST_NOT_WRITE] = reason


def check_writing(request: webob.Request) -> None:
    """Return if the request may change something.

    :raises NotAuthorized: `forbid_writing` says why not
    """
    reason = request.environ.get(_MUST_NOT_WRITE)
    if reason is not None:
        raise errors.NotAuthorized(reason)


def watch_request(telemetry: acts.Telemetry) -> Layer:
    """Give the request an id, time it, see it in a trace, and write one line when it has been
    answered. Each answer carries the id and the negotiated version.

    The query string is not logged: what it filters by is the user's own business.
    """
    def layer(inner: Handler) -> Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            environ[_REQUEST_ID] = name = oslo_context.generate_request_id()
            # Lines before authentication must not carry the former request's context.
            request_context.RequestContext(request_id=name,
                                           global_request_id=global_request_id(request))
            parent = environ.get('HTTP_TRACEPARENT') if telemetry.trusts_clients else None
            with telemetry.http(parent) as act:
                environ[_ACT] = act
                response = inner(request)
                act.note(status=f'{response.status_code // 100}xx')
                LOG.info('Request is answered%s', fields(
                    method=environ['REQUEST_METHOD'], path=environ.get('PATH_INFO', ''),
                    status=response.status_code, length=response.content_length or 0,
                    seconds=f'{act.seconds():.4f}'))
            response.headerlist.extend((('x-openstack-request-id', name),
                                        ('x-compute-request-id', name)))
            if _VERSION in environ:
                response.headerlist.extend(((operation.VERSION_HEADER, environ[_VERSION]),
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
            return faults.answer(error)
    return handle
