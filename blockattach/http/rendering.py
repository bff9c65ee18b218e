"""From what a handler returned to bytes: JSON, and the few answers that are not."""
import datetime
from collections.abc import Mapping
from typing import Any

import orjson
import webob

_JSON = 'application/json'
# Times are ours to print, and a record must never reach a client whole because a view was missed.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS

_NOT_FOUND = b"""<html>
 <head>
  <title>404 Not Found</title>
 </head>
 <body>
  <h1>404 Not Found</h1>
  The resource could not be found.<br /><br />
 </body>
</html>"""


def dumps(value: Any) -> bytes:
    """JSON, with times as this API prints them: UTC, six digits, no zone.

    :raises TypeError: there is something within that no view has turned into JSON
    """
    return orjson.dumps(value, default=_default, option=_OPTIONS)


def json_response(status: int, value: Any,
                  headers: Mapping[str, str] | None = None) -> webob.Response:
    """An answer of JSON."""
    return bytes_response(status, dumps(value), {'Content-Type': _JSON, **(headers or {})})


def empty_response(status: int, headers: Mapping[str, str] | None = None) -> webob.Response:
    """An answer without a body."""
    if status == 204:
        return webob.Response(status=status, headerlist=list((headers or {}).items()))
    return bytes_response(status, b'', {'Content-Type': _JSON, **(headers or {})})


def bytes_response(status: int, body: bytes, headers: Mapping[str, str]) -> webob.Response:
    """An answer whose body is sent as it is; ``headers`` say what it is."""
    return webob.Response(
        status=status, app_iter=[body],
        headerlist=[*headers.items(), ('Content-Length', str(len(body)))])


def unknown_route_response() -> webob.Response:
    """What an address that does not exist is answered with: clients expect no JSON here."""
    return bytes_response(404, _NOT_FOUND, {'Content-Type': 'text/html; charset=UTF-8'})


def _default(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return value.isoformat(timespec='microseconds')
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f'cannot put a {type(value).__name__} into JSON')
