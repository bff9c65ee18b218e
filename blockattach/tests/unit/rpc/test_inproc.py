"""In-process driver of the bus: the contract, and behavior of this driver alone."""
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
    """Clock that shows the given times one after the other."""

    def __init__(self, *times: float) -> None:
        self._times = iter(times)

    def monotonic(self) -> float:
        return next(self._times)


class InprocDeadlinesTest(bus_deadlines.DeadlinesContract, unittest.TestCase):
    """Contract of deadlines within one process."""

    def setUp(self) -> None:
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()


class InprocBusTest(bus_contract.WithoutBrokerContract, unittest.TestCase):
    """Contract of the bus within one process, and additional behavior."""

    def setUp(self) -> None:
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()

    def test_cast_delivered_when_server_starts(self) -> None:
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

    def test_transports_of_different_urls_separate(self) -> None:
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

    def test_answer_not_serializable_raises_at_once(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with (self.assertLogs('blockattach.platform.rpc.oslo_drivers', 'ERROR'),
              self.assertRaises(errors.BackendUncertain)):
            self.client('one').echo(self.ctxt, 'no data')

    def test_idle_servers_have_no_threads(self) -> None:
        before = threading.active_count()
        for number in range(20):
            self.serve(probe.ProbeEndpoint(), f'host{number}')
        # Those of an earlier test may have ended by now.
        self.assertLessEqual(threading.active_count(), before)

    def test_sequential_calls_reuse_thread(self) -> None:
        self.serve(probe.ProbeEndpoint())
        self.client('one').echo(self.ctxt, 0)
        before = threading.active_count()
        for number in range(50):
            self.client('one').echo(self.ctxt, number)
        # The thread that answered may not be idle yet when the next call comes.
        self.assertLessEqual(threading.active_count(), before + 3)

    def test_closed_bus_unreachable(self) -> None:
        client = self.client('one')
        self.bus.close()
        self.assert_unreachable(client)
        self.bus.close()

    def test_close_stops_servers(self) -> None:
        other = self.make_bus()
        self.serve(probe.ProbeEndpoint(), bus=other)
        self.client('one').echo(self.ctxt, 1)
        other.close()
        self.assert_unreachable(self.client('one'))

    def test_queued_cast_dropped_with_last_transport(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.client('one').note(self.ctxt, 'forgotten')
        self.bus.close()
        self.bus = self.make_bus()
        self.serve(endpoint)
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_stop_during_casts_loses_none(self) -> None:
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
    """Wait of a caller for its answer and for heartbeats."""

    def test_answer_after_heartbeats_returned(self) -> None:
        call = inproc.Call()
        call.beat()
        call.beat()
        call.answer(b'done')
        self.assertEqual(b'done', call.wait(clock.Clock(), 7200, 3600))

    def test_missing_heartbeat_ends_wait_before_timeout(self) -> None:
        with self.assertRaises(queue.Empty):
            inproc.Call().wait(clock.Clock(), 3600, 0.01)

    def test_heartbeats_do_not_extend_timeout(self) -> None:
        call = inproc.Call()
        call.beat()
        with self.assertRaises(queue.Empty):
            call.wait(JumpingClock(0, 1, 10_000), 5000, 3600)

    def test_unmonitored_wait_ends_at_timeout(self) -> None:
        with self.assertRaises(queue.Empty):
            inproc.Call().wait(clock.Clock(), 0.01, None)


class BrokerTest(unittest.TestCase):
    """Queues, which keep a limited number of unread messages."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = inproc.Broker()
        self.address = inproc.Address('exchange', 'topic')

    def kept(self, address: inproc.Address | None = None) -> list[bytes]:
        listener = inproc.InprocListener(self.broker, (self.address,), 1)
        return [letter.body for letter in
                self.broker.subscribe(listener, (address or self.address,))]

    def test_messages_kept_in_order(self) -> None:
        for body in (b'1', b'2'):
            self.broker.post(inproc.Letter(self.address, body))
        self.broker.post(inproc.Letter(self.address, b'0'), first=True)
        self.assertEqual([b'0', b'1', b'2'], self.kept())

    def test_message_beyond_limit_refused(self) -> None:
        for _ in range(inproc.QUEUE_LIMIT):
            self.broker.post(inproc.Letter(self.address, b''))
        with self.assertRaises(oslo_messaging.MessageDeliveryFailure):
            self.broker.post(inproc.Letter(self.address, b''))
        self.assertEqual(inproc.QUEUE_LIMIT, len(self.kept()))

    def test_notification_beyond_limit_drops_oldest(self) -> None:
        with self.assertLogs('blockattach.platform.rpc.inproc', 'WARNING') as logs:
            for number in range(inproc.QUEUE_LIMIT + 2):
                self.broker.publish(self.address, b'%d' % number)
        kept = self.kept()
        self.assertEqual(inproc.QUEUE_LIMIT, len(kept))
        self.assertEqual(b'2', kept[0])
        self.assertEqual(1, len(logs.records))

    def test_withdrawn_message_not_delivered(self) -> None:
        letters = [inproc.Letter(self.address, b'same') for _ in range(2)]
        for letter in letters:
            self.broker.post(letter)
        self.broker.withdraw(letters[0])
        self.broker.withdraw(letters[0])
        self.assertEqual([b'same'], self.kept())

    def test_pool_gets_notifications_since_subscription(self) -> None:
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
