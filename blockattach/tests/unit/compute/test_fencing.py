"""Fencing of agent calls by the lease of a server."""
import os
import tempfile
import unittest

from blockattach.compute import agent
from blockattach.compute import errors
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
        """Start an agent process, in place of the previous one if there is one."""
        self.agent = agent.AgentEndpoint(self.host, in_process.AtOnce(),
                                         agent.Fence(self.path))

    def ask(self, generation, name, *arguments, server='a'):
        return getattr(interface.by_lease(self.agent, server, generation), name)(
            self.caller, *arguments)

    def assert_refused(self, generation, name, *arguments):
        before = self.host.servers()
        with self.assertRaises(errors.ActTakenOver):
            self.ask(generation, name, *arguments)
        self.assertEqual(before, self.host.servers())

    def test_call_with_older_generation_refused(self):
        self.ask(NEW, 'spawn', guest('a'))
        self.assert_refused(OLD, 'destroy', 'a')
        self.ask(NEW, 'stop', 'a')
        self.ask(NEWEST, 'destroy', 'a')
        self.assert_refused(NEW, 'spawn', guest('a'))

    def test_query_records_generation(self):
        self.assertEqual({}, self.ask(NEW, 'servers'))
        self.assert_refused(OLD, 'spawn', guest('a'))

    def test_spawn_all_refuses_stale_server_only(self):
        """Each server is checked by its own generation."""
        self.ask(NEWEST, 'servers')
        failed = self.agent.spawn_all(self.caller, [guest('a'), guest('b')],
                                      {'a': NEW, 'b': OLD})
        self.assertEqual(({'a'}, {'b'}), (set(failed), set(self.host.servers())))

    def test_generations_of_servers_are_separate(self):
        self.ask(NEWEST, 'servers')
        self.ask(OLD, 'spawn', guest('b'), server='b')
        self.assertEqual({'b'}, set(self.host.servers()))

    def test_restarted_agent_keeps_generation(self):
        self.ask(NEW, 'spawn', guest('a'))
        self.start()
        self.assert_refused(OLD, 'destroy', 'a')
        self.ask(NEW, 'destroy', 'a')

    def test_restarted_agent_keeps_generation_of_respawned_server(self):
        self.ask(NEW, 'spawn', guest('a'))
        self.ask(NEW, 'destroy', 'a')
        self.ask(NEW, 'spawn', guest('a'))
        self.start()
        self.assert_refused(OLD, 'destroy', 'a')

    def test_restarted_agent_forgets_destroyed_server(self):
        """Generations of destroyed servers would make the file grow."""
        self.ask(NEW, 'spawn', guest('a'))
        self.ask(NEW, 'destroy', 'a')
        self.start()
        self.ask(OLD, 'spawn', guest('a'))

    def test_first_generation_not_written(self):
        self.ask(OLD, 'spawn', guest('a'))
        self.ask(OLD, 'destroy', 'a')
        self.assertFalse(os.path.exists(self.path))

    def test_method_without_lease_rejected(self):
        for name in ('fenced', 'spawn_all', '__init__'):
            with self.assertRaises(errors.InvalidInput):
                self.agent.fenced(self.caller, 'a', NEW, name, [])
