"""Calls that go straight to their server, and everything else by the transport."""
import unittest
import uuid
from typing import Any

import oslo_messaging

from blockattach.platform import errors
from blockattach.platform.rpc import transport
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import http_peers
from blockattach.tests.unit.rpc import probe


class DirectCase(http_peers.SiteTestCase):
    """Buses whose calls go over HTTP, and those of processes that know nothing of that."""

    def setUp(self) -> None:
        self.by = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()

    def make_bus(self, url: str | None = None, **more: Any) -> transport.Bus:
        """:param url: where everything but calls goes"""
        direct = transport.build_transport(bus_contract.private_conf(), self.url)
        return super().make_bus(url or self.by, direct=direct, **more)

    def make_older(self) -> transport.Bus:
        return super().make_bus(self.by)


class DirectContractTest(bus_contract.BusContract, DirectCase, unittest.TestCase):
    """It is a bus like any other."""


class DirectTest(DirectCase, unittest.TestCase):
    """Which way a message goes."""

    def test_a_call_does_not_need_the_transport(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint, bus=self.make_bus('inproc://elsewhere/'))
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        self.assertEqual(['probe', 1], self.client().echo(self.ctxt, 1))

    def test_casts_and_fanouts_go_by_it(self) -> None:
        near, far = probe.ProbeEndpoint(), probe.ProbeEndpoint()
        self.serve(far, bus=self.make_bus('inproc://elsewhere/'))
        self.serve(near)
        self.client('one').note(self.ctxt, 1)
        self.client().announce(self.ctxt, 2)
        self.assertEqual([1, 2], [self.heard(near), self.heard(near)])
        self.assertTrue(far.heard.empty())

    def test_a_server_at_no_address_is_called_by_it(self) -> None:
        self.serve(probe.ProbeEndpoint(), bus=self.make_older())
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        self.client('one').hurry(self.ctxt)

    def test_and_it_is_heard_from_processes_that_do_not_call_directly(self) -> None:
        self.serve(probe.ProbeEndpoint())
        self.assertEqual(['probe', 1], self.client('one', self.make_older()).echo(self.ctxt, 1))

    def test_one_that_refuses_is_called_by_it(self) -> None:
        """Its address is that of an earlier start, or of nobody."""
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'one', gone.endpoint)
        self.serve(probe.ProbeEndpoint(), bus=self.make_older())
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))

    def test_one_that_may_have_it_is_not_called_again(self) -> None:
        silent = http_peers.Peer(http_peers.Spoken.hear)
        self.addCleanup(silent.cut)
        self.store.register(self.topic, 'one', silent.endpoint)
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint, bus=self.make_older())
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            self.client('one').echo(self.ctxt, 1)
        self.assertIsInstance(caught.exception.__cause__, oslo_messaging.MessagingTimeout)
        self.assertEqual(1, silent.end())
        self.assertEqual([], endpoint.contexts)

    def test_but_what_may_be_done_twice_is(self) -> None:
        """The process dies with the call, and the next one listens at no address."""
        def die(spoken: http_peers.Spoken) -> None:
            spoken.hear()
            dying.cut()

        dying = http_peers.Peer(die)
        self.store.register(self.topic, 'one', dying.endpoint)
        endpoint = probe.ProbeEndpoint()
        endpoint.gate.set()
        self.serve(endpoint, bus=self.make_older())
        self.assertTrue(self.client('one').persist(self.ctxt))
        self.assertEqual(1, dying.end())


if __name__ == '__main__':
    unittest.main()
