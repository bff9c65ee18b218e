"""Built-in HTTP server: request smuggling, size limits and overload."""
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
MANY = 30
TWO = api_conf.QueueSettings(work_places=2, threads=2)
HOST = b'Host: x\r\n'
PIECES = b'Transfer-Encoding: chunked\r\n'
_GET = b'GET /a HTTP/1.1\r\n'
_POST = b'POST /a HTTP/1.1\r\n' + HOST
_END = b'0\r\n\r\n'
# Status, and what is sent. The sender has nothing more to send, as a half close says.
NO_REQUESTS = (
    (400, _GET + b'\r\n'),
    (400, _GET + HOST + HOST + b'\r\n'),
    (400, _GET + HOST + b'Host: y\r\n\r\n'),
    (400, b'GET /a HTTP/1.0\r\n' + HOST + b'Host: y\r\n\r\n'),
    (400, _GET + b'HOST : x\r\n\r\n'),
    (400, _GET + HOST + b'X-A: a\0b\r\n\r\n'),
    (400, _GET + HOST + b'X-A: a\rb\r\n\r\n'),
    (400, _GET + HOST + b'X-A: a\rX-B: b\r\n\r\n'),
    (400, _GET + HOST + b'X-A: a\nX-B: b\r\n\r\n'),
    (400, _GET + HOST + b'X\0A: a\r\n\r\n'),
    (400, _GET + HOST + b'X A: a\r\n\r\n'),
    (400, _GET + HOST + b': a\r\n\r\n'),
    (400, _GET + HOST + b'nothing\r\n\r\n'),
    (400, _GET + b' of nothing\r\n\r\n'),
    (400, _GET + HOST + b'X-A: a\r\n more\r\n\r\n'),
    (400, b'GET /a HTTP/1.1\n' + HOST + b'\r\n'),
    (400, _POST + b'Transfer-Encoding: \x0bchunked\r\n\r\n' + _END),
    (400, _POST + b'Transfer-Encoding: chunked\x0b\r\n\r\n' + _END),
    (400, _POST + b'Transfer-Encoding: chunked, identity\r\n\r\n' + _END),
    (400, _POST + PIECES + PIECES + b'\r\n' + _END),
    (501, _POST + b'Transfer-Encoding: identity\r\n\r\n'),
    (501, _POST + b'Transfer-Encoding: gzip, chunked\r\n\r\n' + _END),
    (400, _POST + PIECES + b'\r\n0x23\r\n' + b'a' * 0x23 + b'\r\n' + _END),
    (400, _POST + PIECES + b'\r\n2_3\r\n' + b'a' * 0x23 + b'\r\n' + _END),
    (400, _POST + PIECES + b'\r\n+2\r\nab\r\n' + _END),
    (400, _POST + PIECES + b'\r\n-2\r\nab\r\n' + _END),
    (400, _POST + PIECES + b'\r\n 2\r\nab\r\n' + _END),
    (400, _POST + PIECES + b'\r\n2\nab\r\n' + _END),
    (400, _POST + PIECES + b'\r\n2\r\nabc\r\n' + _END),
    (400, _POST + PIECES + b'\r\n\r\nab\r\n' + _END),
    (400, _POST + PIECES + b'\r\n2\r\nab\r\n'),
    (400, _POST + PIECES + b'\r\n2\r\nab\r\n0\r\n'),
    (400, _POST + b'Content-Length: 3\r\n\r\nab'),
    (400, _POST + b'Content-Length: 3\r\n\r\n'),
    (400, _POST + b'Content-Length: 3\r\n'),
    (400, b'GET /a#b HTTP/1.1\r\n' + HOST + b'\r\n'),
    (400, b'GET /a b HTTP/1.1\r\n' + HOST + b'\r\n'),
    (400, b'GET /\0 HTTP/1.1\r\n' + HOST + b'\r\n'),
    (400, b'CONNECT x:1 HTTP/1.1\r\n' + HOST + b'\r\n'),
    (400, b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    (501, b'NOTHING /a HTTP/1.1\r\n' + HOST + b'\r\n'),
    (501, b'\x16\x03\x01\x00\xf4\x01'),
    (505, b'GET /a HTTP/2.0\r\n' + HOST + b'\r\n'),
    (505, b'GET /a\r\n\r\n'),
)
# Method and path, and how it is asked for.
ODD_REQUESTS = (
    ('GET /a', b'\r\n' + _GET + HOST + b'\r\n'),
    ('GET /a', _GET + b'host:x\r\n\r\n'),
    ('GET /a', b'GET /a HTTP/1.0\r\n\r\n'),
    ('GET /a', b'GET http://x/a HTTP/1.1\r\n' + HOST + b'\r\n'),
    ('GET /', b'GET http://x HTTP/1.1\r\n' + HOST + b'\r\n'),
    ('OPTIONS *', b'OPTIONS * HTTP/1.1\r\n' + HOST + b'\r\n'),
    ('GET /\n', b'GET /%0A HTTP/1.1\r\n' + HOST + b'\r\n'),
    ('POST /a', _POST + b'Content-Length: 3 \r\n\r\nabc'),
    ('POST /a', _POST + PIECES.upper() + b'\r\n' + _END),
)


class ServerTest(unittest.TestCase):
    """Server with an application that records its requests."""

    def setUp(self):
        super().setUp()
        self.seen = []
        # However slow a machine is, nothing is cut that is still being sent.
        self.server = server.Server(self.application, '127.0.0.1', 0, TWO, max_body_size=1000,
                                    clock=clock.ManualClock())
        self.server.start()
        self.addCleanup(self.server.stop)

    def application(self, environ, start_response):
        self.seen.append(f'{environ["REQUEST_METHOD"]} {environ["PATH_INFO"]}')
        self.environ = environ
        self.body = environ['wsgi.input'].read()
        answers = {'/length/wrong': ('200 OK', b'wrong'), '/204': ('204 No Content', b''),
                   '/length/head': ('200 OK', b''), '/fails': (None, b'')}
        status, body = answers.get(environ['PATH_INFO'], ('200 OK', b'ok'))
        start_response(status, [('Content-Length', '2')] if body == b'wrong' else [])
        return [body]

    def talk(self, sent):
        """Send bytes, half-close, and return all that the server answers."""
        with socket.create_connection(('127.0.0.1', self.server.port), SECONDS) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            parts = []
            while part := client.recv(65536):
                parts.append(part)
        return b''.join(parts)

    def post(self, headers, body=b''):
        return self.talk(b'POST /a HTTP/1.1\r\n' + HOST + headers + b'\r\n' + body)

    def assert_refused(self, status, headers, body=b''):
        with self.subTest(headers=headers[:60]):
            answer = self.post(headers, body)
            self.assertTrue(answer.startswith(b'HTTP/1.1 %d ' % status), answer)
            self.assertEqual(1, answer.count(b'HTTP/1.1 '), answer)
            self.assertEqual([], self.seen)

    def test_pipelined_requests_served(self):
        hidden = b'GET /b HTTP/1.1\r\n' + HOST + b'\r\n'
        answer = self.post(b'Content-Length: 3\r\n', b'abc' + hidden)
        self.assertEqual(2, answer.count(b' 200 OK'), answer)
        self.assertEqual(['POST /a', 'GET /b'], self.seen)

    def test_ambiguous_content_length_rejected(self):
        for length in (b'-1', b'-5', b'+3', b'0_3', b'0x3', b'3, 3', b'\xd9\xa3', b'x', b'',
                       b'9' * 5000):
            self.assert_refused(400, b'Content-Length: ' + length + b'\r\n', b'abc')
        self.assert_refused(400, b'Content-Length: 3\r\nContent-Length: 4\r\n', b'abc')
        self.assert_refused(400, b'Content-Length: 3\r\nContent-Length: 3\r\n', b'abc')
        self.assert_refused(400, b'Content-Length: 3\r\n 4\r\n', b'abc')
        self.assert_refused(400, b'Content-Length : 3\r\n', b'abc')
        self.assert_refused(400, PIECES + b'Content-Length: 3\r\n', b'3\r\nabc\r\n0\r\n\r\n')

    def test_malformed_request_rejected(self):
        """Other programs may let such a request pass and read it differently."""
        for status, request in NO_REQUESTS:
            with self.subTest(request=request[:80]):
                self.seen.clear()
                answer = self.talk(request)
                self.assertTrue(answer.startswith(b'HTTP/1.1 %d ' % status), answer)
                self.assertEqual(1, answer.count(b'HTTP/1.1 '), answer)
                self.assertIn(b'\r\nConnection: close\r\n', answer)
                self.assertEqual([], self.seen)

    def test_unusual_request_served(self):
        for seen, request in ODD_REQUESTS:
            with self.subTest(request=request):
                self.seen.clear()
                answer = self.talk(request)
                self.assertTrue(answer.startswith(b'HTTP/1.1 200 OK'), answer)
                self.assertEqual([seen], self.seen)

    def test_header_with_underscore_dropped(self):
        self.assertIn(b' 200 OK', self.post(b'X-Service-Token: a\r\nX_Service_Token: b\r\n'))
        self.assertEqual('a', self.environ['HTTP_X_SERVICE_TOKEN'])

    def test_chunked_body_passed_as_whole(self):
        trailer = b'X-Service-Token: b\r\n'
        self.assertIn(b' 200 OK', self.post(
            PIECES, b'2;what=ever\r\nab\r\n1\r\nc\r\n0\r\n' + trailer + b'\r\n'))
        self.assertEqual(('3', b'abc'), (self.environ['CONTENT_LENGTH'], self.body))
        # Behind the body comes nothing that an application could take for a header.
        self.assertNotIn('HTTP_X_SERVICE_TOKEN', self.environ)

    def test_expect_100_continue_answered(self):
        with socket.create_connection(('127.0.0.1', self.server.port), SECONDS) as client:
            client.sendall(b'POST /a HTTP/1.1\r\n' + HOST
                           + b'Expect: 100-continue\r\nContent-Length: 3\r\n\r\n')
            self.assertEqual(b'HTTP/1.1 100 Continue\r\n\r\n', client.recv(65536))
            client.sendall(b'abc')
            self.assertIn(b' 200 OK', client.recv(65536))
        self.assertEqual(b'abc', self.body)

    def test_upgrade_to_http2_ignored(self):
        """Many clients that support HTTP/2 send such an offer, also with a body."""
        offer = b'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n'
        answer = self.post(offer + b'Content-Length: 3\r\n', b'abcGET /b HTTP/1.1\r\n\r\n')
        self.assertEqual(1, answer.count(b'HTTP/1.1 '), answer)
        self.assertEqual((['POST /a'], b'abc'), (self.seen, self.body))
        self.seen.clear()
        self.assert_refused(501, offer + PIECES, b'3\r\nabc\r\n0\r\n\r\n')

    def test_wsgi_environ_of_request(self):
        self.assertIn(b' 200 OK', self.talk(
            b'POST /a%20b%2Fc?d=%20 HTTP/1.1\r\nHost: x:1\r\nContent-Type: text/plain\r\n'
            b'Content-Length: 3\r\nAccept:  a \t\r\nAccept: b\r\n\r\nabc'))
        self.assertEqual(
            {'REQUEST_METHOD': 'POST', 'PATH_INFO': '/a b/c', 'QUERY_STRING': 'd=%20',
             'SCRIPT_NAME': '', 'HTTP_HOST': 'x:1', 'HTTP_ACCEPT': 'a, b',
             'CONTENT_TYPE': 'text/plain', 'CONTENT_LENGTH': '3', 'REMOTE_ADDR': '127.0.0.1',
             'SERVER_NAME': '127.0.0.1', 'SERVER_PORT': str(self.server.port),
             'SERVER_PROTOCOL': 'HTTP/1.1', 'wsgi.url_scheme': 'http'},
            {name: value for name, value in self.environ.items()
             if isinstance(value, str) and name not in ('REMOTE_PORT', 'SERVER_SOFTWARE')})
        self.assertNotIn('HTTP_CONTENT_LENGTH', self.environ)

    def test_answer_length_by_method_and_status(self):
        with contextlib.closing(http.client.HTTPConnection(
                '127.0.0.1', self.server.port, timeout=SECONDS)) as client:
            for method, path, status, body in (
                    ('GET', '/length/wrong', 200, b'wrong'), ('HEAD', '/length/head', 200, b''),
                    ('GET', '/204', 204, b''), ('GET', '/a', 200, b'ok'),
                    ('GET', '/fails', 500, b'The server failed to handle the request.\n')):
                with self.subTest(path=path), self.logged(path == '/fails'):
                    client.request(method, path)
                    answer = client.getresponse()
                    self.assertEqual((status, body), (answer.status, answer.read()))
                    self.assertEqual('blockattach', answer.headers['Server'])
                    self.assertIn('Date', answer.headers)

    def logged(self, fails):
        return (self.assertLogs('blockattach.platform.webserver.gateway', 'ERROR') if fails
                else contextlib.nullcontext())

    def test_http_1_0_keep_alive(self):
        old = b'GET /a HTTP/1.0\r\n%s\r\n'
        keep = b'Connection: keep-alive\r\n'
        answer = self.talk(old % keep + old % b'' + old % b'')
        self.assertEqual(2, answer.count(b' 200 OK'), answer)
        self.assertIn(b'\r\nConnection: keep-alive\r\n', answer)
        self.assertTrue(answer.endswith(b'\r\nConnection: close\r\n\r\nok'), answer)

    def test_repeated_version_headers_joined(self):
        self.assertIn(b' 200 OK', self.post(b'OpenStack-API-Version: volume 3.71\r\n'
                                            b'openstack-api-version: blockattach 1.0\r\n'))
        self.assertEqual('volume 3.71, blockattach 1.0',
                         self.environ['HTTP_OPENSTACK_API_VERSION'])

    def test_connection_closed_after_unread_chunked_body(self):
        """The unread rest of the body must not be taken for a request."""
        hidden = b'GET /hidden HTTP/1.1\r\n' + HOST + b'\r\n'
        answer = self.post(PIECES, b'%x\r\n%s\r\n0\r\n\r\n' % (len(hidden), hidden))
        self.assertEqual(1, answer.count(b'HTTP/1.1 '), answer)
        self.assertEqual(['POST /a'], self.seen)

    def test_too_large_header_or_body_rejected(self):
        self.assert_refused(413, b'Content-Length: 99999999999\r\n')
        long = b'x' * 200000
        for status, request in (
                (431, b'GET /a HTTP/1.1\r\n' + HOST + b'X-Long: ' + long + b'\r\n\r\n'),
                (431, b'GET /a HTTP/1.1\r\n' + HOST + b'X: y\r\n' * 30000 + b'\r\n'),
                (431, b'GET /' + long + b' HTTP/1.1\r\n' + HOST + b'\r\n'),
                (413, b'POST /a HTTP/1.1\r\n' + HOST + PIECES + b'\r\n'
                 + b'100000\r\n' + b'x' * 0x100000 + b'\r\n' + b'400\r\n' + b'x' * 0x400
                 + b'\r\n'),
                (413, b'POST /a HTTP/1.1\r\n' + HOST + PIECES + b'\r\n1;' + b'x' * 3000000)):
            with self.subTest(request=request[:60]):
                self.assertTrue(self.talk(request).startswith(b'HTTP/1.1 %d ' % status))
                self.assertEqual([], self.seen)

    def test_many_small_headers_refused(self):
        """Each header takes twenty times its size, before the client is authenticated."""
        many = b''.join(b'X%d:\r\n' % number for number in range(1000))
        for sent in (_GET + HOST + many, _GET + HOST + many + b'\r\n'):
            with self.subTest(sent=sent[-20:]):
                self.assertTrue(self.talk(sent).startswith(b'HTTP/1.1 431 '))
                self.assertEqual([], self.seen)

    def test_pipelined_requests_limited(self):
        """The last response announces that the connection is closed."""
        answer = self.talk((_GET + HOST + b'\r\n') * 1000)
        self.assertEqual(len(self.seen), answer.count(b'HTTP/1.1 200 OK'))
        self.assertTrue(30 < len(self.seen) < 500, len(self.seen))
        self.assertTrue(answer.endswith(b'Connection: close\r\n\r\nok'), answer[-200:])

    def test_slightly_too_large_body_left_to_application(self):
        """The application learns the length and gets a truncated body."""
        sent = b'x' * 5000
        for how in (b'Content-Length: 5000\r\n\r\n' + sent,
                    PIECES + b'\r\n1388\r\n' + sent + b'\r\n0\r\n\r\n'):
            self.assertIn(b' 200 OK', self.talk(b'POST /a HTTP/1.1\r\n' + HOST + how))
            self.assertEqual(('5000', 1001), (self.environ['CONTENT_LENGTH'], len(self.body)))

    def test_bind_to_used_address_refused(self):
        with self.assertRaisesRegex(errors.ConfigurationError,
                                    f'cannot listen on 127.0.0.1:{self.server.port}'):
            server.Server(self.application, '127.0.0.1', self.server.port)


class FullServerTest(unittest.TestCase):
    """Limit of the memory that unauthenticated clients can occupy together."""

    def setUp(self):
        super().setUp()
        # The test controls if a request counts as begun.
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.server = server.Server(self.application, '127.0.0.1', 0, TWO, max_body_size=100_000,
                                    clock=clock.ManualClock(), most_kept=1_000_000)
        self.server.start()
        self.addCleanup(self.server.stop)
        self.addCleanup(self.gate.set)

    def application(self, environ, start_response):
        self.begun.release()
        if environ['PATH_INFO'] == '/wait':
            self.gate.wait(SECONDS)
        start_response('200 OK', [])
        return [b'%d' % len(environ['wsgi.input'].read())]

    def send(self, sent):
        client = socket.create_connection(('127.0.0.1', self.server.port), SECONDS)
        self.addCleanup(client.close)
        client.sendall(sent)
        return client

    def post(self, path, size, sent):
        return self.send(b'POST %s HTTP/1.1\r\n' % path + HOST
                         + b'Content-Length: %d\r\n\r\n' % size + b'x' * sent)

    def assert_answered(self, status, client):
        self.assertTrue(client.recv(1024).startswith(b'HTTP/1.1 %d ' % status))

    def test_slow_bodies_timed_out_under_memory_limit(self):
        """The oldest requests are rejected first. A fast request is always answered."""
        slow = []
        for _ in range(40):
            slow.append(self.post(b'/a', 100_000, 50_000))
            self.assert_answered(200, self.post(b'/a', 60_000, 60_000))
        for client in slow[:20]:
            self.assert_answered(408, client)

    def test_slow_headers_timed_out_under_memory_limit(self):
        slow = [self.send(_GET + HOST + b'X: ' + b'x' * 50_000) for _ in range(40)]
        self.assert_answered(200, self.post(b'/a', 60_000, 60_000))
        for client in slow[:15]:
            self.assert_answered(408, client)

    def test_older_bodies_timed_out_before_header(self):
        slow = [self.post(b'/a', 100_000, 90_000) for _ in range(10)]
        last = self.send(_GET + HOST + b'X: ' + b'x' * 30_000)
        self.assert_answered(200, self.post(b'/a', 90_000, 90_000))
        self.assert_answered(408, slow[0])
        last.sendall(b'\r\n\r\n')
        self.assert_answered(200, last)

    def test_requests_without_room_refused(self):
        """Complete requests are answered, but a new one is rejected."""
        waiting = [self.post(b'/wait', 90_000, 90_000) for _ in range(2)]
        for _ in waiting:
            self.assertTrue(self.begun.acquire(timeout=SECONDS))
        more = [self.post(b'/wait', 90_000, 90_000) for _ in range(20)]
        refused, _, _ = select.select(more, [], [], SECONDS)
        self.assertRegex(refused[0].recv(1024), rb'^HTTP/1.1 (503|408) ')
        self.gate.set()
        for client in waiting:
            self.assert_answered(200, client)
        for client in set(more) - {refused[0]}:
            self.assertRegex(client.recv(1024), rb'^HTTP/1.1 (200|503|408) ')
        self.assert_answered(200, self.post(b'/a', 60_000, 60_000))


class Refusals:
    """Telemetry that counts the refusals of the queue."""

    count = 0

    def queue_refused(self, queue, refusal):
        self.count += 1


class BusyServerTest(unittest.TestCase):
    """Server with one busy thread and no queue."""

    def setUp(self):
        super().setUp()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.server = server.Server(
            self.application, '127.0.0.1', 0,
            api_conf.QueueSettings(work_places=1, threads=1, size=0), at_once=('/health',))
        self.server.start()
        self.addCleanup(self.server.stop)
        self.addCleanup(self.go_on.set)

    def application(self, environ, start_response):
        refused = environ.get(queueing.REFUSED)
        if environ['PATH_INFO'] == '/slow':
            self.begun.set()
            self.go_on.wait(2 * SECONDS)
        start_response('200 OK' if refused is None else '503 ' + refused.code,
                       [('Content-Length', '0')])
        return []

    def client(self, seconds=SECONDS):
        made = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=seconds)
        self.addCleanup(made.close)
        return made

    def ask(self, client, path, body=None):
        client.request('GET' if body is None else 'POST', path, body)
        answer = client.getresponse()
        answer.read()
        return answer.status

    def test_connection_usable_after_refusal(self):
        holder, client = self.client(), self.client()
        holder.request('GET', '/slow')
        self.assertTrue(self.begun.wait(SECONDS))
        self.assertEqual(503, self.ask(client, '/a', b'with a body'))
        self.assertEqual(503, self.ask(client, '/a'))
        self.go_on.set()
        self.assertEqual(200, holder.getresponse().status)
        polling.until(lambda: self.ask(client, '/a') == 200)

    def test_concurrent_requests_refused_by_full_queue(self):
        refusals = Refusals()
        self.server.telemetry = refusals
        clients = [self.client() for _ in range(MANY)]
        clients[0].request('GET', '/slow')
        self.assertTrue(self.begun.wait(SECONDS))
        for client in clients[1:]:
            client.request('GET', '/slow')
        polling.until(lambda: refusals.count == MANY - 1)
        self.go_on.set()
        self.assertEqual([200] + [503] * (MANY - 1),
                         [client.getresponse().status for client in clients])

    def test_health_answered_while_queue_full(self):
        holder = self.client()
        holder.request('GET', '/slow')
        self.assertTrue(self.begun.wait(SECONDS))
        client = self.client()
        for _ in range(2):
            self.assertEqual(200, self.ask(client, '/health?a'))


class ArrivalTest(unittest.TestCase):
    """State of an unread connection according to the kernel."""

    def setUp(self):
        super().setUp()
        listening = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listening.close)
        self.client = socket.create_connection(listening.getsockname(), SECONDS)
        self.addCleanup(self.client.close)
        self.connection = listening.accept()[0]
        self.addCleanup(self.connection.close)
        self.number = queueing.connection_number({queueing.SOCKET: self.connection})

    def test_waited_seconds_since_client_wrote(self):
        self.client.sendall(b'x')
        polling.until(lambda: queueing.waited_seconds(self.number) >= 0.05)
        self.assertEqual(b'x', self.connection.recv(1))

    def test_is_gone_after_client_closed(self):
        self.assertFalse(queueing.is_gone(self.number))
        self.client.sendall(b'x')
        self.client.close()
        polling.until(lambda: queueing.is_gone(self.number))

    def test_unknown_connection_has_not_waited(self):
        unknown = queueing.connection_number({})
        self.assertEqual((0.0, False), (queueing.waited_seconds(unknown),
                                        queueing.is_gone(unknown)))
        one, other = socket.socketpair()
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        self.assertEqual(0.0, queueing.waited_seconds(one.fileno()))
