"""API client with little overhead, so that the benchmark measures the service and not the client.

The client speaks HTTP/1.1 over one socket. It reads the status and the body of a response, and
only those headers that it needs for them.
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
"""Latest microversion that the peer and all known consumers support."""


class Unexpected(Exception):
    """Raised if the service responds with an unexpected status, or not at all.

    :ivar status: status of the response; 0 if there is none
    """

    def __init__(self, step: str, status: int, text: str) -> None:
        super().__init__(f'{step}: {status} {text[:200]}' if status else f'{step}: {text[:200]}')
        self.step = step
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """Block Storage v3 endpoint as one project uses it.

    :param url: URL with the version and the project
    :param token: token of the project; None to send the form that a service without authentication
        accepts
    :param kept: True to reuse a connection, as sessions do; False to open one for each request
    """

    url: str
    token: str | None = None
    kept: bool = False

    @property
    def project(self) -> str:
        """Project in the URL."""
        return self.url.rstrip('/').rpartition('/')[2]

    def of_project(self, project: str) -> 'Endpoint':
        """Return the endpoint of another project."""
        base = self.url.rstrip('/').rpartition('/')[0]
        return dataclasses.replace(self, url=f'{base}/{project}')


class Client:
    """Client that has at most one connection to an endpoint."""

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
            # A service without authentication recognizes a service request by these headers.
            'X-Roles': 'admin', 'X-Service-Roles': 'service',
            'Connection': 'keep-alive' if self._kept else 'close'}
        self._head = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())

    def ask(self, step: str, method: str, path: str, body: Any = None,
            also: tuple[int, ...] = ()) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of the response.

        :param step: name of the request in errors
        :param also: statuses that are accepted besides success
        :raises Unexpected: another status, or no response
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
        """Send a request, and return the decoded body of the response."""
        return json.loads(self.ask(step, method, path, body)[1] or b'null')

    def close(self) -> None:
        """Close the connection."""
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
            # A readable idle socket means that the server has closed the connection.
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
        """Read at least a number of bytes. Bytes after them are returned as well."""
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
