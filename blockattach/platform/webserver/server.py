"""Built-in HTTP server of a process, used unless an external WSGI server runs the application.

A single thread reads requests until they are complete (`loop`). llhttp parses them (`incoming`). A
bounded number of threads processes the requests in the order of their arrival (`Pool`).
"""
import collections
import contextlib
import logging
import math
import resource
import socket
import threading
from collections.abc import Callable
from collections.abc import Container
from typing import Generic
from typing import NamedTuple
from typing import TypeVar

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
from blockattach.platform.webserver import tls

LOG = logging.getLogger(__name__)

Work = TypeVar('Work')
_SHUTDOWN_SECONDS = 60
_BACKLOG = 4096
_OTHER_FILES = 512
"""Open files besides client connections, such as those to the database and the broker."""
_FEWEST_CONNECTIONS = 64
_QUEUE = 'http'
"""Name of the queue of requests that wait for a thread."""
_ASIDE = 4
"""Number of threads for requests that are not queued: health checks and rejected requests."""
_MOST_BODY_BYTES = 114688
_MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Maximum size in bytes of all incomplete or unanswered requests.

The limit is needed because requests are kept before their senders are authenticated.
"""
_FEWEST_KEPT = 4
"""Number of requests of maximum size that always fit."""


class Pool(Generic[Work]):
    """Thread pool with a bounded FIFO queue. A queued request occupies no thread.

    Threads are started on demand, and kept until `end`.
    """

    def __init__(self, name: str, threads: int, size: int, do: Callable[[Work], None]) -> None:
        """
        :param name: prefix of the names of threads, which is followed by a number
        :param threads: maximum number of threads
        :param size: maximum number of pieces of work that wait for a thread
        :param do: function that is called with each piece of work
        """
        self._name = name
        self._most = threads
        self._size = size
        self._do = do
        self._changed = threading.Condition(threading.Lock())
        self._threads = 0
        self._idle = 0
        # Includes work that was assigned to an idle thread but not taken yet.
        self._waiting: collections.deque[tuple[float, Work]] = collections.deque()
        self._ending = False

    def put(self, work: Work, until: float) -> bool:
        """Add a piece of work. Return False if the queue is full.

        :param until: deadline after which `late` removes the work if it was not started. It must
            not be earlier than the deadlines of previous calls
        """
        with self._changed:
            # An idle thread may have been notified but not have taken its work yet. A thread is
            # free only if there are more idle threads than queued pieces of work.
            free = len(self._waiting) < self._idle or self._begin_one()
            if not free and len(self._waiting) - self._idle >= self._size:
                return False
            self._waiting.append((until, work))
            self._changed.notify()
            return True

    def late(self, now: float) -> list[Work]:
        """Remove and return the pieces of work whose deadlines have passed."""
        removed = []
        with self._changed:
            while (len(self._waiting) > self._idle and self._waiting[0][0] <= now):
                removed.append(self._waiting.popleft()[1])
        return removed

    def use(self) -> readings.ThreadUse:
        """Return the current use of the threads and of the queue."""
        with self._changed:
            taken = min(len(self._waiting), self._idle)
            return readings.ThreadUse(self._most, self._threads - self._idle + taken,
                                      len(self._waiting) - taken)

    def end(self) -> None:
        """Stop the threads when the queue is empty."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def _begin_one(self) -> bool:
        """Start a thread. Return False if this fails. The caller holds the lock.
        """
        if self._threads >= self._most:
            return False
        thread = threading.Thread(target=self._run, daemon=True,
                                  name=f'{self._name}-{self._threads}')
        try:
            thread.start()
        except RuntimeError as exc:
            LOG.warning('Failed to start thread%s', fields(reason=exc))
            return False
        self._threads += 1
        # The new thread counts as idle until it takes its work.
        self._idle += 1
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._ending:
                        return
                    self._changed.wait()
                self._idle -= 1
                work = self._waiting.popleft()[1]
            try:
                self._do(work)
            except Exception:
                # The thread continues after any error, because no other thread replaces it.
                LOG.exception('Failed to serve connection')
            # An idle thread must not keep the memory of the work.
            del work
            with self._changed:
                self._idle += 1


