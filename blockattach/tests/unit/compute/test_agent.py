"""Responses of an agent to unexpected errors of its host."""
import unittest

from blockattach.compute import agent
from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute.hosts import base
from blockattach.compute.hosts import fake
from blockattach.platform import context
from blockattach.tests.fixtures import in_process

GUEST = interface.guest_values(base.Guest('a', 'web', 1, 256, ()))
DISK = {'volume_id': 'v', 'device': '/dev/vdb', 'mode': 'rw', 'shared': False, 'info': {}}
ARGUMENTS = {
    'connector': ('a',), 'connectors': (['a'],), 'spawn': (GUEST,), 'define': (GUEST,),
    'start': (GUEST,), 'stop': ('a',), 'reboot': (GUEST,), 'destroy': ('a',), 'plug': ('a', DISK),
    'unplug': ('a', 'v'), 'resize': ('a', 'v', 1), 'swap': ('a', 'v', DISK), 'receive': (GUEST,),
    'send': ('a', 'host-b'), 'servers': (), 'disks': ('a',)}


class FailingHost(fake.FakeHost):
    """Host whose methods all raise an error."""

    def __init__(self, error):
        super().__init__('host')
        for name in ARGUMENTS:
            setattr(self, name, self._raise)
        self.error = error

    def _raise(self, *_arguments):
        raise self.error


class UnforeseenTest(unittest.TestCase):

    def raised(self, error):
        endpoint = agent.AgentEndpoint(FailingHost(error), in_process.AtOnce(),
                                       agent.Fence(None))
        for name, arguments in ARGUMENTS.items():
            with self.subTest(name), self.assertRaises(errors.BlockattachError) as caught:
                getattr(endpoint, name)(context.admin_context(), *arguments)
            yield caught.exception

    def test_programming_error_answered_as_defect(self):
        for error in (KeyError('target_portal'), TypeError('no'), ValueError('no')):
            for answer in self.raised(error):
                self.assertIsInstance(answer, errors.HostDefect)
                self.assertIn(type(error).__name__, str(answer))
                self.assertNotIn('target_portal', str(answer))

    def test_environment_error_answered_as_uncertain(self):
        for error in (OSError('no space'), TimeoutError('late')):
            for answer in self.raised(error):
                self.assertIs(errors.HostError, type(answer))

    def test_refusal_answered_unchanged(self):
        for answer in self.raised(errors.HostRefused(reason='no')):
            self.assertIs(errors.HostRefused, type(answer))
