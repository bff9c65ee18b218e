"""The bus within one process: the contract, and what only this driver promises."""
import queue
import threading
import unittest
import uuid

import oslo_messaging

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform.rpc import inproc
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import bus_deadlines
from blockattach.tests.unit.rpc import probe


class JumpingClock(clock.Clock):
    """Shows the times it is given, one after the other."""

    def __init__(self, *times: float) -> None:
        self._times = iter(times)

    def monotonic(self) -> float:
        return next(self._times)


class InprocDeadlinesTest(bus_deadlines.DeadlinesContract, unittest.TestCase):
    """Deadlines travel here as everywhere."""

    def setUp(self) -> None:
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()


class InprocBusTest(bus_contract.WithoutBrokerContract, unittest.TestCase):
    """Our driver does what RabbitMQ's does, and more."""

    def setUp(self) -> None:
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()

    def test_a_cast_waits_for_its_server(self) -> None:
        endpoint = probe.ProbeEndpoint()
        for number in range(5):
            self.client('one').note(self.ctxt, number)
        server = self.serve(endpoint)
        self.assertEqual(set(range(5)), {self.heard(endpoint) for _ in range(5)})
        server.stop()
        self.client('one').note(self.ctxt, 'while it was away')
        self.assertTrue(endpoint.heard.empty())
        server.start()
        self.assertEqual('while it was away', self.heard(endpoint))

    def test_two_urls_do_not_hear_each_other(self) -> None:
        for url in (f'inproc://{uuid.uuid4().hex}/', self.url + 'vhost'):
            endpoint = probe.ProbeEndpoint()
            stranger = probe.ProbeEndpoint()
            with self.subTest(url):
                other = self.make_bus(url)
                server = self.serve(endpoint)
                self.assert_unreachable(self.client('one', other))
                self.serve(stranger, 'one', other)
                self.client().announce(self.ctxt, 'here')
                self.client('one').note(self.ctxt, 'here')
                self.client('one', other).note(self.ctxt, 'there')
                self.assertEqual(['here', 'here'], [self.heard(endpoint) for _ in range(2)])
                self.assertEqual('there', self.heard(stranger))
                self.assertTrue(stranger.heard.empty())
                server.stop()

    def test_an_answer_that_is_no_plain_data_is_an_error_at_once(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with (self.assertLogs('blockattach.platform.rpc.oslo_drivers', 'ERROR'),
              self.assertRaises(errors.BackendUncertain)):
            self.client('one').echo(self.ctxt, 'no data')

    def test_idle_servers_have_no_thread_that_could_spin(self) -> None:
        before = threading.active_count()
        for number in range(20):
            self.serve(probe.ProbeEndpoint(), f'host{number}')
        # Those of an earlier test may have ended by now.
        self.assertLessEqual(threading.active_count(), before)

    def test_calls_one_after_the_other_need_one_thread(self) -> None:
        self.serve(probe.ProbeEndpoint())
        self.client('one').echo(self.ctxt, 0)
        before = threading.active_count()
        for number in range(50):
            self.client('one').echo(self.ctxt, number)
        # The thread that answered may not be idle yet when the next call comes.
        self.assertLessEqual(threading.active_count(), before + 3)

    def test_a_closed_bus_takes_nothing(self) -> None:
        client = self.client('one')
        self.bus.close()
        self.assert_unreachable(client)
        self.bus.close()

    def test_closing_stops_its_servers(self) -> None:
        other = self.make_bus()
        self.serve(probe.ProbeEndpoint(), bus=other)
        self.client('one').echo(self.ctxt, 1)
        other.close()
        self.assert_unreachable(self.client('one'))

    def test_what_waited_goes_with_the_last_transport(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.client('one').note(self.ctxt, 'forgotten')
        self.bus.close()
        self.bus = self.make_bus()
        self.serve(endpoint)
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_a_server_may_stop_while_all_send_to_it(self) -> None:
        endpoint = probe.ProbeEndpoint()
        server = self.serve(endpoint)
        client = self.client('one')

        def send() -> None:
            for number in range(100):
                client.note(self.ctxt, number)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            server.stop()
            server.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(list(range(100)) * 8),
                         sorted(self.heard(endpoint) for _ in range(800)))


class CallTest(unittest.TestCase):
    """A caller waits for an answer, and with a monitor for heartbeats."""

    def test_beats_are_no_answer(self) -> None:
        call = inproc.Call()
        call.beat()
        call.beat()
        call.answer(b'done')
        self.assertEqual(b'done', call.wait(clock.Clock(), 7200, 3600))

    def test_without_a_beat_it_gives_up_before_its_time(self) -> None:
        with self.assertRaises(queue.Empty):
            inproc.Call().wait(clock.Clock(), 3600, 0.01)

    def test_beats_do_not_go_on_for_ever(self) -> None:
        call = inproc.Call()
        call.beat()
        with self.assertRaises(queue.Empty):
            call.wait(JumpingClock(0, 1, 10_000), 5000, 3600)

    def test_without_a_monitor_only_the_time_counts(self) -> None:
        with self.assertRaises(queue.Empty):
            inproc.Call().wait(clock.Clock(), 0.01, None)


class BrokerTest(unittest.TestCase):
    """Queues keep what nobody reads, within a limit."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = inproc.Broker()
        self.address = inproc.Address('exchange', 'topic')

    def kept(self, address: inproc.Address | None = None) -> list[bytes]:
        listener = inproc.InprocListener(self.broker, (self.address,), 1)
        return [letter.body for letter in
                self.broker.subscribe(listener, (address or self.address,))]

    def test_the_order_is_kept(self) -> None:
        for body in (b'1', b'2'):
            self.broker.post(inproc.Letter(self.address, body))
        self.broker.post(inproc.Letter(self.address, b'0'), first=True)
        self.assertEqual([b'0', b'1', b'2'], self.kept())

    def test_too_many_messages_are_refused(self) -> None:
        for _ in range(inproc.QUEUE_LIMIT):
            self.broker.post(inproc.Letter(self.address, b''))
        with self.assertRaises(oslo_messaging.MessageDeliveryFailure):
            self.broker.post(inproc.Letter(self.address, b''))
        self.assertEqual(inproc.QUEUE_LIMIT, len(self.kept()))

    def test_too_many_notifications_push_out_the_oldest(self) -> None:
        with self.assertLogs('blockattach.platform.rpc.inproc', 'WARNING') as logs:
            for number in range(inproc.QUEUE_LIMIT + 2):
                self.broker.publish(self.address, b'%d' % number)
        kept = self.kept()
        self.assertEqual(inproc.QUEUE_LIMIT, len(kept))
        self.assertEqual(b'2', kept[0])
        self.assertEqual(1, len(logs.records))

    def test_what_is_withdrawn_is_not_read(self) -> None:
        letters = [inproc.Letter(self.address, b'same') for _ in range(2)]
        for letter in letters:
            self.broker.post(letter)
        self.broker.withdraw(letters[0])
        self.broker.withdraw(letters[0])
        self.assertEqual([b'same'], self.kept())

    def test_a_pool_gets_a_copy_from_the_time_it_is_known(self) -> None:
        pool = self.address._replace(pool='audit')
        self.broker.publish(self.address, b'before')
        listener = inproc.InprocListener(self.broker, (pool,), 1)
        self.broker.subscribe(listener, (pool,))
        self.broker.unsubscribe(listener, (pool,))
        self.broker.publish(self.address, b'after')
        self.assertEqual([b'after'], self.kept(pool))
        self.assertEqual([b'before', b'after'], self.kept())


if __name__ == '__main__':
    unittest.main()
