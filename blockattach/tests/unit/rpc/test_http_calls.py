"""Calls over HTTP straight to their server, beside another transport."""
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
    """Test case with buses that call over HTTP, and older ones that do not."""

    def setUp(self) -> None:
        self.by = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()

    def make_bus(self, url: str | None = None, **more: Any) -> transport.Bus:
        """Build a bus that calls over HTTP.

        :param url: the transport of all messages other than calls
        """
        direct = transport.build_transport(bus_contract.private_conf(), self.url)
        return super().make_bus(url or self.by, direct=direct, **more)

    def make_older(self) -> transport.Bus:
        return super().make_bus(self.by)


class DirectContractTest(bus_contract.BusContract, DirectCase, unittest.TestCase):
    """Contract of a bus whose calls go over HTTP."""


class DirectTest(DirectCase, unittest.TestCase):
    """Choice between HTTP and the transport."""

    def test_call_sent_over_http(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint, bus=self.make_bus('inproc://elsewhere/'))
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        self.assertEqual(['probe', 1], self.client().echo(self.ctxt, 1))

    def test_cast_and_fanout_sent_over_transport(self) -> None:
        near, far = probe.ProbeEndpoint(), probe.ProbeEndpoint()
        self.serve(far, bus=self.make_bus('inproc://elsewhere/'))
        self.serve(near)
        self.client('one').note(self.ctxt, 1)
        self.client().announce(self.ctxt, 2)
        self.assertEqual([1, 2], [self.heard(near), self.heard(near)])
        self.assertTrue(far.heard.empty())

    def test_server_without_address_called_over_transport(self) -> None:
        self.serve(probe.ProbeEndpoint(), bus=self.make_older())
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        self.client('one').hurry(self.ctxt)

    def test_server_with_address_answers_older_client(self) -> None:
        self.serve(probe.ProbeEndpoint())
        self.assertEqual(['probe', 1], self.client('one', self.make_older()).echo(self.ctxt, 1))

    def test_unreachable_address_called_over_transport(self) -> None:
        """The registered address is left from an earlier start."""
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'one', gone.endpoint)
        self.serve(probe.ProbeEndpoint(), bus=self.make_older())
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))

    def test_unanswered_call_not_repeated_over_transport(self) -> None:
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

    def test_repeatable_call_repeated_over_transport(self) -> None:
        """The process dies with the call, and the next one has no address."""
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
