"""THE table from an error to its answer. No handler translates errors."""
import logging
from typing import NamedTuple

import webob

from blockattach import errors
from blockattach.http import rendering
from blockattach.log import fields

LOG = logging.getLogger(__name__)

UNEXPECTED = ('The server has either erred or is incapable of performing the requested '
              'operation.')


class Fault(NamedTuple):
    """How an error is answered; ``shown``: its text goes to the client."""

    status: int
    shown: bool = True


TABLE: dict[type[Exception], Fault] = {
    errors.InvalidInput: Fault(400),
    errors.NotAuthenticated: Fault(401),
    errors.NotAuthorized: Fault(403),
    errors.NotFound: Fault(404),
    errors.VersionNotAcceptable: Fault(406),
    errors.Conflict: Fault(409),
    errors.StaleGeneration: Fault(409),
    errors.MediaTypeNotSupported: Fault(415),
    errors.QuotaExceeded: Fault(413),
    errors.BackendError: Fault(500),
    # It may have happened: a repeated request finds or finishes it.
    errors.BackendUncertain: Fault(504),
    errors.ServiceUnreachable: Fault(504),
    errors.ServiceSilent: Fault(502),
    errors.DeadlinePassed: Fault(503),
    errors.Overloaded: Fault(503),
    errors.RequestAbandoned: Fault(503),
    errors.IdentityUnavailable: Fault(503),
    errors.DatabaseUnavailable: Fault(503),
    errors.OutcomeUnknown: Fault(504),
    errors.NovaUnavailable: Fault(503),
    errors.NoValidPool: Fault(500, shown=False),
    errors.ServerHostUnknown: Fault(500, shown=False),
    errors.ConfigurationError: Fault(500, shown=False),
    errors.BlockattachError: Fault(500, shown=False),
    Exception: Fault(500, shown=False),
}

KEYS = {
    400: 'badRequest',
    401: 'unauthorized',
    403: 'forbidden',
    404: 'itemNotFound',
    405: 'badMethod',
    409: 'conflictingRequest',
    413: 'overLimit',
    415: 'badMediaType',
    501: 'notImplemented',
    503: 'serviceUnavailable',
}
OTHER_KEY = 'computeFault'
"""For every other status: what Nova called its faults, and clients still read."""


def fault(error: Exception) -> Fault:
    """The row of the nearest ancestor that has one."""
    for ancestor in type(error).__mro__:
        row = TABLE.get(ancestor)
        if row is not None:
            return row
    return TABLE[Exception]


def response(status: int, message: str, retry_after: str | None = None) -> webob.Response:
    """The answer of a failure.

    :param retry_after: seconds after which a repeat may succeed; sent in header and body
    """
    inner: dict[str, int | str] = {'code': status, 'message': message}
    headers = {}
    if retry_after is not None:
        inner['retryAfter'] = retry_after
        headers['Retry-After'] = retry_after
    return rendering.json_response(status, {KEYS.get(status, OTHER_KEY): inner}, headers)


def answer(error: Exception) -> webob.Response:
    """The answer to an error; an unexpected one is logged in full and not disclosed."""
    row = fault(error)
    if not row.shown:
        LOG.error('Cannot answer a request: an unexpected error', exc_info=error)
        return response(row.status, UNEXPECTED)
    if row.status >= 500:
        LOG.warning('Request has failed%s',
                    fields(code=getattr(error, 'code', ''), reason=error))
    return response(row.status, str(error), getattr(error, 'retry_after', None))
