"""Behavior of a bus while time passes, over each transport."""
import concurrent.futures
import dataclasses
import queue
import threading
import unittest
import uuid
from typing import TYPE_CHECKING

from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe
from blockattach.tests.unit.rpc import test_rabbit

if TYPE_CHECKING:
    Base = bus_contract.BusTestCase
else:
    Base = object

MANY = 10_000
# A listening server receives a message at once, unless the machine is busy.
PROMPT = 1.0
TRIES = 10
LONGER = 3


class WhileTimePasses(Base):
    """Base class, to be combined with a transport."""

    def test_message_to_stopping_server_kept_for_next_server(self) -> None:
        for _ in range(TRIES):
            endpoint = probe.ProbeEndpoint()
            sent = self.unheard_while_it_ends(endpoint)
            following = probe.ProbeEndpoint()
            server = self.serve(following)
            if endpoint.heard.empty():
                self.assertEqual(sent, self.heard(following))
                return
            # The server was listening and slow. It receives the message, and the next server does
            # not.
            self.assertEqual(sent, self.heard(endpoint))
            self.client('one').echo(self.ctxt, 1)
            self.assertTrue(following.heard.empty())
            server.stop()
        self.fail('the server received the message in every attempt')

    def unheard_while_it_ends(self, endpoint: probe.ProbeEndpoint) -> int:
        """Stop a server and return the first message that it did not receive promptly."""
        server = self.serve(endpoint)
        client = self.client('one')
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            pool.submit(client.meet, self.ctxt)
            self.assertTrue(endpoint.entered.acquire(timeout=probe.LIMIT))
            stop = pool.submit(server.stop)
            sent = 0
            with self.assertRaises(queue.Empty):
                while sent < MANY:
                    sent += 1
                    client.note(self.ctxt, sent)
                    self.assertEqual(sent, endpoint.heard.get(timeout=PROMPT))
            assert isinstance(endpoint.gate, threading.Event)
            endpoint.gate.set()
            stop.result(probe.LIMIT)
        return sent

    def test_a_call_that_is_worked_on_is_not_sent_again(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        # Long enough that a busy machine does not delay a heartbeat for as long.
        self.settings = dataclasses.replace(self.settings, repeat_interval=LONGER)
        client = self.client('one', self.make_bus())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(client.persist, self.ctxt)
            self.assertTrue(endpoint.entered.acquire(timeout=probe.LIMIT))
            self.assertFalse(endpoint.entered.acquire(timeout=LONGER + 1))
            endpoint.gate.set()
            self.assertTrue(call.result(probe.LIMIT))


class RabbitTest(test_rabbit.Rabbit, WhileTimePasses, bus_contract.BusTestCase,
                 unittest.TestCase):
    ...


class InprocTest(WhileTimePasses, bus_contract.BusTestCase, unittest.TestCase):
    def setUp(self) -> None:
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()
