"""The layer in which a request waits for its turn."""
import contextlib

import webob

from blockattach import errors
from blockattach.admission import gate
from blockattach.http import arrival
from blockattach.http import middleware

_MOST_BYTES = 1048576

DEADLINE = 'blockattach.deadline'
"""In a request's environ: until when what is sent on its account is worth something."""


def in_turn(gate: gate.Gate, patience: float) -> middleware.Layer:
    """Let a request go on when there is a place for it; health checks do not come here.

    :param patience: how many seconds a call over the bus is worth something: what the request has
        waited is taken off
    """
    def layer(inner: middleware.Handler) -> middleware.Handler:
        def handle(request: webob.Request) -> webob.Response:
            environ = request.environ
            refused = environ.get(arrival.REFUSED)
            try:
                if refused is not None:
                    raise refused
                came = arrival.of(environ)
                environ[DEADLINE] = gate.now() - came.waited + patience
                with gate.turn(came.waited, came.gone):
                    return inner(request)
            except errors.Overloaded:
                _read_to_end(request)
                raise
        return handle
    return layer


def _read_to_end(request: webob.Request) -> None:
    """What the client sends: a connection that ends with something unread in it takes the answer
    with it."""
    length = request.environ.get('CONTENT_LENGTH') or ''
    # Servers differ in what they raise; whatever it is, the client has no answer to lose.
    with contextlib.suppress(Exception):
        request.environ['wsgi.input'].read(min(int(length), _MOST_BYTES) if length else 0)
