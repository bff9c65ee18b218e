"""HTTP client of the Block Storage API, which can also send invalid requests."""
import json
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import requests

NEWEST = (3, 71)
"""Newest microversion that the test cases use."""
SECONDS = 120.0
Token = Callable[[], str | None]


class Answer(NamedTuple):
    """Response to a request. ``body`` is the parsed JSON, or None if there is no JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]
    text: str

    @property
    def fault(self) -> str:
        """First key of the body, under which a failure is described; empty without a key."""
        return next(iter(self.body)) if isinstance(self.body, dict) and self.body else ''

    @property
    def message(self) -> str:
        """Message of a failure; empty if there is none."""
        inner = self.body.get(self.fault) if self.fault else None
        return str(inner.get('message', '')) if isinstance(inner, dict) else ''


class Client:
    """Client of one caller. It is safe to use from several threads."""

    def __init__(self, endpoint: str, token: Token, service_token: Token | None = None) -> None:
        """
        :param endpoint: URL with the version, and with the project ID if the service requires it
        :param token: returns the token; called before each request, so that it can be renewed
        :param service_token: returns the service token; None if the caller is not a service
        """
        self.endpoint = endpoint.rstrip('/')
        self.version = '.'.join(map(str, NEWEST))
        self._token, self._service_token = token, service_token
        self._thread = threading.local()

    def with_service_token(self, service_token: Token) -> 'Client':
        """Return a client that also sends a service token."""
        return Client(self.endpoint, self._token, service_token)

    def send(self, method: str, path: str, body: Any = None, version: str | None = '',
             extension: str | None = None, **headers: str) -> Answer:
        """Send a request.

        :param path: path below the endpoint, or a complete URL
        :param body: sent as JSON; bytes are sent unchanged
        :param version: microversion; empty for the version of the client, None to send none
        :param extension: version of the blockattach extension; None to send none
        :param headers: further headers, with underscores in place of hyphens
        """
        named = [f'volume {version or self.version}'] if version is not None else []
        named += [f'blockattach {extension}'] if extension else []
        sent = {'Accept': 'application/json', 'Content-Type': 'application/json',
                'OpenStack-API-Version': ', '.join(named) or None,
                'X-Auth-Token': self._token(),
                'X-Service-Token': self._service_token() if self._service_token else None,
                **{name.replace('_', '-'): value for name, value in headers.items()}}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        reply = self._session().request(
            method, path if '://' in path else self.endpoint + path, data=data, timeout=SECONDS,
            headers={name: value for name, value in sent.items() if value is not None})
        try:
            parsed = reply.json() if reply.content else None
        except ValueError:
            parsed = None
        return Answer(reply.status_code, parsed, reply.headers, reply.text)

    def get(self, path: str, version: str | None = '', **more: str) -> Answer:
        return self.send('GET', path, None, version, **more)

    def create(self, volume_id: str, version: str = '', **fields: Any) -> Answer:
        """Create an attachment."""
        return self.send('POST', '/attachments',
                         {'attachment': {'volume_uuid': volume_id, **fields}}, version)

    def update(self, attachment_id: str, connector: Any, version: str = '') -> Answer:
        return self.send('PUT', f'/attachments/{attachment_id}',
                         {'attachment': {'connector': connector}}, version)

    def complete(self, attachment_id: str, value: Any = None, version: str = '') -> Answer:
        return self.send('POST', f'/attachments/{attachment_id}/action', {'os-complete': value},
                         version)

    def delete(self, attachment_id: str, version: str = '') -> Answer:
        return self.send('DELETE', f'/attachments/{attachment_id}', version=version)

    def show(self, attachment_id: str, version: str = '', **more: str) -> Answer:
        return self.get(f'/attachments/{attachment_id}', version, **more)

    def act(self, volume_id: str, action: str, value: Any = None) -> Answer:
        return self.send('POST', f'/volumes/{volume_id}/action', {action: value})

    def _session(self) -> requests.Session:
        """Return the session of this thread. Sessions of requests are not thread-safe."""
        found: requests.Session | None = getattr(self._thread, 'session', None)
        if found is None:
            found = self._thread.session = requests.Session()
        return found
