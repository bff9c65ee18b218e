"""HTTP responses, built from the values that handlers return and from errors.

The classes of errors define status and text (`blockattach.platform.errors`), so no handler
translates errors.
"""
import datetime
import logging
from collections.abc import Mapping
from typing import Any

import orjson
import webob

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.log import fields

LOG = logging.getLogger(__name__)

UNEXPECTED = ('The server has either erred or is incapable of performing the requested '
              'operation.')

_JSON = 'application/json'
_BODILESS = (204, 304)
# `_default` converts datetimes to the format of this API. A dataclass raises an error, so that a
# handler that has not applied a view never sends a whole record.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


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
"""Key of the error object in the body if `KEYS` does not contain the status, as in Nova."""


def dumps(value: Any) -> bytes:
    """Encode a value as JSON. Datetimes are in UTC, with six digits and no time zone.

    :raises TypeError: the value contains an object that no view has converted
    """
    return orjson.dumps(value, default=_default, option=_OPTIONS)


def success(status: int, value: Any) -> webob.Response:
    """Build the response from the value of a handler.

    :param status: status of the operation, used unless the value is an `operation.Answer` with a
        status
    """
    headers: Mapping[str, str] = {}
    if isinstance(value, operation.Answer):
        status, headers, value = value.status or status, value.headers or {}, value.body
    if isinstance(value, bytes):
        return _response(status, value, headers)
    if value is None and status in _BODILESS:
        return webob.Response(status=status, headerlist=list(headers.items()))
    return _response(status, b'' if value is None else dumps(value),
                     {'Content-Type': _JSON, **headers})


def failure(status: int, message: str, retry_after: str | None = None) -> webob.Response:
    """Build an error response.

    :param retry_after: seconds after which the request may succeed, sent in header and body; None
        if repeating the request does not help
    """
    inner: dict[str, int | str] = {'code': status, 'message': message}
    headers = {'Content-Type': _JSON}
    if retry_after is not None:
        inner['retryAfter'] = retry_after
        headers['Retry-After'] = retry_after
    return _response(status, dumps({KEYS.get(status, OTHER_KEY): inner}), headers)


def error(raised: Exception) -> webob.Response:
    """Build the response to an exception. An unexpected exception is logged and not shown."""
    if not isinstance(raised, errors.BlockattachError) or not raised.shown:
        LOG.error('Failed to handle request', exc_info=raised)
        return failure(500, UNEXPECTED)
    if raised.status >= 500:
        LOG.warning('Request failed%s', fields(code=raised.code, reason=raised))
    return failure(raised.status, str(raised), raised.retry_after)


def _response(status: int, body: bytes, headers: Mapping[str, str]) -> webob.Response:
    return webob.Response(
        status=status, app_iter=[body],
        headerlist=[*headers.items(), ('Content-Length', str(len(body)))])


def _default(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return value.isoformat(timespec='microseconds')
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f'cannot serialize a {type(value).__name__} as JSON')
