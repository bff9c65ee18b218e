"""Built-in HTTP server with clients that send or read slowly.

Time passes only when a test advances the clock.
"""
import contextlib
import http.client
import select
import socket
import threading
import unittest

from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.http import queueing
from blockattach.platform.webserver import server
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT
HEADER_SECONDS = 10
BODY_SECONDS = 30
QUEUE_SECONDS = 60
THREADS = 2
WAITING = 300
CROWD = 20
HALF = b'GET /half HTTP/1.1\r\nHost: x\r\nX-A: '
HEADER = b'POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n'
LARGE = b'x' * 20000000


class Case(unittest.TestCase):
    """Server with two threads, which requests for /held occupy until the test ends them."""

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.go_on = threading.Event()
        self.begun = []
        self.server = server.Server(
            self.application, '127.0.0.1', 0,
            api_conf.QueueSettings(work_places=1, threads=THREADS, size=WAITING,
                                   timeout=QUEUE_SECONDS, header_timeout=HEADER_SECONDS,
                                   body_timeout=BODY_SECONDS),
            at_once=('/health',), clock=self.clock)
        self.server.start()
        self.addCleanup(self.server.stop)
        self.addCleanup(self.go_on.set)

    def application(self, environ, start_response):
        path = environ['PATH_INFO']
        refused = environ.get(queueing.REFUSED)
        if refused is None:
            self.begun.append(path)
            if path == '/held':
                self.go_on.wait(2 * SECONDS)
        start_response('200 OK' if refused is None else f'503 {refused.code}', [])
        return [LARGE if path == '/large' else b'ok']

    def connect(self, sent=b''):
        made = socket.create_connection(('127.0.0.1', self.server.port), SECONDS)
        self.addCleanup(made.close)
        made.sendall(sent)
        return made

    def ask(self, path):
        """Return a client that has sent a request and not read the answer."""
        client = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=SECONDS)
        self.addCleanup(client.close)
        client.request('GET', path)
        return client

    def status(self, client):
        answer = client.getresponse()
        answer.read()
        return answer.status

    def hold_all(self):
        """Occupy all threads and return the clients."""
        holding = [self.ask('/held') for _ in range(THREADS)]
        polling.until(lambda: self.server.use().busy == THREADS)
        return holding

    def until_closed(self, client):
        parts = []
        while part := client.recv(65536):
            parts.append(part)
        return b''.join(parts)

    def until_something_comes(self, client):
        """Advance the clock until the server sends something.

        The server may have started to count only a moment ago.
        """
        coming = select.poll()
        coming.register(client, select.POLLIN)
        polling.until(lambda: self.clock.advance(1) or coming.poll(0))

    def until_cut(self, client, sent):
        """Send a byte each second until the server answers; return the second and the answer."""
        for second in range(SECONDS):
            client.setblocking(False)
            try:
                answer = client.recv(65536)
            except BlockingIOError:
                pass
            else:
                client.setblocking(True)
                return second, answer + self.until_closed(client)
            client.setblocking(True)
            client.sendall(sent)
            self.clock.advance(1)
            # What the server has made of this second, an honest client sees.
            self.assertEqual(200, self.status(self.ask('/a')))
        raise AssertionError('never cut')


