"""Disks of this host by NBD: a real target, qemu-storage-daemon, nbdfuse and loop devices."""
import contextlib
import dataclasses
import mmap
import os
import shutil
import signal
import tempfile

from blockattach import clock as clocks
from blockattach import errors
from blockattach import units
from blockattach.compute.hosts.local import choice
from blockattach.compute.hosts.local import devices
from blockattach.compute.hosts.local import host as local_host
from blockattach.compute.hosts.local import nbd
from blockattach.compute.hosts.local import processes
from blockattach.conformance import hosts
from blockattach.domain import connection
from blockattach.drivers.targets import tgtd
from blockattach.tests.compute import programs
from blockattach.tests.compute import storage
from blockattach.tests.conformance import settings

RO = connection.AccessMode.RO
SECTOR = 4096


@contextlib.contextmanager
def opened(path, flags):
    file = os.open(path, flags)
    try:
        yield file
    finally:
        os.close(file)


def sector(data=b''):
    """A buffer that may go to a device directly."""
    made = mmap.mmap(-1, SECTOR)
    made.write(data)
    return made


def read(path, offset=0):
    """The bytes there, from the storage and not from a cache, without zeros at the end."""
    found = sector()
    with opened(path, os.O_RDONLY | os.O_DIRECT) as file:
        os.preadv(file, [found], offset)
    return found[:].rstrip(b'\0')


def write(path, data, offset=0):
    with opened(path, os.O_RDWR | os.O_DIRECT) as file:
        os.pwritev(file, [sector(data)], offset)


class OnThisHost:
    """Hosts whose disks are devices of this machine."""

    moves = False
    has_bytes = True

    def setUp(self):
        programs.require(self, 'losetup', 'blockdev')
        programs.require_devices(self, '/dev/loop-control')
        settings.outside_program(self, tgtd.program() is not None, 'tgtd')
        # Short, since sockets are in it.
        self.state = os.path.realpath(tempfile.mkdtemp(prefix='lh-'))
        self.addCleanup(shutil.rmtree, self.state)
        self.addCleanup(self.nothing_is_left)
        self.storage = storage.Storage(self)
        super().setUp()

    def make(self, name):
        folder = os.path.join(self.state, name)
        return local_host.LocalHost(name, folder, choice.connector(self.kind, name, folder))

    def disk(self, *arguments, **named):
        return self.storage.disk(*arguments, **named)

    def unreachable(self, disk):
        return dataclasses.replace(disk, info={**disk.info, 'auth_password': 'x' * 16})

    def path(self, server_id, device='vdb', name='host-a'):
        return os.path.join(self.state, name, 'servers', server_id, device)

    def read(self, host, server_id, volume_id):
        return read(self.path(server_id))

    def write(self, host, server_id, volume_id, data):
        try:
            write(self.path(server_id), data)
        except OSError:
            return False
        return True

    def nothing_is_left(self):
        """When every server is destroyed there is no process, device or mount of theirs."""
        for program in ('qemu-storage-daemon', 'nbdfuse'):
            self.assertEqual([], processes.find(program, self.state))
        with open('/proc/self/mounts', encoding='utf-8') as file:
            self.assertNotIn(self.state, file.read())
        self.assertNotIn(self.state, processes.run(['losetup', '--list']))


class NbdTestCase(OnThisHost):

    kind = 'nbd'

    def setUp(self):
        programs.require(self, *nbd.PROGRAMS)
        programs.require_devices(self, '/dev/fuse')
        super().setUp()


class LocalHostTest(NbdTestCase, hosts.HostContract):
    pass


class NbdConnectorTest(NbdTestCase, hosts.HostContract):
    """What the kit does not ask for."""