class _Work(NamedTuple):
    connection: loop.Connection
    request: incoming.Request
    refused: errors.BlockattachError | None = None


class Server:
    """HTTP server of a WSGI application on an address.

    The server listens from its creation. Requests wait until `start` is called.

    :ivar application: WSGI application, which must be set before `start`
    :ivar port: port on which the server listens
    :ivar secured: certificate for HTTPS; None for HTTP
    :ivar telemetry: telemetry that counts rejected requests; None not to count them
    :ivar url: URL of the server
    :ivar hub: hub that takes over connections with endless responses, or None. It may be set until
        `start`, and is started and stopped with the server
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
        :param queue: number of threads, size of the queue, and timeouts of clients; None for the
            defaults
        :param max_body_size: size in bytes of the largest body that the application accepts
        :param shutdown_seconds: time in seconds for running requests to complete at a stop; 0 for
            no limit
        :param at_once: paths that are served even if all threads are busy
        :param most_streams: maximum number of connections of the hub
        :param most_kept: maximum size in bytes of all incomplete or unanswered requests
        :raises ConfigurationError: the address is in use, or does not belong to this host
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
        self._pool = Pool('http', self._settings.threads, self._settings.size, self._answer)
        # This queue has room for all connections, because a request that is not queued here would
        # never be answered.
        self._aside = Pool('http-aside', _ASIDE, most, self._answer)
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
        return self._pool.use()

    def start(self) -> None:
        """Start serving requests in other threads."""
        if self.hub is not None:
            self.hub.start()
        self._thread.start()
        LOG.info('API started%s', fields(url=self.url))

    def stop(self) -> None:
        """Stop accepting requests, and wait for running requests.

        Requests that are not completed in time are cut off. A repeated call does nothing.
        """
        connections = self._loop
        if connections.ending:
            return
        connections.end()
        if self.hub is not None:
            self.hub.stop()
        if self._thread.ident is None:
            connections.close_listening()
            return
        self._thread.join(self._shutdown_seconds)
        # Requests that are still queued after the shutdown time are never started.
        for work in self._pool.late(math.inf):
            connections.close(work.connection)
        self._pool.end()
        self._aside.end()
        connections.cut_off()
        LOG.info('API stopped%s', fields(url=self.url))

    def _take(self, connection: loop.Connection) -> None:
        request = connection.incoming.whole.popleft()
        assert isinstance(request, incoming.Request)
        # Health checks must not fail because all threads are busy.
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
        if self.telemetry is not None:
            self.telemetry.queue_refused(_QUEUE, error.code)
        # The application builds the response, in the form of the API.
        self._aside.put(work._replace(refused=error), math.inf)

    def _answer(self, work: _Work) -> None:
        assert self.application is not None
        connection, request, refused = work
        address = connection.address
        environ = {**self._environ, **gateway.environ(request), 'REMOTE_ADDR': address[0],
                   'REMOTE_PORT': str(address[1]), queueing.SOCKET: connection.socket}
        if refused is not None:
            environ[queueing.REFUSED] = refused
        # While the server stops, responses tell clients that the connection is closed, so that
        # they do not send a request that fails.
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
    """Listen on the first address of a host.

    :raises ConfigurationError: the address is in use, or does not belong to this host
    """
    with contextlib.ExitStack() as failing:
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            listening = failing.enter_context(socket.socket(family, kind, proto))
            # A restarted process must not wait for old connections in TIME_WAIT.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted connections inherit the option. A response is sent in one piece, so Nagle's
            # algorithm would only delay it.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address[0] == '::':
                # The default of net.ipv6.bindv6only may exclude IPv4 clients.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot listen on {host}:{port}: {exc.strerror or exc}') from exc
        failing.pop_all()
        return listening


def _allow_files(number: int) -> int:
    """Raise the limit of open files of this process.

    :param number: required number of open files
    :returns: allowed number of open files, which may be lower
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        # Each connection is an open file. The default soft limit of 1024 is low, because of
        # select().
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
