"""Contract of deadlines over each transport, as test cases to subclass.

The client and the server have separate manual clocks that show different times. The advance of one
of them is the transit time of a message.
"""
from typing import Any

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.rpc import contract
from blockattach.tests.fixtures import clock as manual
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe

CALL_TIMEOUT = bus_contract.SETTINGS.call_timeout
LATE = CALL_TIMEOUT + 1


class AskingEndpoint(probe.ProbeEndpoint):
    """Endpoint that calls another server before it answers."""

    def __init__(self, other: probe.ProbeClient, work: Any) -> None:
        super().__init__('asking')
        self.other = other
        self.work = work

    def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
        self.work()
        return self.other.echo(ctxt, super().echo(ctxt, value))


class DeadlinesContract(bus_contract.BusTestCase):
    """Deadlines between a client and a server."""

    def setUp(self) -> None:
        super().setUp()
        self.here, self.there = manual.ManualClock(), manual.ManualClock()
        self.here.advance(1_000_000)
        self.asking = self.make_bus(clock=self.here)
        self.asked = self.make_bus(clock=self.there)
        self.endpoint = probe.ProbeEndpoint()
        self.server = self.serve(self.endpoint, 'one', self.asked)
        self.one = self.client('one', self.asking)

    def left(self, endpoint: probe.ProbeEndpoint) -> float | None:
        """Return the remaining seconds of the last call at its start."""
        deadline = endpoint.contexts[-1].deadline
        return None if deadline is None else deadline - self.there.monotonic()

    def test_call_deadline_independent_of_clocks(self) -> None:
        self.one.echo(self.ctxt, 1)
        self.assertEqual(CALL_TIMEOUT, self.left(self.endpoint))

    def test_transit_time_reduces_deadline(self) -> None:
        self.one.echo(self.ctxt, 1)
        self.there.advance(10)
        self.one.echo(self.ctxt, 2)
        self.assertEqual(CALL_TIMEOUT - 10, self.left(self.endpoint))
        # The fastest message counts, also if it comes later.
        self.here.advance(40)
        self.one.echo(self.ctxt, 3)
        self.assertEqual(CALL_TIMEOUT, self.left(self.endpoint))

    def test_late_call_not_started(self) -> None:
        self.one.echo(self.ctxt, 1)
        log = self.logged()
        self.there.advance(LATE)
        with self.assertRaises(errors.DeadlinePassed) as caught:
            self.one.echo(self.ctxt, 2)
        self.assertTrue(caught.exception.final)
        self.assertIn('echo', str(caught.exception))
        self.assertEqual(1, len(self.endpoint.contexts))
        self.assertIn('expired', log.records.get(timeout=probe.LIMIT).getMessage())

    def test_cast_has_no_deadline(self) -> None:
        self.one.note(self.ctxt, 1)
        self.heard(self.endpoint)
        self.there.advance(LATE)
        self.one.note(self.ctxt, 2)
        self.assertEqual(2, self.heard(self.endpoint))

    def test_late_cast_with_deadline_dropped(self) -> None:
        self.one.echo(self.ctxt, 1)
        self.there.advance(LATE)
        log = self.logged()
        self.one.offer(self.ctxt, 'late')
        self.assertIn('expired', log.records.get(timeout=probe.LIMIT).getMessage())
        self.assertTrue(self.endpoint.heard.empty())
        self.here.advance(LATE)
        self.one.offer(self.ctxt, 'in time')
        self.assertEqual('in time', self.heard(self.endpoint))

    def test_nested_call_gets_remaining_time(self) -> None:
        between = AskingEndpoint(self.client('one', self.asked),
                                 lambda: self.there.advance(10))
        self.serve(between, 'between', self.asked)
        self.client('between', self.asking).echo(self.ctxt, 1)
        self.assertEqual(CALL_TIMEOUT, between.contexts[0].deadline)
        self.assertEqual(CALL_TIMEOUT - 10, self.left(self.endpoint))

    def test_nested_call_after_deadline_not_sent(self) -> None:
        between = AskingEndpoint(self.client('one', self.asked),
                                 lambda: self.there.advance(LATE))
        self.serve(between, 'between', self.asked)
        with self.assertRaises(errors.DeadlinePassed):
            self.client('between', self.asking).echo(self.ctxt, 1)
        self.assertEqual([], self.endpoint.contexts)

    def test_call_timeout_bounded_by_method(self) -> None:
        self.assertIs(contract.Timeout.NORMAL,
                      contract.methods(probe.ProbeInterface)['echo'].timeout)
        caller = context.admin_context()
        caller.deadline = self.here.monotonic() + 10 * CALL_TIMEOUT
        self.one.echo(caller, 1)
        self.assertEqual(CALL_TIMEOUT, self.left(self.endpoint))

    def test_message_without_stamp_has_no_deadline(self) -> None:
        """Older releases send no stamp."""
        ctxt = self.asked._serializer.deserialize_context({'user': 'u', 'project_id': 'p'})
        self.assertIsNone(ctxt.deadline)
