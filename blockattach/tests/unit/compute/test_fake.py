"""Hosts in memory, each in a process of its own."""
import unittest

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts import fake


class ProcessesTest(unittest.TestCase):

    def test_live_migration_to_another_process_refused(self):
        source, destination = fake.FakeHost('host-a'), fake.FakeHost('host-b')
        guest = base.Guest('server', 'web', 1, 256, ())
        source.spawn(guest)
        address = destination.receive(guest)
        with self.assertRaisesRegex(errors.HostRefused, 'agents of kind fake migrate'):
            source.send('server', address)
        self.assertEqual({'server': base.Power.RUNNING}, source.servers())
