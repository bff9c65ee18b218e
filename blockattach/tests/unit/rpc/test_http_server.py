"""Server of the HTTP bus: malformed, untrusted and excessive requests."""
import concurrent.futures
import logging
import socket
import threading
import unittest
from typing import Any

from blockattach.platform import errors
from blockattach.platform.rpc import ends
from blockattach.platform.rpc.http import server as servers
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire
from blockattach.tests.fixtures import clock as manual
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import http_peers
from blockattach.tests.unit.rpc import probe

OTHER = trust.Key('site', b'another secret that is long enough')
STRANGER = trust.Key('stranger', b'the secret of a process elsewhere')
CONSUMER = trust.Key('consumer', b'hunter2 hunter2 hunter2 hunter2 ', frozenset({'attachments'}))
WINDOW = trust.WINDOW_SECONDS


class ServerTestCase(http_peers.SiteTestCase):
    """Test case with a server that must still serve after each test."""

    accepted = (http_peers.SiteTestCase.own, CONSUMER)

    def setUp(self) -> None:
        super().setUp()
        self.beats = manual.ManualClock()
        self.endpoint = probe.ProbeEndpoint()
        self.log = bus_contract.LogQueue()
        logging.getLogger().addHandler(self.log)
        self.addCleanup(logging.getLogger().removeHandler, self.log)
        self.serve(self.endpoint, bus=self.make_bus(clock=self.beats))
        self.raw = http_peers.RawCaller(self.store, self.topic, self.clock, self.own)

    def assert_status(self, status: int, data: bytes) -> None:
        said = self.raw.speak(data)
        self.assertEqual(f'HTTP/1.1 {status}', said[:12].decode(), said)

    def assert_refused(self, status: int, *sent: bytes) -> None:
        for data in sent:
            with self.subTest(data[:200]):
                self.assert_status(status, data)
        self.assertTrue(self.endpoint.heard.empty())

    def tearDown(self) -> None:
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        while not self.log.records.empty():
            line = logging.Formatter().format(self.log.records.get())
            for secret in (http_peers.SECRET, OTHER.secret, CONSUMER.secret):
                self.assertNotIn(secret.decode().strip(), line)
                self.assertNotIn(secret.hex(), line)
        super().tearDown()


