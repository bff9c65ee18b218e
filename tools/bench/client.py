"""A client of the API that costs little, so that what is measured is the service.

HTTP/1.1 by hand over one socket: the answer's status and body, nothing else is read.
"""
import dataclasses
import json
import select
import socket
import urllib.parse
from typing import Any

_TIMEOUT_SECONDS = 120
_CHUNK = 65536
_SUCCESS = range(200, 300)
MICROVERSION = '3.60'
"""The last one that the peer and all known consumers speak."""


class Unexpected(Exception):
    """The service answered otherwise than it must. ``status`` is 0 where it did not answer."""

    def __init__(self, step: str, status: int, text: str) -> None:
        super().__init__(f'{step}: {status} {text[:200]}' if status else f'{step}: {text[:200]}')
        self.step = step
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """A Block Storage v3 service as one project sees it.

    :param url: with the version and the project
    :param token: None: the form that a service without authentication reads
    :param kept: whether a connection is used again, as sessions do, or each request opens one
    """

    url: str
    token: str | None = None
    kept: bool = False

    @property
    def project(self) -> str:
        """The project in the URL."""
        return self.url.rstrip('/').rpartition('/')[2]

    def of_project(self, project: str) -> 'Endpoint':
        """The same service as another project sees it."""
        base = self.url.rstrip('/').rpartition('/')[0]
        return dataclasses.replace(self, url=f'{base}/{project}')


class Client:
    """One connection at a time to an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        parts = urllib.parse.urlsplit(endpoint.url.rstrip('/'))
        self._address = parts.hostname or '', parts.port or 80
        self._prefix = parts.path
        self._kept = endpoint.kept
        self._socket: socket.socket | None = None
        headers = {
            'Host': parts.netloc, 'Accept': 'application/json',
            'OpenStack-API-Version': f'volume {MICROVERSION}',
            'X-Auth-Token': endpoint.token or f'admin:{endpoint.project}',
            # A service without authentication sees a service request by these, as Nova sends.
            'X-Roles': 'admin', 'X-Service-Roles': 'service',
            'Connection': 'keep-alive' if self._kept else 'close'}
        self._head = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())

    def ask(self, step: str, method: str, path: str, body: Any = None,
            also: tuple[int, ...] = ()) -> tuple[int, bytes]:
        """One request.

        :param step: what it is called where it fails
        :param also: statuses that are as good as success
        :raises Unexpected: another status, or no answer
        """
        data = b'' if body is None else json.dumps(body).encode()
        kind = 'Content-Type: application/json\r\n' if data else ''
        request = (f'{method} {self._prefix}{path} HTTP/1.1\r\n{self._head}{kind}'
                   f'Content-Length: {len(data)}\r\n\r\n').encode() + data
        try:
            status, answer = self._exchange(request)
        except (OSError, ValueError) as exc:
            self.close()
            raise Unexpected(step, 0, f'{type(exc).__name__}: {exc}') from exc
        if status not in _SUCCESS and status not in also:
            raise Unexpected(step, status, answer.decode(errors='replace'))
        return status, answer

    def json(self, step: str, method: str, path: str, body: Any = None) -> Any:
        """The answer, read."""
        return json.loads(self.ask(step, method, path, body)[1] or b'null')

    def close(self) -> None:
        """Give the connection back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, request: bytes) -> tuple[int, bytes]:
        connection = self._connected()
        connection.sendall(request)
        head, _, rest = self._until(connection, b'', b'\r\n\r\n').partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        status = int(lines[0].split(' ', 2)[1])
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in
                   (line.partition(':') for line in lines[1:])}
        if status == 204 or headers.get('content-length') == '0':
            body = b''
        elif 'content-length' in headers:
            body = self._exactly(connection, rest, int(headers['content-length']))
        elif headers.get('transfer-encoding') == 'chunked':
            body = self._chunks(connection, rest)
        else:
            body = self._rest(connection, rest)
            self.close()
        if not self._kept or headers.get('connection') == 'close':
            self.close()
        return status, body

    def _connected(self) -> socket.socket:
        if self._socket is not None and select.select([self._socket], [], [], 0)[0]:
            # The other side has closed it meanwhile.
            self.close()
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _chunks(self, connection: socket.socket, rest: bytes) -> bytes:
        parts = []
        while True:
            size, _, rest = self._until(connection, rest, b'\r\n').partition(b'\r\n')
            length = int(size, 16)
            rest = self._exactly(connection, rest, length + 2)
            parts.append(rest[:length])
            rest = rest[length + 2:]
            if not length:
                return b''.join(parts)

    @staticmethod
    def _until(connection: socket.socket, begun: bytes, end: bytes) -> bytes:
        while end not in begun:
            more = connection.recv(_CHUNK)
            if not more:
                raise ValueError('the connection was closed')
            begun += more
        return begun

    @staticmethod
    def _exactly(connection: socket.socket, begun: bytes, length: int) -> bytes:
        """At least so many bytes; what follows a chunk is kept."""
        parts, have = [begun], len(begun)
        while have < length:
            more = connection.recv(_CHUNK)
            if not more:
                raise ValueError('the connection was closed')
            parts.append(more)
            have += len(more)
        return b''.join(parts)

    @staticmethod
    def _rest(connection: socket.socket, begun: bytes) -> bytes:
        parts = [begun]
        while more := connection.recv(_CHUNK):
            parts.append(more)
        return b''.join(parts)
