"""The bus over HTTP, server by server: the contract, and what only this driver promises."""
import concurrent.futures
import threading
import unittest
import uuid

import oslo_messaging
from oslo_messaging._drivers import base

from blockattach import errors
from blockattach.rpc import transport
from blockattach.rpc.http import endpoints
from blockattach.tests.fixtures import polling
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import bus_deadlines
from blockattach.tests.unit.rpc import http_peers
from blockattach.tests.unit.rpc import probe


class HttpDeadlinesTest(bus_deadlines.DeadlinesContract, unittest.TestCase):
    """Deadlines travel here as everywhere."""

    def setUp(self) -> None:
        self.url = f'http:///{uuid.uuid4().hex}'
        super().setUp()


class HttpBusTest(bus_contract.WithoutBrokerContract, unittest.TestCase):
    """Our driver does what RabbitMQ's does, but for what a queue is needed for."""

    def setUp(self) -> None:
        self.url = f'http:///{uuid.uuid4().hex}'
        super().setUp()

    def test_a_cast_to_nobody_is_an_error_at_once(self) -> None:
        for client in (self.client('one'), self.client()):
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                client.note(self.ctxt, 1)
            self.assertIn('nobody listens', str(caught.exception))

    def test_two_urls_do_not_hear_each_other(self) -> None:
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

    def test_an_answer_that_is_no_plain_data_is_an_error_at_once(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with (self.assertLogs('blockattach.rpc.http', 'ERROR'),
              self.assertRaises(errors.BackendUncertain)):
            self.client('one').echo(self.ctxt, 'no data')

    def test_what_is_too_large_fails_at_the_sender(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with self.assertRaises(ValueError):
            self.client('one').echo(self.ctxt, 'x' * 2 ** 24)
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))

    def test_a_large_message_goes_both_ways(self) -> None:
        self.serve(probe.ProbeEndpoint())
        value = 'x' * 2 ** 23
        self.assertEqual(['probe', value], self.client('one').echo(self.ctxt, value))

    def test_a_closed_bus_takes_nothing(self) -> None:
        client = self.client('one')
        self.bus.close()
        self.assert_unreachable(client)
        self.bus.close()

    def test_closing_stops_its_servers_when_they_have_answered(self) -> None:
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

    def test_a_server_may_stop_while_all_send_to_it(self) -> None:
        """What was not refused is done, and once."""
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

    def test_it_carries_no_notifications(self) -> None:
        driver = self.bus._transport._driver
        for ask in (lambda: driver.send_notification(None, {}, {}, 2.0),
                    lambda: driver.listen_for_notifications([], None, 1, None)):
            with self.assertRaisesRegex(base.TransportDriverError, 'no notifications'):
                ask()

    def test_there_is_no_broker_to_be_reached(self) -> None:
        conf = bus_contract.private_conf()
        found = transport.BrokerProbe(conf, self.bus._transport, self.settings, self.url)
        self.assertFalse(found.needed)
        self.assertIn('none', found.broker)
        self.assertIsNone(found.wrong())


class AddressTest(http_peers.SiteTestCase, unittest.TestCase):
    """Nothing leaves this host as long as it is not encrypted."""

    def test_it_listens_at_an_address_of_this_host_only(self) -> None:
        for place in ('192.0.2.1', '0.0.0.0', '[::]', 'storage.example.org',
                      '127.0.0.1,127.0.0.2'):
            bus = self.make_bus(f'http://{place}/{uuid.uuid4().hex}')
            with self.subTest(place), self.assertRaises(errors.ConfigurationError):
                self.serve(probe.ProbeEndpoint(), bus=bus)

    def test_it_sends_to_an_address_of_this_host_only(self) -> None:
        for host in ('192.0.2.1', 'storage.example.org', 'localhost'):
            self.store.register(self.topic, host, endpoints.Endpoint(host, 1, 'x'))
            with self.subTest(host), self.assertRaises(errors.ConfigurationError):
                self.client(host).hurry(self.ctxt)

    def test_it_listens_where_the_url_says(self) -> None:
        for place, host in (('localhost', '127.0.0.1'), ('127.0.0.2', '127.0.0.2')):
            url = f'http://{place}:0/{uuid.uuid4().hex}'
            self.provide(url, self.own)
            self.serve(probe.ProbeEndpoint(), place, self.make_bus(url))
            found, = self.store.find(self.topic, place)
            self.assertEqual(host, found.host)
            self.assertEqual(['probe', 1], self.client(place).echo(self.ctxt, 1))

    def test_an_address_that_is_taken_is_an_error(self) -> None:
        self.serve(probe.ProbeEndpoint())
        found, = self.store.find(self.topic)
        bus = self.make_bus(f'http://127.0.0.1:{found.port}/{uuid.uuid4().hex}')
        with self.assertRaisesRegex(errors.ConfigurationError, f'127.0.0.1:{found.port}'):
            self.serve(probe.ProbeEndpoint(), bus=bus)

    def test_an_url_in_use_has_its_site_already(self) -> None:
        with self.assertRaises(ValueError):
            self.provide(self.url, self.own)


class OtherServerTest(http_peers.SiteTestCase, unittest.TestCase):
    """One that does not have the message, and one that may."""

    def test_one_that_is_gone_is_passed_over(self) -> None:
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'gone', gone.endpoint)
        self.serve(probe.ProbeEndpoint('here'), 'here')
        for _ in range(4):
            self.assertEqual(['here', 1], self.client().echo(self.ctxt, 1))
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('gone').hurry(self.ctxt)
        self.assertIn('Connection refused', str(caught.exception))

    def test_a_call_to_nobody_is_repeated_at_its_interval(self) -> None:
        client = self.client('one', self.make_bus(clock=self.clock))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(client.persist, self.ctxt)
            try:
                for count in (1, 2, 3):
                    polling.until(lambda count=count: self.store.asked >= count)
                    self.assertEqual(count, self.store.asked)
                    self.clock.advance(self.settings.repeat_interval)
            finally:
                self.clock.advance(self.settings.call_timeout)
            with self.assertRaises(errors.ServiceUnreachable) as caught:
                call.result(probe.LIMIT)
        self.assertIsInstance(caught.exception.__cause__, endpoints.NotReached)

    def test_a_fanout_reaches_those_that_are_there(self) -> None:
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'gone', gone.endpoint)
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        with self.assertLogs('blockattach.rpc.http', 'WARNING') as logs:
            self.client().announce(self.ctxt, 'all')
        self.assertEqual(1, len(logs.records))
        self.assertEqual('all', self.heard(endpoint))

    def test_one_that_may_have_it_is_not_passed_over(self) -> None:
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
