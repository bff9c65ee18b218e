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

from blockattach import clock
from blockattach.http import faults
from blockattach.http import negotiation
from blockattach.log import fields

LOG = logging.getLogger(__name__)

Handler = Callable[[webob.Request], webob.Response]
Layer = Callable[[Handler], Handler]

_REQUEST_ID = 'blockattach.request_id'
_VERSION = 'blockattach.version_header'
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


def request_id(request: webob.Request) -> str:
    """What we call this request: ``req-`` and a UUID."""
    name: str = request.environ[_REQUEST_ID]
    return name


def global_request_id(request: webob.Request) -> str | None:
    """What the caller calls it, if that is in the form of a request id."""
    name: str | None = request.environ.get('HTTP_X_OPENSTACK_REQUEST_ID')
    return name if name and _GLOBAL_REQUEST_ID.fullmatch(name) else None


def set_version_header(request: webob.Request, value: str) -> None:
    """Remember what was negotiated, for `version_header`."""
    request.environ[_VERSION] = value


def name_request(inner: Handler) -> Handler:
    """Give the request an id and tell it in the answer, whatever that is."""
    def handle(request: webob.Request) -> webob.Response:
        name = oslo_context.generate_request_id()
        request.environ[_REQUEST_ID] = name
        response = inner(request)
        response.headerlist.append(('x-openstack-request-id', name))
        response.headerlist.append(('x-compute-request-id', name))
        return response
    return handle


def log_request(time: clock.Clock) -> Layer:
    """Write one line a request, when it has been answered. The query string is left out: what it
    filters by is the user's own business."""
    def layer(inner: Handler) -> Handler:
        def handle(request: webob.Request) -> webob.Response:
            begin = time.monotonic()
            response = inner(request)
            LOG.info('Request is answered%s', fields(
                method=request.environ['REQUEST_METHOD'],
                path=request.environ.get('PATH_INFO', ''),
                status=response.status_code,
                length=response.content_length or 0,
                seconds=f'{time.monotonic() - begin:.4f}'))
            return response
        return handle
    return layer


def version_header(inner: Handler) -> Handler:
    """Tell in the answer, be it a failure, which version was spoken."""
    def handle(request: webob.Request) -> webob.Response:
        response = inner(request)
        spoken = request.environ.get(_VERSION)
        if spoken is not None:
            response.headerlist.append((negotiation.HEADER, spoken))
            response.headerlist.append(('Vary', negotiation.HEADER))
        return response
    return handle


def answer_faults(inner: Handler) -> Handler:
    """Turn any error into its answer."""
    def handle(request: webob.Request) -> webob.Response:
        try:
            return inner(request)
        except faults.WrongAnswer:
            raise
        except Exception as error:  # noqa: BLE001 - the last line: nothing may escape to the server
            return faults.answer(error)
    return handle
