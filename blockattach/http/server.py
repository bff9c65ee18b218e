"""A threaded HTTP server for one process: the embedded default, and where no other is chosen.

Where a request ends is never left to guess: behind a proxy that guesses otherwise, the rest of one
client's request would be taken for the next request of another one (RFC 9112, 6.3 and 11.2).
"""
import contextlib
import resource
import socket
import ssl
import threading
from collections.abc import Callable
from collections.abc import Container
from typing import Any

from cheroot import connections
from cheroot import errors as cheroot_errors
from cheroot import server as cheroot
from cheroot import wsgi

from blockattach import clock as clocks
from blockattach import errors
from blockattach.conf import api as api_conf
from blockattach.http import arrival
from blockattach.http import pool
from blockattach.http import tls
from blockattach.telemetry import acts
from blockattach.telemetry import readings

_SHUTDOWN_SECONDS = 60
_BACKLOG = 4096
_OTHER_FILES = 512
"""Besides connections of clients: of the database, the broker, what is loaded."""
_QUEUE = 'http'
"""The name of the line of those for whom there is no thread."""
_MOST_HEADER_BYTES = 65536
_MOST_BODY_BYTES = 114688
# A body that is somewhat too large is refused by the application, in the words of the API.
_MORE_BODY_BYTES = 1048576
_LENGTH = b'Content-Length'
_VERSION = b'Openstack-Api-Version'
_BAD_LENGTH = 'Malformed Content-Length Header.'
_BAD_LINE = 'Illegal header line.'


class _Headers(dict[bytes, bytes]):
    """Has one length, or none; the list of versions may come in several lines."""

    def __setitem__(self, name: bytes, value: bytes) -> None:
        if name == _LENGTH and self.get(name, value) != value:
            raise ValueError(_BAD_LENGTH)
        if name == _VERSION and name in self:
            value = b', '.join((self[name], value))
        super().__setitem__(name, value)


class _HeaderReader(cheroot.HeaderReader):
    """A blank around a name could hide a header from a proxy. So could ``_`` in place of ``-``: an
    application is told of both under one name."""

    def __call__(self, rfile: Any, hdict: Any = None) -> Any:
        """Fill ``hdict``; ValueError where a line is malformed."""
        try:
            return super().__call__(rfile, hdict)
        except UnboundLocalError:
            # The first line is a continuation: of nothing.
            raise ValueError(_BAD_LINE) from None

    def _transform_key(self, name: bytes) -> bytes:
        if name != name.strip():
            raise ValueError(_BAD_LINE)
        return name.title()

    def _allow_header(self, name: bytes) -> bool:
        return b'_' not in name


class _Request(cheroot.HTTPRequest):
    """One request whose end is certain; behind a body in pieces the connection ends too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.inheaders = _Headers()
        self.header_reader = _HeaderReader()

    def parse_request(self) -> None:
        """Read it, unless it was."""
        if not self.ready:
            super().parse_request()

    def respond(self) -> None:
        """Answer it, unless it is only to be read for now."""
        if not self.conn.put_off(self):
            super().respond()

    def read_request_headers(self) -> bool:
        """Whether the request can be served; if not, it has been answered."""
        if not super().read_request_headers():
            return False
        length = self.inheaders.get(_LENGTH)
        if self.chunked_read:
            self.close_connection = True
        if length is None or (length.isdigit() and not self.chunked_read):
            return True
        self.simple_response('400 Bad Request', _BAD_LENGTH)
        return False


class _Gateway(wsgi.Gateway_10):
    """Also tells the application how the request came."""

    def get_environ(self) -> Any:
        """What the application is told."""
        environ = super().get_environ()
        connection = self.req.conn
        environ[arrival.SOCKET] = connection.socket
        refused, connection.refused = connection.refused, None
        if refused is not None:
            # The next request on the same connection is another one.
            environ[arrival.REFUSED] = refused
        return environ


class _Connection(cheroot.HTTPConnection):
    """See `pool.Connection`."""

    refused: errors.BlockattachError | None = None
    _agreed = False
    _only_read = False
    _received: _Request | None = None

    def RequestHandlerClass(self, server: cheroot.HTTPServer,  # noqa: N802 - cheroot's
                            connection: '_Connection') -> _Request:
        """What was received and not answered, else what comes now."""
        received, self._received = self._received, None
        return received or _Request(server, connection)

    def receive(self) -> bool:
        """Read what is asked; health is answered. Whether it is still to be answered."""
        self._only_read = True
        try:
            self.communicate()
        finally:
            self._only_read = False
        return self._received is not None

    def put_off(self, request: _Request) -> bool:
        """Whether a request that was read is kept until its turn."""
        if not self._only_read:
            return False
        if request.path.decode('latin-1') in self.server.at_once:
            # What may follow on the connection would not be answered at once.
            request.close_connection = True
            return False
        self._received = request
        return True

    def refuse(self, error: errors.BlockattachError) -> None:
        """Let what was received be answered with this."""
        self.refused = error

    def cut_off(self) -> None:
        """Nothing more comes or goes: whoever reads or writes ends."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def communicate(self) -> bool:
        """Serve what has come; whether more may follow."""
        if not self._agreed and isinstance(self.socket, ssl.SSLSocket):
            if not tls.shake_hands(self.socket):
                return False
            self._agreed = True
        return bool(super().communicate())


