"""Long-running calls: their expiry and their timeout."""
import contextlib
import types
import unittest

from blockattach.compute import interface
from blockattach.platform import context
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import calling
from blockattach.platform.telemetry import acts
from blockattach.tests.fixtures import clock

SETTINGS = rpc_conf.RpcSettings()


class Recorder:
    """Stand-in for the client of oslo.messaging that records the limits of each call."""

    def __init__(self, called, **limits):
        self.target = types.SimpleNamespace(topic='compute')
        self.called = called
        self.limits = limits

    def prepare(self, **limits):
        return Recorder(self.called, **{**self.limits, **limits})

    def call(self, outgoing, _name, **_arguments):
        self.called.append((self.limits['timeout'], self.limits['call_monitor_timeout'],
                            outgoing.seconds))


class LongCallTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock, self.called = clock.ManualClock(), []
        self.agent = calling.stub(interface.AgentInterface, calling.Client(
            Recorder(self.called), interface.AgentInterface, 'host-a', SETTINGS, self.clock,
            lambda _ctxt: None, acts.Telemetry(self.clock), contextlib.nullcontext))

    def test_long_call_has_normal_expiry_and_long_timeout(self):
        self.agent.stop(context.admin_context(), 'a-server')
        self.agent.resize(context.admin_context(), 'a-server', 'a-volume', 2)
        self.assertEqual(
            [(SETTINGS.long_call_timeout, SETTINGS.silence_timeout, SETTINGS.call_timeout),
             (SETTINGS.call_timeout, SETTINGS.silence_timeout, SETTINGS.call_timeout)],
            self.called)

    def test_long_call_limited_by_deadline_of_caller(self):
        caller = context.admin_context()
        for seconds, limits in ((100.0, (100.0, SETTINGS.call_timeout)), (5.0, (5.0, 5.0))):
            caller.deadline = self.clock.monotonic() + seconds
            self.agent.stop(caller, 'a-server')
            self.assertEqual(limits, (self.called[-1][0], self.called[-1][2]))
