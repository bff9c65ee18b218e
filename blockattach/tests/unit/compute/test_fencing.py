"""What an agent does, and refuses, by which lease."""
import os
import tempfile
import unittest

from blockattach.compute import agent
from blockattach.compute import errors
from blockattach.compute import fencing
from blockattach.compute import interface
from blockattach.compute.hosts import base
from blockattach.compute.hosts import fake
from blockattach.platform import context
from blockattach.tests.fixtures import in_process

OLD, NEW, NEWEST = 1, 2, 3


def guest(server_id):
    return interface.guest_values(base.Guest(server_id, 'web', 1, 256, ()))


class FencingTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.path = os.path.join(folder, 'compute', 'host.leases.json')
        self.caller = context.admin_context()
        self.host = fake.FakeHost('host')
        self.start()

    def start(self):
        """The process of the agent, perhaps in place of another one."""
        self.agent = agent.AgentEndpoint(self.host, in_process.AtOnce(),
                                         fencing.Fence(self.path))

    def ask(self, generation, name, *arguments, server='a'):
        return getattr(interface.by_lease(self.agent, server, generation), name)(
            self.caller, *arguments)

    def assert_refused(self, generation, name, *arguments):
        before = self.host.servers()
        with self.assertRaises(errors.ActTakenOver):
            self.ask(generation, name, *arguments)
        self.assertEqual(before, self.host.servers())

    def test_one_that_is_over(self):
        self.ask(NEW, 'spawn', guest('a'))
        self.assert_refused(OLD, 'destroy', 'a')
        self.ask(NEW, 'stop', 'a')
        self.ask(NEWEST, 'destroy', 'a')
        self.assert_refused(NEW, 'spawn', guest('a'))

    def test_a_question_is_enough(self):
        self.assertEqual({}, self.ask(NEW, 'servers'))
        self.assert_refused(OLD, 'spawn', guest('a'))

    def test_several_servers(self):
        """Each by its own; one that is refused is no harm to the others."""
        self.ask(NEWEST, 'servers')
        failed = self.agent.spawn_all(self.caller, [guest('a'), guest('b')],
                                      {'a': NEW, 'b': OLD})
        self.assertEqual(({'a'}, {'b'}), (set(failed), set(self.host.servers())))

    def test_servers_are_apart(self):
        self.ask(NEWEST, 'servers')
        self.ask(OLD, 'spawn', guest('b'), server='b')
        self.assertEqual({'b'}, set(self.host.servers()))

    def test_an_agent_that_is_started_anew(self):
        self.ask(NEW, 'spawn', guest('a'))
        self.start()
        self.assert_refused(OLD, 'destroy', 'a')
        self.ask(NEW, 'destroy', 'a')

    def test_a_server_that_came_back_before_it_is_started_anew(self):
        self.ask(NEW, 'spawn', guest('a'))
        self.ask(NEW, 'destroy', 'a')
        self.ask(NEW, 'spawn', guest('a'))
        self.start()
        self.assert_refused(OLD, 'destroy', 'a')

    def test_what_is_kept_of_servers_that_have_left(self):
        """Nothing, so that it does not grow."""
        self.ask(NEW, 'spawn', guest('a'))
        self.ask(NEW, 'destroy', 'a')
        self.start()
        self.ask(OLD, 'spawn', guest('a'))

    def test_the_first_one_is_not_written(self):
        self.ask(OLD, 'spawn', guest('a'))
        self.ask(OLD, 'destroy', 'a')
        self.assertFalse(os.path.exists(self.path))

    def test_what_is_not_done_by_a_lease(self):
        for name in ('fenced', 'spawn_all', '__init__'):
            with self.assertRaises(errors.InvalidInput):
                self.agent.fenced(self.caller, 'a', NEW, name, [])
