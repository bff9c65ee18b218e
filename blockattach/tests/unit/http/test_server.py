"""The built-in server: nobody's request is taken for a part of another one, or without end."""
import contextlib
import http.client
import socket
import threading
import unittest

from blockattach import errors
from blockattach.conf import api as api_conf
from blockattach.http import arrival
from blockattach.http import server
from blockattach.tests.fixtures import patience

SECONDS = patience.LIMIT
PROMPT = 8
"""The time-out of the server, 10 seconds, is longer."""
TWO = api_conf.QueueSettings(work_places=2, threads=2)
HOST = b'Host: x\r\n'
PIECES = b'Transfer-Encoding: chunked\r\n'


class ServerTest(unittest.TestCase):
    """The application answers with the method and what it was sent."""

    def setUp(self):
        super().setUp()
        self.seen = []
        self.server = server.Server(self.application, '127.0.0.1', 0, TWO, max_body_size=1000)
        self.server.bind()
        self.server.start()
        self.addCleanup(self.server.stop)

    def application(self, environ, start_response):
        self.seen.append(f'{environ["REQUEST_METHOD"]} {environ["PATH_INFO"]}')
        self.environ = environ
        start_response('200 OK', [('Content-Length', '2')])
        return [b'ok']

    def talk(self, sent):
        """All that is answered until the server closes, or has nothing more to say."""
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

    def test_what_is_in_order_is_served(self):
        hidden = b'GET /b HTTP/1.1\r\n' + HOST + b'\r\n'
        answer = self.post(b'Content-Length: 3\r\n', b'abc' + hidden)
        self.assertEqual(2, answer.count(b' 200 OK'), answer)
        self.assertEqual(['POST /a', 'GET /b'], self.seen)

    def test_a_length_that_two_programs_read_differently_is_refused(self):
        for length in (b'-1', b'-5', b'+3', b'0_3', b'0x3', b'3, 3', b'\xd9\xa3', b'x',
                       b'9' * 5000):
            self.assert_refused(400, b'Content-Length: ' + length + b'\r\n', b'abc')
        self.assert_refused(400, b'Content-Length: 3\r\nContent-Length: 4\r\n', b'abc')
        self.assert_refused(400, b'Content-Length: 3\r\n 4\r\n', b'abc')
        self.assert_refused(400, b'Content-Length : 3\r\n', b'abc')
        self.assert_refused(400, PIECES + b'Content-Length: 3\r\n', b'3\r\nabc\r\n0\r\n\r\n')

    def test_headers_that_are_none(self):
        self.assert_refused(400, b'nothing\r\n')
        answer = self.talk(b'GET /a HTTP/1.1\r\n of nothing\r\n\r\n')
        self.assertTrue(answer.startswith(b'HTTP/1.1 400 '), answer)
        self.assertEqual([], self.seen)

    def test_a_name_that_only_looks_like_another_is_dropped(self):
        for headers in (b'X-Service-Token: a\r\nX_Service_Token: b\r\n',
                        b'X_Service_Token: b\r\n more\r\nX-Service-Token: a\r\n'):
            with self.subTest(headers=headers):
                self.assertIn(b' 200 OK', self.post(headers))
                self.assertEqual('a', self.environ['HTTP_X_SERVICE_TOKEN'])

    def test_a_list_of_versions_in_several_lines(self):
        self.assertIn(b' 200 OK', self.post(b'OpenStack-API-Version: volume 3.71\r\n'
                                            b'openstack-api-version: blockattach 1.0\r\n'))
        self.assertEqual('volume 3.71, blockattach 1.0',
                         self.environ['HTTP_OPENSTACK_API_VERSION'])

    def test_behind_a_body_in_pieces_the_connection_ends(self):
        """The application reads none of it here; what is left must not be taken for a request."""
        hidden = b'GET /hidden HTTP/1.1\r\n' + HOST + b'\r\n'
        answer = self.post(PIECES, b'%x\r\n%s\r\n0\r\n\r\n' % (len(hidden), hidden))
        self.assertEqual(1, answer.count(b'HTTP/1.1 '), answer)
        self.assertEqual(['POST /a'], self.seen)

    def test_what_has_no_end_is_cut(self):
        """Not read to its end, so that the answer may be lost together with what was not read."""
        self.assert_refused(413, b'Content-Length: 99999999999\r\n')
        long = b'x' * 100000
        for request in (b'GET /a HTTP/1.1\r\n' + HOST + b'X-Long: ' + long + b'\r\n\r\n',
                        b'GET /' + long + b' HTTP/1.1\r\n\r\n'):
            with contextlib.suppress(OSError):
                self.assertRegex(self.talk(request), b'^HTTP/1.1 41[34] ')
            self.assertEqual([], self.seen)

    def test_an_address_that_is_taken(self):
        other = server.Server(self.application, '127.0.0.1', self.server.port)
        self.addCleanup(other.stop)
        with self.assertRaisesRegex(errors.ConfigurationError,
                                    f'cannot listen on 127.0.0.1:{self.server.port}'):
            other.bind()


