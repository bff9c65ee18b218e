"""A threaded HTTP server for one process: the embedded default, and where no other is chosen.

Where a request ends is never left to guess: behind a proxy that guesses otherwise, the rest of one
client's request would be taken for the next request of another one (RFC 9112, 6.3 and 11.2).
"""
import threading
from collections.abc import Callable
from typing import Any

from cheroot import errors as cheroot_errors
from cheroot import server as cheroot
from cheroot import wsgi

from blockattach import errors

_THREADS = 16
_SHUTDOWN_SECONDS = 10
_BACKLOG = 128
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


class _Connection(cheroot.HTTPConnection):
    RequestHandlerClass = _Request


class Server:
    """Serves one WSGI application on one address."""

    def __init__(self, application: Callable[..., Any], host: str, port: int,
                 threads: int = _THREADS, max_body_size: int = _MOST_BODY_BYTES) -> None:
        self._server = wsgi.Server((host, port), application, numthreads=threads,
                                   request_queue_size=_BACKLOG,
                                   shutdown_timeout=_SHUTDOWN_SECONDS)
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
        try:
            self._server.prepare()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot listen on {self._address}: {exc.strerror or exc}') from exc

    def start(self) -> None:
        """Answer requests, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Let requests that run end, and take no more."""
        self._server.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _serve(self) -> None:
        try:
            self._server.serve()
        except (KeyboardInterrupt, SystemExit, cheroot_errors.FatalSSLAlert):
            self._server.stop()
