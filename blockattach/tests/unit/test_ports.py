"""Ports for tests that run in parallel."""
import os
import socket
import subprocess
import sys
import tempfile
import unittest

from blockattach.testing import ports

HOLDER = """
import sys
from blockattach.testing import ports
print(ports.Ports(int(sys.argv[1]), int(sys.argv[1]) + 4, sys.argv[2]).take(3)[0], flush=True)
sys.stdin.read()
"""


class PortsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'ports')

    def test_each_port_given_once(self):
        given = [ports.free_port() for _ in range(50)] + [*ports.neighbours(3)]
        self.assertEqual(53, len(set(given)))
        for port in given:
            socket.create_server((ports.LOOPBACK, port)).close()

    def test_ports_below_ephemeral_range(self):
        with socket.create_server((ports.LOOPBACK, 0)) as any_server:
            self.assertLess(ports.free_port(), any_server.getsockname()[1])

    def test_ports_of_other_process_reserved_until_it_ends(self):
        first = ports.neighbours(4)[0]
        holder = subprocess.Popen([sys.executable, '-c', HOLDER, str(first), self.path], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(holder.communicate)
        self.addCleanup(holder.kill)
        theirs = int(holder.stdout.readline())
        made = ports.Ports(first, first + 4, self.path)
        [ours] = made.take(1)
        self.assertNotIn(ours, range(theirs, theirs + 3))
        self.assertRaises(ports.NoPort, made.take, 1)
        holder.kill()
        holder.wait()
        self.assertEqual({*range(first, first + 4)} - {ours},
                         {made.take(1)[0] for _ in range(3)})

    def test_port_in_use_skipped(self):
        first = ports.neighbours(2)[0]
        made = ports.Ports(first, first + 2, self.path)
        with socket.create_server((ports.LOOPBACK, first)):
            self.assertEqual(first + 1, made.take(1)[0])
            self.assertRaises(ports.NoPort, made.take, 1)
