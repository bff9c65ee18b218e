"""The HTTP server of one process: the embedded default, and where no other is chosen.

One thread reads until a request is whole (`loop`), llhttp says what it is (`incoming`), and a
bounded number of threads answer, first come, first served (`pool`).
"""
import contextlib
import logging
import math
import resource
import socket
import threading
from collections.abc import Container
from typing import NamedTuple

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.http import queueing
from blockattach.platform.log import fields
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import readings
from blockattach.platform.webserver import gateway
from blockattach.platform.webserver import incoming
from blockattach.platform.webserver import loop
from blockattach.platform.webserver import pool
from blockattach.platform.webserver import tls

LOG = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 60
_BACKLOG = 4096
_OTHER_FILES = 512
"""Besides connections of clients: of the database, the broker, what is loaded."""
_FEWEST_CONNECTIONS = 64
_QUEUE = 'http'
"""The name of the queue of requests that wait for a thread."""
_ASIDE = 4
"""Threads for what waits in no line: health, and refusals."""
_MOST_BODY_BYTES = 114688
_MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Maximum size of all unanswered requests, whose senders are not authenticated yet."""
_FEWEST_KEPT = 4
"""Number of requests of maximum size that always fit."""


class _Work(NamedTuple):
    connection: loop.Connection
    request: incoming.Request
    refused: errors.BlockattachError | None = None


class Server:
    """Serves one WSGI application on one address, which is taken before there is one: requests
    wait.

    :ivar application: may be set until `start`
    :ivar port: that is listened on
    :ivar secured: what makes it speak HTTPS
    :ivar telemetry: where refused requests are counted, if anywhere
    :ivar url: where clients find it
    :ivar hub: takes connections over whose answers have no end, if anything does; may be set until
        `start`, and starts and stops with the server
    """

    def __init__(self, application: gateway.Application | None, host: str, port: int,
                 queue: api_conf.QueueSettings | None = None,
                 max_body_size: int = _MOST_BODY_BYTES,
                 shutdown_seconds: int = _SHUTDOWN_SECONDS,
                 secured: tls.Certificate | None = None,
                 at_once: Container[str] = (), most_streams: int = 0,
                 most_kept: int = _MOST_KEPT_BYTES,
                 clock: clocks.Clock | None = None) -> None:
        """
        :param queue: how many threads answer, what may wait for one, and how long a client may
            take to send
        :param shutdown_seconds: how long requests may go on when it stops; 0: any time
        :param at_once: paths that are answered even if all threads are busy
        :param most_streams: how many connections the hub may have
        :param most_kept: maximum size in bytes of all incomplete or unanswered requests
        :raises ConfigurationError: the address is taken, or not ours
        """
        self.application = application
        self.secured = secured
        self.telemetry: acts.Telemetry | None = None
        self.hub: gateway.Hub | None = None
        self._settings = queue or api_conf.QueueSettings()
        self._shutdown_seconds = shutdown_seconds or threading.TIMEOUT_MAX
        self._at_once = at_once
        self._clock = clock or clocks.Clock()
        most = max(self._settings.threads + self._settings.size, _FEWEST_CONNECTIONS)
        self._pool = pool.Pool('http', self._settings.threads, self._settings.size, self._answer)
        # Room for all connections: what it does not take is never answered.
        self._aside = pool.Pool('http-aside', _ASIDE, most, self._answer)
        files = _allow_files(most + most_streams + _OTHER_FILES) - most_streams
        listening = _listen(host, port)
        self.port = listening.getsockname()[1]
        scheme, shown = 'https' if secured else 'http', f'[{host}]' if ':' in host else host
        self.url = f'{scheme}://{shown}:{self.port}'
        self._environ = gateway.always(host, self.port, scheme)
        self._loop = loop.Loop(
            listening, self._take, self._refuse_late, secured=secured, clock=self._clock,
            most=max(min(most, files - _OTHER_FILES), _FEWEST_CONNECTIONS),
            most_body=max_body_size, settings=self._settings,
            most_kept=max(most_kept, _FEWEST_KEPT * (max_body_size + incoming.MOST_HEADER_BYTES)))
        self._thread = threading.Thread(target=self._loop.run, name='http', daemon=True)

    def use(self) -> readings.ThreadUse:
        """How the threads that answer are used."""
        return self._pool.use()

    def start(self) -> None:
        """Answer requests, in threads of its own."""
        if self.hub is not None:
            self.hub.start()
        self._thread.start()
        LOG.info('API started%s', fields(url=self.url))

    def stop(self) -> None:
        """Let requests that run end, and take no more. A repeat does nothing."""
        made = self._loop
        if made.ending:
            return
        made.end()
        if self.hub is not None:
            self.hub.stop()
        if self._thread.ident is None:
            made.close_listening()
            return
        self._thread.join(self._shutdown_seconds)
        # What has not been begun by now never is.
        for work in self._pool.late(math.inf):
            made.close(work.connection)
        self._pool.end()
        self._aside.end()
        made.cut_off()
        LOG.info('API stopped%s', fields(url=self.url))

    def _take(self, connection: loop.Connection) -> None:
        """A request is whole."""
        request = connection.incoming.whole.popleft()
        assert isinstance(request, incoming.Request)
        if request.path.decode('latin-1') in self._at_once:
            self._aside.put(_Work(connection, request), math.inf)
            return
        until = self._clock.monotonic() + self._settings.timeout
        if not self._pool.put(_Work(connection, request), until):
            self._refuse(_Work(connection, request), errors.QueueFull())

    def _refuse_late(self) -> None:
        for work in self._pool.late(self._clock.monotonic()):
            self._refuse(work, errors.QueueTimeout())

    def _refuse(self, work: _Work, error: errors.BlockattachError) -> None:
        """Answered by the application, with the API's error."""
        if self.telemetry is not None:
            self.telemetry.queue_refused(_QUEUE, error.code)
        self._aside.put(work._replace(refused=error), math.inf)

    def _answer(self, work: _Work) -> None:
        assert self.application is not None
        connection, request, refused = work
        address = connection.address
        environ = {**self._environ, **gateway.environ(request), 'REMOTE_ADDR': address[0],
                   'REMOTE_PORT': str(address[1]), queueing.SOCKET: connection.socket}
        if refused is not None:
            environ[queueing.REFUSED] = refused
        # Where it stops, the client need not find out by trying.
        request.closes = request.closes or self._loop.ending
        if self.hub is not None:
            self.hub.offer(environ)
        data = gateway.answer(self.application, environ, request, self._clock.utcnow())
        watch = gateway.taken(environ)
        if self.hub is not None and watch is not None:
            self._loop.release(connection)
            self.hub.take(connection, data, watch)
        else:
            self._loop.answered(connection, data, request)


def _listen(host: str, port: int) -> socket.socket:
    """On the first address that the name has.

    :raises ConfigurationError: it is taken, or not ours
    """
    with contextlib.ExitStack() as failing:
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            made = failing.enter_context(socket.socket(family, kind, proto))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # What is accepted inherits it: an answer is sent in one piece.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address[0] == '::':
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            made.setblocking(False)
            made.bind(address)
            made.listen(_BACKLOG)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot listen on {host}:{port}: {exc.strerror or exc}') from exc
        failing.pop_all()
        return made


def _allow_files(number: int) -> int:
    """Let this process have so many files open, as far as the system allows it: each connection
    is one. How many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return number
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
