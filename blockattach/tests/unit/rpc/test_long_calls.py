"""A call that takes long: how soon it must begin, and how long its caller waits."""
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
    """In place of oslo.messaging's client; ``called``: limits of each call, and its expiry."""

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

    def test_it_begins_as_soon_as_others_or_never_and_is_waited_for(self):
        self.agent.stop(context.admin_context(), 'a-server')
        self.agent.resize(context.admin_context(), 'a-server', 'a-volume', 2)
        self.assertEqual(
            [(SETTINGS.long_call_timeout, SETTINGS.silence_timeout, SETTINGS.call_timeout),
             (SETTINGS.call_timeout, SETTINGS.silence_timeout, SETTINGS.call_timeout)],
            self.called)

    def test_a_caller_that_waits_for_less(self):
        caller = context.admin_context()
        for seconds, limits in ((100.0, (100.0, SETTINGS.call_timeout)), (5.0, (5.0, 5.0))):
            caller.deadline = self.clock.monotonic() + seconds
            self.agent.stop(caller, 'a-server')
            self.assertEqual(limits, (self.called[-1][0], self.called[-1][2]))
