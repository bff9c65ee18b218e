"""Contract of how calls end over each transport, as test cases to subclass."""
import dataclasses
import re
import threading
from collections.abc import Callable
from typing import Any

from blockattach.platform import context
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import ends
from blockattach.platform.rpc import transport
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe

ROWS = {end.name: end for end in ends.ENDS}
FIELD = re.compile(r'%\(\w+\)s')
RELEASES = (contract.Release('1', {'probe': '1.0'}, {}),
            contract.Release('2', {'probe': '1.1'}, {}))


class SilentEndpoint(probe.ProbeEndpoint):
    """Endpoint that starts a call and does not answer."""

    def hurry(self, ctxt: context.RequestContext) -> None:
        super().hurry(ctxt)
        self.gate.wait(probe.LIMIT)


class EndsContract(bus_contract.BusTestCase):
    """Calls that end as the rows of the table say."""

    def setUp(self) -> None:
        super().setUp()
        self.endpoint = SilentEndpoint()

    def assert_ends(self, name: str, call: Callable[..., Any], *arguments: Any) -> None:
        row = ROWS[name]
        with self.assertRaises(row.error) as caught:
            call(self.ctxt, *arguments)
        self.assertIs(row.error, type(caught.exception))
        if row.text is not None:
            for part in FIELD.split(row.text):
                self.assertIn(part, str(caught.exception))
        if row.work is ends.Work.NOT_BEGUN:
            self.assertEqual([], self.endpoint.contexts)
            self.assertTrue(self.endpoint.heard.empty())

    def young(self, bus: transport.Bus) -> probe.YoungClient:
        return probe.YoungClient(bus.client(probe.YoungInterface, server='one'))

    def test_late(self) -> None:
        self.serve(self.endpoint)
        self.ctxt.deadline = 0.0
        self.assert_ends('late', self.client('one').echo, 1)

    def test_unanswered(self) -> None:
        self.serve(self.endpoint)
        assert isinstance(self.endpoint.gate, threading.Event)
        self.addCleanup(self.endpoint.gate.set)
        self.assert_ends('unanswered', self.client('one').hurry)
        self.assertEqual('hurry', self.heard(self.endpoint))

    def test_pinned(self) -> None:
        self.serve(self.endpoint)
        self.settings = dataclasses.replace(self.settings, release='1')
        pinned = self.make_bus(releases=RELEASES)
        self.assert_ends('pinned', self.young(pinned).grown)

    def test_too_old(self) -> None:
        self.serve(self.endpoint)
        with self.assertLogs('blockattach.platform.rpc', 'WARNING'):
            self.assert_ends('too old', self.young(self.bus).grown)

    def test_unforeseen(self) -> None:
        self.serve(self.endpoint)
        with self.assertLogs('blockattach.platform.rpc', 'ERROR'):
            self.assert_ends('unforeseen', self.client('one').fail, 'unforeseen')