class _Connections(connections.ConnectionManager):
    """A new connection is given to a thread when something has come on it: whoever connects and
    keeps silent holds nobody up."""

    def _from_server_socket(self, server_socket: Any) -> None:
        made = super()._from_server_socket(server_socket)  # type: ignore[misc]
        if made is not None:
            self.put(made)


class _HttpServer(wsgi.Server):
    at_once: Container[str] = ()
    """Paths that are answered even if everything else waits."""

    def prepare(self) -> None:
        """As cheroot's, with our own connections."""
        super().prepare()
        self._connections.close()
        self._connections: connections.ConnectionManager = _Connections(self)


class Server:
    """Serves one WSGI application on one address."""

    def __init__(self, application: Callable[..., Any], host: str, port: int,
                 queue: api_conf.QueueSettings | None = None,
                 max_body_size: int = _MOST_BODY_BYTES,
                 shutdown_seconds: int = _SHUTDOWN_SECONDS,
                 secured: tls.Adapter | None = None,
                 at_once: Container[str] = (),
                 clock: clocks.Clock | None = None) -> None:
        """
        :param queue: how many threads answer, and what may wait for one
        :param shutdown_seconds: how long requests may go on when it stops; 0: any time
        :param secured: what makes it speak HTTPS
        :param at_once: paths that are answered even if all threads are busy
        """
        settings = queue or api_conf.QueueSettings()
        self._telemetry: acts.Telemetry | None = None
        self._server = _HttpServer((host, port), application, request_queue_size=_BACKLOG,
                                   shutdown_timeout=shutdown_seconds or int(threading.TIMEOUT_MAX))
        self._pool = pool.Pool(self._server.put_conn, settings.threads, settings.size,
                               settings.timeout, clock or clocks.Clock(), self._count)
        self._server.requests = self._pool
        self._server.gateway = _Gateway
        self._server.at_once = at_once
        self._most_files = settings.threads + settings.size + _OTHER_FILES
        self._server.ssl_adapter = secured
        # The version of the server is nobody's business.
        self._server.server_name = 'blockattach'
        self._server.ConnectionClass = _Connection
        # Read before anybody can be asked who sends it.
        self._server.max_request_header_size = _MOST_HEADER_BYTES
        self._server.max_request_body_size = max_body_size + _MORE_BODY_BYTES
        self._thread = threading.Thread(target=self._serve, name='http', daemon=True)
        self._address = f'{host}:{port}'

    @property
    def port(self) -> int:
        """The port that is listened on; known once `bind` has returned."""
        return int(self._server.bind_addr[1])

    def bind(self) -> None:
        """Take the address; requests wait from now on.

        :raises ConfigurationError: it is taken, or not ours
        """
        _allow_files(self._most_files)
        try:
            self._server.prepare()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot listen on {self._address}: {exc.strerror or exc}') from exc

    def use(self) -> readings.ThreadUse:
        """How the threads that answer are used."""
        return readings.ThreadUse(*self._pool.use())

    def tell(self, telemetry: acts.Telemetry) -> None:
        """Tell of those who were refused."""
        self._telemetry = telemetry

    def start(self) -> None:
        """Answer requests, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Let requests that run end, and take no more."""
        self._server.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _count(self, code: str) -> None:
        if self._telemetry is not None:
            self._telemetry.queue_refused(_QUEUE, code)

    def _serve(self) -> None:
        try:
            self._server.serve()
        except (KeyboardInterrupt, SystemExit, cheroot_errors.FatalSSLAlert):
            self._server.stop()


def _allow_files(number: int) -> None:
    """Let this process have so many files open, as far as the system allows it: each connection
    that waits is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
