"""Recording of example requests and responses for the API references.

Values that differ between runs are replaced: IDs and secrets by fixed values of the same form, and
times by a fixed time unless a manual clock provided them.
"""
import hashlib
import json
import re
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import webob

from blockattach.platform.http import operation
from blockattach.tests.fixtures import http

_UUID = re.compile(r'\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b')
# Times that the manual clock of the tests did not provide.
_TIME = re.compile(r'\b(?!2026-01-)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\b')
_SOME_TIME = '2026-01-01T12:00:00.000000'
_SECRETS = ('adminPass', 'auth_key', 'auth_password', 'auth_username', 'discovery_auth_password')


class Example(NamedTuple):
    """Example request of an operation with its response."""

    method: str
    path: str
    version: str | None
    body: Any
    status: int
    answer: Any

    def as_dict(self) -> dict[str, Any]:
        """Return the example as a dictionary for JSON."""
        return {
            'request': {'method': self.method, 'path': self.path, 'version': self.version,
                        'body': self.body},
            'answer': {'status': self.status, 'body': self.answer}}


class Player:
    """Sender of example requests that keeps one request and its response for each operation."""

    def __init__(self, rows: Iterable[operation.Operation], prefix: str, place: str,
                 version: str, refused: Collection[str], tokens: tuple[str, str],
                 answer: Callable[[webob.Request], http.Reply]) -> None:
        """
        :param prefix: prefix of the paths of operations
        :param place: host and port of the API
        :param version: version header of requests that specify no version
        :param refused: names of operations whose example is rejected
        :param tokens: token of a user, and token of an administrator
        :param answer: sends a request, and returns the response
        """
        self.examples: dict[str, Example] = {}
        self._operations = {row.name: row for row in rows}
        self._prefix, self._place, self._version = prefix, place, version
        self._refused, self._tokens, self._answer = refused, tokens, answer

    def ask(self, name: str, values: Mapping[str, str] | None = None, body: Any = None,
            query: str = '', version: str | None = '', keep: bool = True,
            member: bool = False) -> Any:
        """Send a request of an operation, and return the body of the response.

        :param values: values of the variables in the path
        :param version: version header; the default one if empty, no header if None
        :param keep: keep the request and its response as the example of the operation
        :param member: send the request as a user instead of as an administrator
        :raises SystemExit: if the response has an unexpected status
        """
        row = self._operations[name]
        path = (row.path if row.root else f'{self._prefix}{row.path}').format(
            **(values or {})) + query
        named = self._version if version == '' else version
        reply = self._send(row.method, path, body, named, member)
        if reply.status not in ((400, 404) if name in self._refused else (row.status,)):
            raise SystemExit(f'{name} returned status {reply.status}: {reply.text}')
        if keep:
            self.examples[name] = Example(row.method, path, named, body, reply.status,
                                          reply.body)
        return reply.body

    def _send(self, method: str, path: str, body: Any, version: str | None,
              member: bool) -> http.Reply:
        request = webob.Request.blank(path, method=method, headers={
            'X-Auth-Token': self._tokens[0 if member else 1]})
        request.host = self._place
        if version is not None:
            request.headers[operation.VERSION_HEADER] = version
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = 'application/json'
        return self._answer(request)

    def recorded(self) -> dict[str, Any]:
        """Return the examples by operation, in the order of the operations."""
        found = {name: self.examples[name].as_dict() for name in self._operations
                 if name in self.examples}
        return json.loads(_settled(json.dumps(_without_secrets(found))))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _of_length(key, inner) if key in _SECRETS and isinstance(inner, str)
            else _without_secrets(inner) for key, inner in value.items()}


def _of_length(name: str, secret: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:len(secret)]


def _settled(text: str) -> str:
    """Replace random IDs, in the order in which they appear, and times by fixed values."""
    fixed: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        found = match.group()
        if found[:8] == found[0] * 8:
            return found
        made = uuid.UUID(hashlib.md5(b'%d' % len(fixed), usedforsecurity=False).hexdigest(),
                         version=4)
        return fixed.setdefault(found, str(made))

    return _TIME.sub(_SOME_TIME, _UUID.sub(other, text))
