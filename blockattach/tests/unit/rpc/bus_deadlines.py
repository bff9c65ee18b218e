"""What a deadline does, whichever transport carries it. Subclass, run.

Both sides have clocks of their own that stand: each shows another time, and what one of them is
moved by is how long the message was under way.
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
    """Asks another before it answers."""

    def __init__(self, other: probe.ProbeClient, work: Any) -> None:
        super().__init__('asking')
        self.other = other
        self.work = work

    def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
        self.work()
        return self.other.echo(ctxt, super().echo(ctxt, value))


class DeadlinesContract(bus_contract.BusTestCase):
    """A client and a server."""

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
        """What was left for the last call when it began."""
        deadline = endpoint.contexts[-1].deadline
        return None if deadline is None else deadline - self.there.monotonic()

    def test_a_call_brings_the_timeout_of_its_caller_whatever_the_clocks_say(self) -> None:
        self.one.echo(self.ctxt, 1)
        self.assertEqual(CALL_TIMEOUT, self.left(self.endpoint))

    def test_what_a_message_has_waited_is_taken_off(self) -> None:
        self.one.echo(self.ctxt, 1)
        self.there.advance(10)
        self.one.echo(self.ctxt, 2)
        self.assertEqual(CALL_TIMEOUT - 10, self.left(self.endpoint))
        # The fastest message counts, also if it comes later.
        self.here.advance(40)
        self.one.echo(self.ctxt, 3)
        self.assertEqual(CALL_TIMEOUT, self.left(self.endpoint))

    def test_a_late_call_is_not_begun(self) -> None:
        self.one.echo(self.ctxt, 1)
        log = self.logged()
        self.there.advance(LATE)
        with self.assertRaises(errors.DeadlinePassed) as caught:
            self.one.echo(self.ctxt, 2)
        self.assertTrue(caught.exception.final)
        self.assertIn('echo', str(caught.exception))
        self.assertEqual(1, len(self.endpoint.contexts))
        self.assertIn('expired', log.records.get(timeout=probe.LIMIT).getMessage())

    def test_a_cast_has_no_end(self) -> None:
        self.one.note(self.ctxt, 1)
        self.heard(self.endpoint)
        self.there.advance(LATE)
        self.one.note(self.ctxt, 2)
        self.assertEqual(2, self.heard(self.endpoint))

    def test_a_cast_that_was_given_an_end_has_one(self) -> None:
        self.one.echo(self.ctxt, 1)
        self.there.advance(LATE)
        log = self.logged()
        self.one.offer(self.ctxt, 'late')
        self.assertIn('expired', log.records.get(timeout=probe.LIMIT).getMessage())
        self.assertTrue(self.endpoint.heard.empty())
        self.here.advance(LATE)
        self.one.offer(self.ctxt, 'in time')
        self.assertEqual('in time', self.heard(self.endpoint))

    def test_a_call_within_a_call_has_the_remaining_time(self) -> None:
        between = AskingEndpoint(self.client('one', self.asked),
                                 lambda: self.there.advance(10))
        self.serve(between, 'between', self.asked)
        self.client('between', self.asking).echo(self.ctxt, 1)
        self.assertEqual(CALL_TIMEOUT, between.contexts[0].deadline)
        self.assertEqual(CALL_TIMEOUT - 10, self.left(self.endpoint))

    def test_a_call_within_one_that_is_over_is_not_sent(self) -> None:
        between = AskingEndpoint(self.client('one', self.asked),
                                 lambda: self.there.advance(LATE))
        self.serve(between, 'between', self.asked)
        with self.assertRaises(errors.DeadlinePassed):
            self.client('between', self.asking).echo(self.ctxt, 1)
        self.assertEqual([], self.endpoint.contexts)

    def test_a_call_that_nobody_made_for_a_caller_waits_as_its_method_says(self) -> None:
        self.assertIs(contract.Timeout.NORMAL,
                      contract.methods(probe.ProbeInterface)['echo'].timeout)
        caller = context.admin_context()
        caller.deadline = self.here.monotonic() + 10 * CALL_TIMEOUT
        self.one.echo(caller, 1)
        self.assertEqual(CALL_TIMEOUT, self.left(self.endpoint))

    def test_a_message_of_an_older_release_has_no_end(self) -> None:
        """It brings no stamp."""
        ctxt = self.asked._serializer.deserialize_context({'user': 'u', 'project_id': 'p'})
        self.assertIsNone(ctxt.deadline)
