"""The layer in which a request waits for a work slot."""
import contextlib

import webob

from blockattach import errors
from blockattach.admission import controller
from blockattach.http import arrival
from blockattach.http import middleware

_MOST_BYTES = 1048576

DEADLINE = 'blockattach.deadline'
"""In a request's environ: when the RPC messages sent for it expire, on the monotonic clock."""


def admitting(admission: controller.AdmissionController, timeout: float) -> middleware.Layer:
    """Pass a request on when it has a work slot; health checks do not come here.

    :param timeout: seconds of an RPC call; what the request has waited already is taken off
    """
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            refused = environ.get(arrival.REFUSED)
            try:
                if refused is not None:
                    raise refused
                came = arrival.of(environ)
                environ[DEADLINE] = admission.now() - came.waited + timeout
                with admission.slot(came.waited, came.gone):
                    return inner(request)
            except errors.Overloaded:
                _read_to_end(request)
                raise
        return handle
    return layer


def _read_to_end(request: webob.Request) -> None:
    """Read the body: a connection closed with unread bytes is reset, and the answer is lost."""
    length = request.environ.get('CONTENT_LENGTH') or ''
    # Servers differ in what they raise; the answer is sent all the same.
    with contextlib.suppress(Exception):
        request.environ['wsgi.input'].read(min(int(length), _MOST_BYTES) if length else 0)