class StrictServerTest(ServerTestCase, unittest.TestCase):
    """Malformed requests, which are refused without effect."""

    def test_valid_request_answered(self) -> None:
        self.assert_status(200, self.raw.written())
        self.assertEqual('hurry', self.heard(self.endpoint))

    def test_malformed_request_rejected(self) -> None:
        whole = self.raw.written()
        self.assert_refused(
            400, b'GARBAGE\r\n\r\n', b'\x16\x03\x01\x02\x00\x01\x00\x01',
            b'GET / HTTP/1.1\r\n\r\n', whole.replace(b'POST', b'PUT'),
            whole.replace(b'/rpc/', b'/other/'), whole.replace(b'test', b'te%73t', 1),
            whole.replace(b'/rpc/', b'http://127.0.0.1/rpc/'),
            whole.replace(b'HTTP/1.1', b'HTTP/1.0'),
            whole.replace(b'content-length', b'x-length'),
            whole.replace(b'content-length', b'transfer-encoding: chunked\r\ncontent-length'),
            whole.replace(b'content-length', b'transfer-encoding: gzip\r\nx-length'),
            whole.replace(b'content-length: ', b'content-length: -'),
            whole.replace(b'host:', b'host: twice\r\nhost:'),
            whole.replace(b'host:', b'expect: 100-continue\r\nhost:'),
            whole.replace(b'host:', b'connection: upgrade\r\nupgrade: h2c\r\nhost:'),
            whole.replace(b' call -', b' shout -'), whole.replace(b' call -', b' call'),
            *(whole.replace(b' call -', b' call ' + monitor)
              for monitor in (b'often', b'nan', b'inf', b'-1.0', b'1', b'- -')),
            whole.replace(b'authorization: ', b'x-authorization: '),
            whole.replace(b': blockattach ', b': basic '))

    def test_body_without_message_rejected(self) -> None:
        for body in (b'', b'{', b'[]', b'{"context": {}}', b'{"context": {}, "message": []}',
                     b'{"context": {}, "message": {}, "more": 1}'):
            self.assert_refused(400, self.raw.written(self.raw.request(body=body)))

    def test_too_long_header_rejected(self) -> None:
        whole = self.raw.written()
        padded = b'x-pad: ' + b'x' * wire.HEADER_BYTES
        self.assert_refused(400, whole.replace(b'host:', padded + b'\r\nhost:'), padded,
                            b'POST /rpc/' + b'x' * wire.HEADER_BYTES)

    def test_too_long_body_rejected(self) -> None:
        begin = self.raw.written().split(b'content-length')[0]
        self.assert_refused(
            400, begin + b'content-length: %d\r\n\r\n' % (wire.BODY_BYTES + 1),
            begin + b'content-length: 99999999999999999999999999\r\n\r\n')

    def test_pipelined_data_rejected(self) -> None:
        whole = self.raw.written()
        self.assert_refused(400, whole + b'garbage', whole + self.raw.written(), whole + b'\0',
                            whole + b'P')

    def test_chunked_request_answered(self) -> None:
        def chunked(end: bytes) -> bytes:
            head, body = self.raw.written().split(b'\r\n\r\n')
            head = head.replace(b'content-length: %d' % len(body), b'transfer-encoding: chunked')
            return (head + b'\r\n\r\n' + b''.join(b'1\r\n%c\r\n' % byte for byte in body)
                    + b'0\r\n' + end)

        self.assert_refused(400, chunked(b'x-trailer: 1\r\n\r\n'))
        self.assert_status(200, chunked(b'\r\n'))
        self.assertEqual('hurry', self.heard(self.endpoint))

    def test_too_large_chunked_body_rejected(self) -> None:
        reader = wire.RequestReader()
        reader.feed(b'POST /rpc/x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n')
        chunk = b'100000\r\n' + b'x' * 2 ** 20 + b'\r\n'
        for _ in range(wire.BODY_BYTES // 2 ** 20):
            reader.feed(chunk)
        with self.assertRaisesRegex(wire.Malformed, 'too large'):
            reader.feed(chunk)

    def test_truncated_request_ignored(self) -> None:
        whole = self.raw.written()
        for length in (1, 40, whole.index(b'\r\n\r\n') + 4, len(whole) - 1):
            self.assertEqual(b'', self.raw.speak(self.raw.written()[:length]))
        self.assertTrue(self.endpoint.heard.empty())

    def test_many_small_headers_refused(self) -> None:
        """Each header takes a hundred times its size."""
        self.assert_refused(400, self.raw.written().replace(
            b'host:', b''.join(b'x%x:\r\n' % number for number in range(64)) + b'host:'))


class FullServerTest(http_peers.SiteTestCase, unittest.TestCase):
    """Limits of the memory and the connections of unauthenticated clients."""

    def setUp(self) -> None:
        super().setUp()
        self.server = servers.Server(('127.0.0.1', 0), trust.Keyring(self.own), self.clock, most=4)
        self.addCleanup(self.server.stop)
        endpoint = self.server.address._replace(instance='one')
        self.store.register(self.topic, 'one', endpoint)
        self.raw = http_peers.RawCaller(self.store, self.topic, self.clock, self.own)
        self.server.add(self.topic, 'one', self.take)

    def take(self, message: Any) -> bool:
        message.reply(message.message['method'])
        return True

    def connected(self, data: bytes = b'') -> socket.socket:
        connection = self.raw.connect()
        self.addCleanup(connection.close)
        connection.sendall(data)
        return connection

    def assert_said(self, status: int, connection: socket.socket) -> None:
        self.assertEqual(f'HTTP/1.1 {status}', connection.recv(1024)[:12].decode())

    def test_body_after_unproved_header_not_read(self) -> None:
        """The answer arrives before the body is sent."""
        size = wire.BODY_BYTES - 1
        for case in ({'key': OTHER}, {'key': STRANGER},
                     {'request': self.raw.request(authority='127.0.0.1:1')}):
            head, _, body = self.raw.written(**case).partition(b'\r\n\r\n')
            large = head.replace(b'content-length: %d' % len(body), b'content-length: %d' % size)
            for _ in range(20):
                with self.subTest(case):
                    self.assert_said(401, self.connected(large + b'\r\n\r\n'))
        self.assertEqual('echo', self.client('one').echo(self.ctxt, 1))

    def test_body_of_another_request_refused(self) -> None:
        whole = self.raw.written()
        self.assert_said(401, self.connected(whole.replace(b'hurry', b'worry')))
        self.assert_said(401, self.connected(whole))

    def test_unproved_connection_closed_for_new_one(self) -> None:
        """The oldest connection is closed, whatever it has sent; a proved call succeeds."""
        part = self.raw.written()[:40]
        held = [self.connected(part) for _ in range(3)]
        for _ in range(20):
            held.append(self.connected(part))
            self.assertEqual('echo', self.client('one').echo(self.ctxt, 1))
        for connection in held[:len(held) - 4]:
            self.assert_said(503, connection)

    def test_proved_connection_kept_at_limit(self) -> None:
        proved = [self.connected(self.raw.written()) for _ in range(4)]
        for connection in proved:
            self.assert_said(200, connection)
        self.assert_said(503, self.connected())
        proved[0].sendall(self.raw.written())
        self.assert_said(200, proved[0])

    def test_call_refused_at_limit_is_not_reached(self) -> None:
        """The request was not read, so nothing is done, and the caller knows."""
        for _ in range(4):
            self.assert_said(200, self.connected(self.raw.written()))
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('one').echo(self.ctxt, 1)
        self.assertIsInstance(caught.exception.__cause__, ends.NotReached)


class TrustedServerTest(ServerTestCase, unittest.TestCase):
    """Requests without a valid proof, which are refused without effect."""

    def test_request_with_other_key_refused(self) -> None:
        self.assert_refused(401, self.raw.written(key=OTHER), self.raw.written(key=STRANGER))

    def test_modified_request_refused(self) -> None:
        for request, change in (
                (self.raw.request(), {'body': self.raw.request('note').body}),
                (self.raw.request(), {'kind': wire.Kind.CAST}),
                (self.raw.request(), {'monitor': 1.0}),
                (self.raw.request(instance='other'), {'instance': self.raw.endpoint.instance}),
                (self.raw.request(topic='other'), {'topic': self.topic})):
            proof = self.raw.proof(request)
            values = {name: getattr(request, name) for name in wire.Request.__slots__}
            self.assert_refused(401, wire.Request(**{**values, **change}).written(proof))

    def test_malformed_proof_refused(self) -> None:
        request = self.raw.request()
        proof = self.raw.proof(request)
        self.assert_refused(401, *(request.written(proof._replace(**{name: value}))
                                   for name in trust.Proof._fields
                                   for value in ('x', 'nan', '\u00fc')))
        self.assert_refused(401, request.written(proof._replace(key='')))
        self.assert_refused(400, request.written(proof._replace(mac='')))

    def test_request_for_other_address_refused(self) -> None:
        self.assert_refused(401, self.raw.written(self.raw.request(authority='127.0.0.1:1')))

    def test_replayed_request_refused(self) -> None:
        whole = self.raw.written()
        self.assert_status(200, whole)
        self.assertEqual('hurry', self.heard(self.endpoint))
        self.assert_refused(401, whole, whole)
        self.clock.advance(WINDOW)
        self.assert_refused(401, whole)

    def test_request_outside_time_window_refused(self) -> None:
        old = self.raw.written()
        self.clock.advance(WINDOW + 1)
        self.assert_refused(401, old)
        late = self.raw.written()
        self.clock.advance(-WINDOW - 1)
        self.assert_refused(401, late)
        self.clock.advance(1)
        self.assert_status(200, late)
        self.assertEqual('hurry', self.heard(self.endpoint))

    def test_key_for_other_topic_forbidden(self) -> None:
        request = self.raw.request()
        self.assert_refused(403, self.raw.written(request, CONSUMER))
        self.serve(probe.ProbeEndpoint(), 'one')
        url = self.url + '-consumer'
        self.provide(url, CONSUMER)
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('one', self.make_bus(url)).hurry(self.ctxt)
        self.assertIn('not valid for', str(caught.exception))

    def test_request_for_other_instance_misdirected(self) -> None:
        self.assert_refused(421, self.raw.written(self.raw.request(instance='gone')),
                            self.raw.written(self.raw.request(topic='other')))

    def test_kept_nonces_limited(self) -> None:
        request = self.raw.request()
        verifier = trust.Verifier(trust.Keyring(self.own), self.clock, most=2)

        def check() -> None:
            verifier.check(self.raw.proof(request), request.claims)

        check()
        check()
        with self.assertRaisesRegex(trust.Untrusted, 'too many'):
            check()
        self.clock.advance(2 * WINDOW + 1)
        check()

    def test_key_repr_hides_secret(self) -> None:
        shown = repr((self.own, trust.Keyring(self.own)))
        self.assertNotIn('hunter2', shown)
        for name, secret in (('short', b'x' * 31), ('line\nbreak', b'x' * 32), ('', b'x' * 32)):
            with self.assertRaises(ValueError) as caught:
                trust.Key(name, secret)
            self.assertNotIn('xxx', str(caught.exception))


class AnsweringServerTest(ServerTestCase, unittest.TestCase):
    """Connection to a caller while its call is handled."""

    def read(self, connection: socket.socket, end: bytes) -> bytes:
        data = b''
        while not data.endswith(end):
            data += connection.recv(65536)
            self.assertTrue(data)
        return data

    def test_heartbeats_sent_before_answer(self) -> None:
        request = self.raw.request('meet', monitor=15.0)
        proof = self.raw.proof(request)
        with self.raw.connect() as connection:
            connection.sendall(request.written(proof))
            said = b''
            for _ in range(3):
                self.assertTrue(self.beats.until_waiting(1, probe.LIMIT))
                self.beats.advance(5)
                said += self.read(connection, wire.HEARTBEAT)
            assert isinstance(self.endpoint.gate, threading.Event)
            self.endpoint.gate.set()
            said += self.read(connection, b'\r\n\r\n')
        self.assertEqual(3, said.count(wire.HEARTBEAT))
        reader = wire.AnswerReader()
        reader.feed(said)
        answer = reader.answer()
        self.assertEqual({'result': True, 'failure': None},
                         wire.decode(answer.body, ('result', 'failure')))
        self.assertTrue(trust.is_proved(self.own, proof.nonce, 200, answer.body, answer.proof))

    def test_call_finished_after_caller_disconnected(self) -> None:
        with self.raw.connect() as connection:
            connection.sendall(self.raw.written(self.raw.request('meet')))
            self.assertTrue(self.endpoint.entered.acquire(timeout=probe.LIMIT))
        assert isinstance(self.endpoint.gate, threading.Event)
        self.endpoint.gate.set()

    def test_connection_reused_for_next_request(self) -> None:
        with self.raw.connect() as connection:
            for _ in range(3):
                connection.sendall(self.raw.written())
                self.assertTrue(self.read(connection, b'}').startswith(b'HTTP/1.1 200'))
                self.assertEqual('hurry', self.heard(self.endpoint))
            connection.sendall(b'garbage\r\n\r\n')
            self.assertTrue(connection.recv(1024).startswith(b'HTTP/1.1 400'))

    def test_closed_transport_closes_idle_connections(self) -> None:
        bus = self.make_bus()
        self.serve(probe.ProbeEndpoint('other'), 'other', bus)
        found, = self.store.find(self.topic, 'other')
        with (socket.create_connection((found.host, found.port), probe.LIMIT) as idle,
              concurrent.futures.ThreadPoolExecutor(1) as pool):
            ended = pool.submit(idle.recv, 1)
            self.client('other').echo(self.ctxt, 1)
            bus.close()
            self.assertEqual(b'', ended.result(probe.LIMIT))
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection((found.host, found.port), probe.LIMIT)


if __name__ == '__main__':
    unittest.main()
