"""HTTP driver of the bus: the contract, and behavior of this driver alone."""
import concurrent.futures
import contextlib
import socket
import struct
import threading
import unittest
import uuid
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_messaging._drivers import base

from blockattach.platform import errors
from blockattach.platform.rpc import ends
from blockattach.platform.rpc import transport
from blockattach.platform.rpc.http import sites
from blockattach.tests.fixtures import polling
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import bus_deadlines
from blockattach.tests.unit.rpc import http_peers
from blockattach.tests.unit.rpc import probe

RESET = 200


class HttpDeadlinesTest(bus_deadlines.DeadlinesContract, unittest.TestCase):
    """Contract of deadlines over HTTP."""

    def setUp(self) -> None:
        self.url = f'http:///{uuid.uuid4().hex}'
        super().setUp()


class HttpBusTest(bus_contract.WithoutBrokerContract, unittest.TestCase):
    """Contract of the bus over HTTP, and behavior without queues."""

    def setUp(self) -> None:
        self.url = f'http:///{uuid.uuid4().hex}'
        super().setUp()

    def test_cast_without_server_raises_at_once(self) -> None:
        for client in (self.client('one'), self.client()):
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                client.note(self.ctxt, 1)
            self.assertIn('no server listens', str(caught.exception))

    def test_transports_of_different_urls_separate(self) -> None:
        endpoint, stranger = probe.ProbeEndpoint(), probe.ProbeEndpoint()
        other = self.make_bus(f'http:///{uuid.uuid4().hex}')
        self.serve(endpoint)
        self.assert_unreachable(self.client('one', other))
        self.serve(stranger, 'one', other)
        self.client().announce(self.ctxt, 'here')
        self.client('one', other).note(self.ctxt, 'there')
        self.assertEqual('here', self.heard(endpoint))
        self.assertEqual('there', self.heard(stranger))
        self.assertTrue(endpoint.heard.empty() and stranger.heard.empty())

    def test_answer_not_serializable_raises_at_once(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with (self.assertLogs('blockattach.platform.rpc.oslo_drivers', 'ERROR'),
              self.assertRaises(errors.BackendUncertain)):
            self.client('one').echo(self.ctxt, 'no data')

    def test_too_large_message_fails_at_sender(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with self.assertRaises(ValueError):
            self.client('one').echo(self.ctxt, 'x' * 2 ** 24)
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))

    def test_large_message_sent_and_answered(self) -> None:
        self.serve(probe.ProbeEndpoint())
        value = 'x' * 2 ** 23
        self.assertEqual(['probe', value], self.client('one').echo(self.ctxt, value))

    def test_closed_bus_unreachable(self) -> None:
        client = self.client('one')
        self.bus.close()
        self.assert_unreachable(client)
        self.bus.close()

    def test_close_waits_for_running_call(self) -> None:
        other, endpoint = self.make_bus(), probe.ProbeEndpoint()
        self.serve(endpoint, bus=other)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(self.client('one').meet, self.ctxt)
            self.assertTrue(endpoint.entered.acquire(timeout=probe.LIMIT))
            other.close()
            self.assert_unreachable(self.client('one'))
            assert isinstance(endpoint.gate, threading.Event)
            endpoint.gate.set()
            self.assertTrue(call.result(probe.LIMIT))
        self.assert_unreachable(self.client('one'))

    def test_stop_during_casts_loses_and_repeats_none(self) -> None:
        """Each accepted cast is handled exactly once."""
        endpoint = probe.ProbeEndpoint()
        server = self.serve(endpoint)
        client = self.client('one')

        def send(thread: int) -> list[int]:
            taken = []
            for number in range(100):
                try:
                    client.note(self.ctxt, 100 * thread + number)
                except errors.ServiceUnreachable:
                    continue
                taken.append(100 * thread + number)
            return taken

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            sending = [pool.submit(send, thread) for thread in range(8)]
            for _ in range(10):
                server.stop()
                server.start()
            taken = sorted(sum((each.result() for each in sending), []))
        server.stop()
        self.assertEqual(taken, sorted(endpoint.heard.get() for _ in taken))
        self.assertTrue(endpoint.heard.empty())

    def test_notifications_not_supported(self) -> None:
        driver = self.bus._transport._driver
        for ask in (lambda: driver.send_notification(None, {}, {}, 2.0),
                    lambda: driver.listen_for_notifications([], None, 1, None)):
            with self.assertRaisesRegex(base.TransportDriverError, 'not support notifications'):
                ask()

    def test_broker_probe_not_needed(self) -> None:
        conf = bus_contract.private_conf()
        found = transport.BrokerProbe(conf, self.bus._transport, self.settings, self.url)
        self.assertFalse(found.needed)
        self.assertIn('none', found.broker)
        self.assertIsNone(found.wrong())


