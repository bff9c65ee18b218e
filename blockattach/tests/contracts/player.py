"""Replay of the rows of a contract against the API, as plain requests or by the real client.

The rows of a flow are played one by one:

    player = Player(fixture, nova.CONSUMER, names)
    for call in flow.calls:
        player.play(call)
"""
import json
import urllib.parse
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

import webob

from blockattach.tests.contracts import calls
from blockattach.tests.fixtures import http

_BY_ITSELF = ('/', '/v3/', '/v3')
_USER = 'c0a1e5ce52c64a1f9f4a5d3f7b1c9e01'


class Asked(NamedTuple):
    """Comparable form of a request: the path from the noun on, and the query without an order."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    version: str | None
    body: Any

    @classmethod
    def of(cls, request: webob.Request, project_id: str) -> 'Asked':
        """Parse a received request."""
        path = request.path
        if path not in _BY_ITSELF:
            path = path.removeprefix('/v3').removeprefix(f'/{project_id}')
        return cls(request.method, path, _parsed(request.query_string),
                   request.headers.get('OpenStack-API-Version'),
                   json.loads(request.body) if request.body else None)


class Exchange(NamedTuple):
    """Request and its response."""

    asked: Asked
    status: int
    answer: Any

    @classmethod
    def of(cls, request: webob.Request, response: webob.Response, project_id: str) -> 'Exchange':
        is_json = (response.content_type or '').startswith('application/json')
        return cls(Asked.of(request, project_id), response.status_code,
                   json.loads(response.body) if response.body and is_json else None)


class Recorder:
    """WSGI application that records the requests to another application, and its responses."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.exchanges: list[tuple[webob.Request, webob.Response]] = []

    def __call__(self, environ: dict[str, Any],
                 start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = webob.Request(environ)
        request.make_body_seekable()
        response = request.get_response(self._application)
        self.exchanges.append((request, response))
        return response(environ, start_response)

    def take(self, project_id: str) -> list[Exchange]:
        """Return the exchanges since the last call, without the project id in their paths."""
        taken, self.exchanges = self.exchanges, []
        return [Exchange.of(request, response, project_id) for request, response in taken]


class Player:
    """Player of one flow of a consumer.

    :ivar names: kept strings, and the ids of projects, servers and prepared resources
    """

    def __init__(self, fixture: http.ApiFixture, consumer: calls.Consumer,
                 names: dict[str, str]) -> None:
        self._fixture, self._consumer = fixture, consumer
        self.names = {
            **{name: uuid.uuid4().hex
               for name in ('project', 'admin_project', 'service_project')},
            **{name: str(uuid.uuid4()) for name in ('server', 'second_server', 'missing')},
            **names}

    def token(self, who: calls.Persona) -> str:
        """Return the token of a caller."""
        return f'{_USER}:{self.names[who.project]}:{who.roles}'

    def play(self, call: calls.Call) -> None:
        """Send a row and check the response.

        :raises AssertionError: if the consumer could not read the response
        """
        self.look_at(call, self._send(call))

    def look_at(self, call: calls.Call, exchange: Exchange) -> None:
        """Check that an exchange is as the row describes it."""
        where = f'{call.by or "beside"}: {call.asks}'
        wanted = self._wanted(call)
        assert wanted == exchange.asked, f'{where}\n  sent: {exchange.asked}\n  row:  {wanted}'
        assert call.answered == exchange.status, (
            f'{where}: {exchange.status} {exchange.answer}, not {call.answered}')
        if call.answered >= 400:
            self._look_at_fault(where, call, exchange)
        elif call.reads is not None:
            found = list(calls.misfits(call.reads, exchange.answer, self.names))
            assert not found, '\n  '.join((where, *found))

    def _look_at_fault(self, where: str, call: calls.Call, exchange: Exchange) -> None:
        """Check a fault, which clients read from the only object in the body."""
        (_, fault), = exchange.answer.items()
        assert fault['code'] == call.answered, f'{where}: {fault}'
        found = list(calls.misfits(call.reads or str, fault['message'], self.names))
        assert not found, '\n  '.join((where, *found))

    def _wanted(self, call: calls.Call) -> Asked:
        method, _, target = calls.filled(call.asks, self.names).partition(' ')
        path, _, query = target.partition('?')
        return Asked(method, path, _parsed(query),
                     None if call.version is None else f'volume {call.version}',
                     calls.filled(call.body, self.names))

    def _send(self, call: calls.Call) -> Exchange:
        wanted = self._wanted(call)
        project_id = self.names[call.who.project]
        url = wanted.path
        if url not in _BY_ITSELF:
            url = f'/v3/{project_id}{url}' if self._consumer.with_project else f'/v3{url}'
        if wanted.query:
            url += f'?{urllib.parse.urlencode(wanted.query)}'
        request = webob.Request.blank(url, method=wanted.method, headers=self._headers(call))
        if wanted.body is not None:
            request.body = json.dumps(wanted.body).encode()
            request.content_type = 'application/json'
        response = request.get_response(self._fixture)
        return Exchange.of(request, response, project_id)

    def _headers(self, call: calls.Call) -> dict[str, str]:
        headers = {**self._consumer.headers, 'Accept': 'application/json',
                   'X-Auth-Token': self.token(call.who)}
        if self._consumer.service_token:
            headers['X-Service-Token'] = self.token(calls.SERVICE)
        if call.version is not None:
            headers |= dict(line.format(version=call.version).split(': ')
                            for line in (self._consumer.version_headers if call.by else
                                         calls.Consumer._field_defaults['version_headers']))
        return headers


def _parsed(query: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(urllib.parse.parse_qsl(query, keep_blank_values=True)))