class BusyServerTest(unittest.TestCase):
    """One thread, which an application holds; nobody may wait."""

    def setUp(self):
        super().setUp()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.server = server.Server(
            self.application, '127.0.0.1', 0,
            api_conf.QueueSettings(work_places=1, threads=1, size=0), at_once=('/health',))
        self.server.bind()
        self.server.start()
        self.addCleanup(self.server.stop)
        self.addCleanup(self.go_on.set)

    def application(self, environ, start_response):
        refused = environ.get(arrival.REFUSED)
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

    def test_who_is_refused_may_ask_again_on_the_same_connection(self):
        holder, client = self.client(), self.client()
        holder.request('GET', '/slow')
        self.assertTrue(self.begun.wait(SECONDS))
        self.assertEqual(503, self.ask(client, '/a', b'with a body'))
        self.assertEqual(503, self.ask(client, '/a'))
        self.go_on.set()
        self.assertEqual(200, holder.getresponse().status)
        patience.until(lambda: self.ask(client, '/a') == 200)

    def test_what_never_waits_is_answered(self):
        holder = self.client()
        holder.request('GET', '/slow')
        self.assertTrue(self.begun.wait(SECONDS))
        client = self.client()
        client.request('GET', '/health')
        answer = client.getresponse()
        self.assertEqual((200, 'close'), (answer.status, answer.headers['Connection']))

    def test_who_connects_and_keeps_silent_holds_nobody_up(self):
        for _ in range(10):
            silent = socket.create_connection(('127.0.0.1', self.server.port), SECONDS)
            self.addCleanup(silent.close)
        self.assertEqual(200, self.ask(self.client(PROMPT), '/a'))


class ArrivalTest(unittest.TestCase):
    """What the kernel knows of a connection that nobody has read yet."""

    def setUp(self):
        super().setUp()
        listening = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listening.close)
        self.client = socket.create_connection(listening.getsockname(), SECONDS)
        self.addCleanup(self.client.close)
        self.connection = listening.accept()[0]
        self.addCleanup(self.connection.close)

    def test_it_has_waited_since_the_client_wrote(self):
        self.client.sendall(b'x')
        patience.until(lambda: arrival.of(
            {arrival.SOCKET: self.connection}).waited >= 0.05)
        self.assertEqual(b'x', self.connection.recv(1))

    def test_the_client_is_gone(self):
        came = arrival.of({arrival.SOCKET: self.connection})
        self.assertFalse(came.gone())
        self.client.sendall(b'x')
        self.client.close()
        patience.until(came.gone)

    def test_where_nothing_can_be_known(self):
        self.assertEqual((0.0, False), (arrival.of({}).waited, arrival.of({}).gone()))
        one, other = socket.socketpair()
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        self.assertEqual(0.0, arrival.of({arrival.SOCKET: one}).waited)