class AddressTest(http_peers.SiteTestCase, unittest.TestCase):
    """Addresses to listen on and to send to."""

    def serve_at(self, *listen: Any, advertise: Any = None) -> sites.Endpoint:
        url = f'http:///{uuid.uuid4().hex}'
        self.provide(url, self.own, listen=listen, advertise=advertise)
        bus = self.make_bus(url)
        self.serve(probe.ProbeEndpoint(), url, bus)
        self.assertEqual(['probe', 1], self.client(url).echo(self.ctxt, 1))
        found, = self.store.find(self.topic, url)
        return found

    def test_unencrypted_call_to_other_host_refused(self) -> None:
        for host in ('192.0.2.1', 'storage.example.org', 'localhost'):
            self.store.register(self.topic, host, sites.Endpoint(host, 1, 'x'))
            with self.subTest(host), self.assertRaises(errors.ConfigurationError):
                self.client(host).hurry(self.ctxt)

    def test_server_listens_on_configured_address(self) -> None:
        found = self.serve_at('127.0.0.2', 0)
        self.assertEqual(('127.0.0.2', None), (found.host, found.fingerprint))

    def test_server_registers_advertised_address(self) -> None:
        found = self.serve_at('0.0.0.0', 0, advertise=('127.0.0.3', 0))
        self.assertEqual(('127.0.0.3', None), (found.host, found.fingerprint))

    def test_address_in_url_rejected(self) -> None:
        bus = self.make_bus('http://127.0.0.1:0/here')
        with self.assertRaisesRegex(errors.ConfigurationError, 'rpc. listen'):
            self.serve(probe.ProbeEndpoint(), bus=bus)

    def test_listen_on_used_address_refused(self) -> None:
        self.serve(probe.ProbeEndpoint())
        found, = self.store.find(self.topic)
        with self.assertRaisesRegex(errors.ConfigurationError, f'127.0.0.1:{found.port}'):
            self.serve_at('127.0.0.1', found.port)

    def test_second_site_for_url_rejected(self) -> None:
        with self.assertRaises(ValueError):
            self.provide(self.url, self.own)


class TlsBusTest(bus_contract.WithoutBrokerContract, http_peers.SiteTestCase, unittest.TestCase):
    """Contract of the bus over HTTPS, with an advertised host name."""

    more = {'advertise': ('localhost', 0)}

    def captured(self, run: Callable[[], None]) -> bytes:
        """Return the bytes that a client sends to the address of a server."""
        peer = http_peers.Peer(lambda spoken: seen.append(spoken.socket.recv(65536)))
        self.addCleanup(peer.cut)
        seen: list[bytes] = []
        real, = self.store.find(self.topic, 'one')
        self.store.withdraw(self.topic, 'one', real)
        self.store.register(self.topic, 'one', real._replace(port=peer.endpoint.port))
        run()
        peer.end()
        self.store.register(self.topic, 'one', real)
        return seen[0]

    def test_call_sent_encrypted(self) -> None:
        self.serve(probe.ProbeEndpoint())

        def send() -> None:
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                self.client('one').echo(self.ctxt, 'credential')
            self.assertIsInstance(caught.exception.__cause__, ends.NotReached)

        seen = self.captured(send)
        self.assertEqual(b'\x16\x03', seen[:2])
        self.assertNotIn(b'credential', seen)
        self.assertNotIn(b'rpc', seen)

    def test_wrong_certificate_refused_before_sending(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        real, = self.store.find(self.topic, 'one')
        self.store.register(self.topic, 'two', real._replace(fingerprint=64 * '0'))
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('two').echo(self.ctxt, 1)
        self.assertIn('certificate', str(caught.exception))
        self.assertEqual([], endpoint.contexts)

    def test_reset_connections_delay_no_other_call(self) -> None:
        self.serve(probe.ProbeEndpoint())
        found, = self.store.find(self.topic)
        for _ in range(RESET):
            with socket.create_connection((found.host, found.port), probe.LIMIT) as connection:
                connection.sendall(b'x')
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))

    def test_unencrypted_request_refused(self) -> None:
        self.serve(probe.ProbeEndpoint())
        raw = http_peers.RawCaller(self.store, self.topic, self.clock, self.own)
        with contextlib.suppress(OSError):
            self.assertNotIn(b'HTTP', raw.speak(raw.written()))
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))


