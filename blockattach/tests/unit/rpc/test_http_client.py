"""Client of the HTTP bus: verification of answers, and repeated sending."""
import concurrent.futures
import contextlib
import socket
import struct
import threading
import unittest
from typing import Any

import oslo_messaging

from blockattach.platform import errors
from blockattach.platform.rpc import ends
from blockattach.platform.rpc.http import client as clients
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire
from blockattach.tests.fixtures import clock as manual
from blockattach.tests.fixtures import polling
from blockattach.tests.unit.rpc import http_peers

Spoken = http_peers.Spoken
LARGE = 'x' * 2 ** 23
"""More than a connection holds that nobody reads from."""
BODY = wire.encode({'result': 'forged', 'failure': None})


def cut(spoken: Spoken) -> None:
    """Reset a connection as a dying process does."""
    spoken.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))


class ClientTest(http_peers.SiteTestCase, unittest.TestCase):
    """Client with a peer that answers by scripts."""

    def peer(self, *scripts: Any) -> http_peers.Peer:
        peer = http_peers.Peer(*scripts)
        self.addCleanup(peer.cut)
        self.store.register(self.topic, 'one', peer.endpoint)
        self.addCleanup(self.store.withdraw, self.topic, 'one', peer.endpoint)
        return peer

    def assert_uncertain(self, *scripts: Any, reason: str = '') -> None:
        """Check that a call is sent once and ends as uncertain."""
        peer = self.peer(*scripts)
        try:
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                self.client('one').echo(self.ctxt, 1)
            self.assertIsInstance(caught.exception.__cause__, oslo_messaging.MessagingTimeout)
            self.assertIn(reason, str(caught.exception.__cause__))
            self.assertEqual(1, peer.end())
            self.assertEqual(1, peer.requests.qsize())
        finally:
            # Where it has failed, the next call must not wait for an answer of this one.
            peer.cut()
            self.store.withdraw(self.topic, 'one', peer.endpoint)

    def test_proved_answer_returned(self) -> None:
        peer = self.peer(lambda spoken: spoken.answer('proved'))
        self.assertEqual('proved', self.client('one').echo(self.ctxt, 1))
        self.assertEqual(1, peer.end())

    def test_forged_answer_uncertain(self) -> None:
        def forge(shown: int, **wrong: Any) -> Any:
            def script(spoken: Spoken) -> None:
                values = {'key': self.own, 'nonce': spoken.hear().nonce, 'status': shown,
                          'body': BODY, **wrong}
                spoken.say(wire.answer(shown, BODY, trust.prove_answer(**values)))
            return script

        other = trust.Key('site', b'another secret that is long enough')
        for script in (forge(200, key=other), forge(200, nonce='0' * 32), forge(200, status=202),
                       forge(200, body=b'{}'), forge(421, key=other), forge(403, status=200)):
            with self.subTest(script):
                self.assert_uncertain(script)

    def test_answer_without_proof_uncertain(self) -> None:
        for status in (200, 202, 400, 401, 403, 421):
            with self.subTest(status):
                self.assert_uncertain(lambda spoken, status=status: (
                    spoken.hear(), spoken.say(wire.answer(status, BODY))))

    def test_malformed_answer_uncertain(self) -> None:
        for data in (b'garbage', b'HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n',
                     b'HTTP/1.1 200 OK\r\n\r\n', b'HTTP/1.1 100 Continue\r\n\r\n',
                     b'HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n',
                     b'HTTP/1.1 200 OK\r\nx: ' + b'x' * wire.HEADER_BYTES,
                     b'HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n' % (wire.BODY_BYTES + 1)):
            with self.subTest(data[:60]):
                self.assert_uncertain(lambda spoken, data=data: (spoken.hear(), spoken.say(data)))

    def test_proved_answer_of_unknown_status_uncertain(self) -> None:
        for status in (202, 400, 503):
            with self.subTest(status):
                self.assert_uncertain(lambda spoken, status=status: spoken.answer(1, status))

    def test_proved_refusal_is_not_reached(self) -> None:
        for status in (421, 403):
            peer = self.peer(lambda spoken, status=status: spoken.answer(1, status))
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                self.client('one').echo(self.ctxt, 1)
            self.assertIsInstance(caught.exception.__cause__, ends.NotReached)
            self.assertEqual(1, peer.end())
            self.store.withdraw(self.topic, 'one', peer.endpoint)

    def test_refusal_of_full_server_is_not_reached(self) -> None:
        """The server answered before reading a request, so the answer has no proof."""
        peer = self.peer(lambda spoken: spoken.say(wire.answer(503, closes=True)))
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('one').echo(self.ctxt, 1)
        self.assertIsInstance(caught.exception.__cause__, ends.NotReached)
        self.assertEqual(1, peer.end())

    def test_call_repeated_soon_after_refusal(self) -> None:
        """The retry does not wait for ``repeat_interval``, because no heartbeat was missed."""
        def refuse(spoken: Spoken) -> None:
            spoken.hear()
            spoken.say(wire.answer(503, closes=True))

        peer = self.peer(refuse, refuse, lambda spoken: spoken.answer(True))
        waits = manual.ManualClock()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answered = pool.submit(
                self.client('one', self.make_bus(clock=waits)).persist, self.ctxt)
            try:
                for seconds in (0.1, 0.2):
                    peer.requests.get(timeout=polling.LIMIT)
                    self.assertTrue(waits.until_waiting(1, polling.LIMIT))
                    waits.advance(seconds)
                self.assertTrue(answered.result(polling.LIMIT))
            finally:
                waits.advance(self.settings.call_timeout)
        self.assertEqual(3, peer.end())

    def test_truncated_answer_uncertain(self) -> None:
        def after(length: int) -> Any:
            def script(spoken: Spoken) -> None:
                nonce = spoken.hear().nonce
                proof = trust.prove_answer(self.own, nonce, 200, BODY)
                spoken.say((wire.opening() + wire.HEARTBEAT + wire.closing(BODY, proof))[:length])
            return script

        for length in (0, 1, 40, len(wire.opening()), len(wire.opening()) + 8, -1, -20):
            with self.subTest(length):
                self.assert_uncertain(after(length))

    def test_reset_during_call_uncertain(self) -> None:
        self.assert_uncertain(lambda spoken: (spoken.hear(), cut(spoken)))

    def test_partly_sent_request_is_not_reached(self) -> None:
        peer = self.peer(lambda spoken: (spoken.socket.recv(1), cut(spoken)))
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('one').echo(self.ctxt, LARGE)
        self.assertIsInstance(caught.exception.__cause__, ends.NotReached)
        self.assertEqual(1, peer.end())

    def test_kept_connection_reset_before_request_sent_replaced(self) -> None:
        peer = self.peer(
            lambda spoken: (spoken.answer('first'), spoken.socket.recv(1), cut(spoken)),
            lambda spoken: spoken.answer('second'))
        self.assertEqual('first', self.client('one').echo(self.ctxt, 1))
        self.assertEqual('second', self.client('one').echo(self.ctxt, LARGE))
        self.assertEqual(2, peer.end())

    def test_kept_connection_reset_after_request_sent_uncertain(self) -> None:
        peer = self.peer(lambda spoken: (spoken.answer('first'), spoken.hear()))
        self.client('one').echo(self.ctxt, 1)
        with self.assertRaises(errors.ServiceUnreachable):
            self.client('one').echo(self.ctxt, 2)
        self.assertEqual(1, peer.end())
        self.assertEqual(2, peer.requests.qsize())

    def test_closed_idle_connection_replaced(self) -> None:
        closed = threading.Event()
        peer = self.peer(lambda spoken: (spoken.answer(1), spoken.socket.close(), closed.set()),
                         lambda spoken: spoken.answer(2))
        self.assertEqual(1, self.client('one').echo(self.ctxt, 1))
        self.assertTrue(closed.wait(polling.LIMIT))
        self.assertEqual(2, self.client('one').echo(self.ctxt, 1))
        self.assertEqual(2, peer.end())

    def test_unexpected_data_closes_idle_connection(self) -> None:
        kept, said = threading.Event(), threading.Event()
        peer = self.peer(lambda spoken: (spoken.answer(1), kept.wait(polling.LIMIT),
                                         spoken.say(b' '), said.set(), spoken.socket.recv(1)),
                         lambda spoken: spoken.answer(2))
        self.client('one').echo(self.ctxt, 1)
        kept.set()
        self.assertTrue(said.wait(polling.LIMIT))
        self.assertEqual(2, self.client('one').echo(self.ctxt, 1))
        self.assertEqual(2, peer.end())

    def test_idle_connection_kept_until_timeout(self) -> None:
        peer = self.peer(lambda spoken: (spoken.answer(1), spoken.answer(2),
                                         spoken.socket.recv(1)),
                         lambda spoken: spoken.answer(3))
        for number, idle in ((1, 0), (2, clients.KEPT_SECONDS - 1), (3, clients.KEPT_SECONDS)):
            self.clock.advance(idle)
            self.assertEqual(number, self.client('one').echo(self.ctxt, 1))
        self.assertEqual(2, peer.end())

    def test_answer_after_heartbeats_returned(self) -> None:
        def script(spoken: Spoken) -> None:
            nonce = spoken.hear().nonce
            spoken.say(wire.opening())
            for _ in range(5):
                spoken.say(wire.HEARTBEAT)
            body = wire.encode({'result': 'late', 'failure': None})
            spoken.say(wire.closing(body, trust.prove_answer(self.own, nonce, 200, body)))

        peer = self.peer(script)
        self.assertEqual('late', self.client('one').echo(self.ctxt, 1))
        self.assertEqual(1, peer.end())

    def test_heartbeats_do_not_extend_deadline(self) -> None:
        def script(spoken: Spoken) -> None:
            spoken.hear()
            self.clock.advance(self.settings.call_timeout)
            with contextlib.suppress(OSError):
                spoken.say(wire.opening())
                while True:
                    spoken.say(wire.HEARTBEAT)

        self.assert_uncertain(script, reason='the deadline passed')

    def test_missing_heartbeat_ends_call_before_timeout(self) -> None:
        peer = self.peer(lambda spoken: (spoken.hear(), spoken.socket.recv(1)))
        client = clients.Client(trust.Keyring(self.own), self.clock)
        self.addCleanup(client.close)
        with self.assertRaises(clients.NoAnswer):
            client.ask(peer.endpoint, self.topic, BODY, clients.Limits(self.clock, 7200, 0.01))
        peer.end()

    def test_unmonitored_call_ends_at_timeout(self) -> None:
        peer = self.peer(lambda spoken: (spoken.hear(), spoken.socket.recv(1)))
        with self.assertRaises(errors.ServiceUnreachable):
            self.client('one').hurry(self.ctxt)
        self.assertEqual(1, peer.end())


if __name__ == '__main__':
    unittest.main()