class DeadlineTest(Case):
    """Timeouts of clients that send steadily but slowly."""

    def assert_cut(self, sent, limit, first):
        client = self.connect(first)
        second, answer = self.until_cut(client, sent)
        self.assertTrue(answer.startswith(b'HTTP/1.1 408 '), answer)
        self.assertGreaterEqual(second, limit)
        self.assertEqual({'/a'}, set(self.begun))

    def test_slow_header_times_out(self):
        self.assert_cut(b'a', HEADER_SECONDS, HALF)

    def test_slow_body_times_out(self):
        self.assert_cut(b'a', BODY_SECONDS, HEADER)

    def test_slow_chunked_body_times_out(self):
        self.assert_cut(b'1\r\na\r\n', BODY_SECONDS,
                        b'POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')

    def test_body_timeout_starts_after_header(self):
        client = self.connect(HALF)
        self.clock.advance(HEADER_SECONDS - 1)
        client.sendall(b'\r\nContent-Length: 2\r\n\r\na')
        self.assertEqual(200, self.status(self.ask('/a')))
        self.clock.advance(BODY_SECONDS - 1)
        self.assertEqual(200, self.status(self.ask('/a')))
        client.sendall(b'a')
        self.assertIn(b' 200 OK', client.recv(65536))

    def test_header_timeout_starts_anew_for_next_request(self):
        client = self.connect(b'GET /a HTTP/1.1\r\nHost: x\r\n\r\n')
        for _ in range(3):
            self.assertIn(b' 200 OK', client.recv(65536))
            self.clock.advance(HEADER_SECONDS - 1)
            client.sendall(b'GET /a HTTP/1.1\r\nHost: x\r\n\r\n')
        self.assertIn(b' 200 OK', client.recv(65536))
        # And a silence ends without a word.
        self.until_something_comes(client)
        self.assertEqual(b'', client.recv(65536))

    def test_slow_reader_disconnected(self):
        client = self.connect(b'GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
        # As much is sent as the sockets take: nothing is read, so that time passes before the end.
        polling.until(lambda: self.begun and self.server.use().busy == 0)
        self.clock.advance(3600)
        # Once this is answered, what is late has been closed.
        self.assertEqual(200, self.status(self.ask('/a')))
        try:
            answer = self.until_closed(client)
        except ConnectionError:
            return
        self.assertLess(len(answer), len(LARGE))


class CrowdTest(Case):
    """Slow clients that outnumber the threads."""

    def crowd(self, sent):
        return [self.connect(sent) for _ in range(CROWD)]

    def assert_served(self):
        for path in ('/health', '/a'):
            self.assertEqual(200, self.status(self.ask(path)))
        self.assertEqual(0, self.server.use().waiting)

    def test_slow_senders_delay_no_other_client(self):
        for sent in (b'', b'G', HALF, HEADER, HEADER + b'abc'):
            with self.subTest(sent=sent):
                self.crowd(sent)
                self.assert_served()

    def test_slow_readers_delay_no_other_client(self):
        for count in range(2 * THREADS):
            self.connect(b'GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
            polling.until(lambda count=count: self.begun.count('/large') == count + 1)
        self.assert_served()

    def test_health_answered_while_threads_busy(self):
        holding = self.hold_all()
        self.crowd(HALF)
        client = self.ask('/health')
        self.assertEqual(200, self.status(client))
        client.request('GET', '/health')
        self.assertEqual(200, self.status(client))
        self.go_on.set()
        self.assertEqual([200] * THREADS, [self.status(one) for one in holding])

    def test_queued_requests_served_in_order(self):
        self.hold_all()
        honest = []
        for number in range(10):
            self.crowd(HALF)
            honest.append(self.ask(f'/honest/{number}'))
            polling.until(lambda count=number + 1: self.server.use().waiting == count)
        self.go_on.set()
        self.assertEqual([200] * 10, [self.status(one) for one in honest])
        # Of two threads each takes the next: so none is more than one place from its own.
        order = [int(path.rpartition('/')[2]) for path in self.begun if 'honest' in path]
        self.assertTrue(all(abs(place - number) <= 1 for place, number in enumerate(order)),
                        order)

    def test_queued_request_times_out_while_threads_busy(self):
        holding = self.hold_all()
        waiting = self.ask('/a')
        polling.until(lambda: self.server.use().waiting == 1)
        self.clock.advance(QUEUE_SECONDS)
        answer = waiting.getresponse()
        answer.read()
        self.assertEqual((503, errors.QueueTimeout.code), (answer.status, answer.reason))
        self.assertNotIn('/a', self.begun)
        self.go_on.set()
        self.assertEqual([200] * THREADS, [self.status(one) for one in holding])
        # It may ask again on the same connection.
        waiting.request('GET', '/a')
        self.assertEqual(200, self.status(waiting))

    def test_connections_beyond_limit_accepted_later(self):
        """A further connection is accepted when another one ends."""
        kept = [self.connect(b'GET /a HTTP/1.1\r\nHost: x\r\n\r\n')
                for _ in range(THREADS + WAITING)]
        for client in kept:
            self.assertIn(b' 200 OK', client.recv(65536))
        client = self.ask('/late')
        self.clock.advance(HEADER_SECONDS)
        self.assertEqual(200, self.status(client))
        self.assertEqual(b'', kept[0].recv(1))


class EndTest(Case):

    def test_stop_answers_received_requests(self):
        holding = self.hold_all()
        waiting = [self.ask('/a') for _ in range(5)]
        silent, half = self.connect(), self.connect(HALF)
        polling.until(lambda: self.server.use().waiting == 5)
        ending = threading.Thread(target=self.server.stop)
        ending.start()
        self.assertEqual(b'', silent.recv(1))
        self.assertEqual(b'', half.recv(1))
        self.go_on.set()
        self.assertEqual([200] * 7, [self.status(one) for one in (*holding, *waiting)])
        ending.join()
        with self.assertRaises(OSError):
            self.connect()
        # A repeat does nothing.
        self.server.stop()

    def test_stop_disconnects_after_shutdown_timeout(self):
        self.server.stop()
        self.server = server.Server(
            self.application, '127.0.0.1', 0, api_conf.QueueSettings(
                work_places=1, threads=THREADS, size=WAITING), shutdown_seconds=1)
        self.server.start()
        holding = self.connect(b'GET /held HTTP/1.1\r\nHost: x\r\n\r\n')
        polling.until(lambda: self.begun)
        self.server.stop()
        self.assertEqual(b'', holding.recv(1))

    def test_stop_without_start_closes_listener(self):
        made = server.Server(self.application, '127.0.0.1', 0)
        with socket.create_connection(('127.0.0.1', made.port), SECONDS) as client:
            made.stop()
            with self.assertRaises(OSError):
                socket.create_connection(('127.0.0.1', made.port), SECONDS)
            with contextlib.suppress(ConnectionError):
                self.assertEqual(b'', client.recv(1))