class LookupTest(http_peers.SiteTestCase, unittest.TestCase):
    """Cached lookups of servers in the directory."""

    def asked_for(self, calls: int = 1) -> int:
        before = self.store.asked
        for _ in range(calls):
            self.client('one').echo(self.ctxt, 1)
        return self.store.asked - before

    def test_directory_lookup_cached(self) -> None:
        self.serve(probe.ProbeEndpoint())
        self.assertEqual(1, self.asked_for(calls=10))
        self.clock.advance(sites.FRESH_SECONDS)
        self.assertEqual(1, self.asked_for(calls=10))

    def test_moved_server_found_at_once(self) -> None:
        first = self.serve(probe.ProbeEndpoint())
        self.asked_for()
        first.stop()
        self.serve(probe.ProbeEndpoint('moved'), bus=self.make_bus())
        self.assertEqual(['moved', 1], self.client('one').echo(self.ctxt, 1))
        self.assertEqual(0, self.asked_for())

    def test_new_server_found_at_once(self) -> None:
        self.assert_unreachable(self.client('one'))
        self.serve(probe.ProbeEndpoint())
        self.asked_for()

    def test_servers_of_same_name_share_calls(self) -> None:
        members = [probe.ProbeEndpoint(str(number)) for number in range(3)]
        for member in members:
            self.serve(member, bus=self.make_bus())
        self.asked_for(calls=9)
        self.assertEqual([3, 3, 3], [len(member.contexts) for member in members])


class OtherServerTest(http_peers.SiteTestCase, unittest.TestCase):
    """Choice of another server when one cannot be reached or does not answer."""

    def test_call_passes_over_unreachable_server(self) -> None:
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'gone', gone.endpoint)
        self.serve(probe.ProbeEndpoint('here'), 'here')
        for _ in range(4):
            self.assertEqual(['here', 1], self.client().echo(self.ctxt, 1))
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('gone').hurry(self.ctxt)
        self.assertIn('Connection refused', str(caught.exception))

    def test_call_without_server_repeated_with_backoff(self) -> None:
        """The call was certainly not handled, so it is repeated at once without heartbeats."""
        client = self.client('one', self.make_bus(clock=self.clock))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(client.persist, self.ctxt)
            try:
                for count, pause in ((1, 0.11), (2, 0.21), (3, 0.41), (4, 0)):
                    polling.until(lambda count=count: self.store.asked >= count)
                    self.assertEqual(count, self.store.asked)
                    self.clock.advance(pause)
            finally:
                self.clock.advance(self.settings.call_timeout)
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                call.result(probe.LIMIT)
        self.assertIsInstance(caught.exception.__cause__, ends.NotReached)

    def test_fanout_reaches_remaining_servers(self) -> None:
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'gone', gone.endpoint)
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        with self.assertLogs('blockattach.platform.rpc.http', 'WARNING') as logs:
            self.client().announce(self.ctxt, 'all')
        self.assertEqual(1, len(logs.records))
        self.assertEqual('all', self.heard(endpoint))

    def test_fanout_sent_concurrently(self) -> None:
        meeting = threading.Barrier(2)

        def answer(spoken: http_peers.Spoken) -> None:
            meeting.wait(probe.LIMIT)
            spoken.answer(status=202)

        for name in ('a', 'b'):
            peer = http_peers.Peer(answer)
            self.addCleanup(peer.cut)
            self.store.register(self.topic, name, peer.endpoint)
        with self.assertNoLogs('blockattach.platform.rpc.http', 'WARNING'):
            self.client().announce(self.ctxt, 'all')

    def test_unanswered_call_not_sent_to_other_server(self) -> None:
        silent = http_peers.Peer(http_peers.Spoken.hear)
        self.addCleanup(silent.cut)
        endpoint = probe.ProbeEndpoint()
        self.store.register(self.topic, 'silent', silent.endpoint)
        self.serve(endpoint)
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client().echo(self.ctxt, 1)
        self.assertIsInstance(caught.exception.__cause__, oslo_messaging.MessagingTimeout)
        self.assertEqual(1, silent.end())
        self.assertEqual([], endpoint.contexts)


if __name__ == '__main__':
    unittest.main()
