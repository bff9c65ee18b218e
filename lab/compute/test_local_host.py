"""Local disks over NBD, with a real target, qemu-storage-daemon, nbdfuse and loop devices."""
import contextlib
import dataclasses
import mmap
import os
import shutil
import signal
import tempfile
import unittest
import uuid

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts.local import brick
from blockattach.compute.hosts.local import choice
from blockattach.compute.hosts.local import devices
from blockattach.compute.hosts.local import host as local_host
from blockattach.compute.hosts.local import nbd
from blockattach.compute.hosts.local import processes
from blockattach.conformance import hosts
from blockattach.platform import clock as clocks
from blockattach.platform import disks
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.conformance import settings
from lab.compute import programs
from lab.compute import storage

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
    """Return a buffer that is aligned for direct I/O."""
    made = mmap.mmap(-1, SECTOR)
    made.write(data)
    return made


def read(path, offset=0):
    """Return the bytes at an offset without trailing zeros, bypassing the cache."""
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
        # The path must be short, because the paths of Unix sockets are limited to 107 bytes.
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
        """Check that no process, device or mount of destroyed servers remains."""
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


class DisksTest(NbdTestCase, unittest.TestCase):
    """Behavior of local disks that the conformance kit does not test."""

    def setUp(self):
        super().setUp()
        self.host = self.make('host-a')
        self.server_id = str(uuid.uuid4())
        self.addCleanup(self.host.destroy, self.server_id)
        self.device = self.path(self.server_id)

    def spawned(self, **named):
        """Spawn a server with one disk, and return the disk."""
        made = self.disk(self.host, self.server_id, **named)
        self.host.spawn(self.guest(made))
        return made

    def guest(self, *disks):
        return base.Guest(self.server_id, 'server', 1, 256, disks)

    def assert_busy(self, call, *arguments):
        with self.assertRaises(errors.DeviceBusy):
            call(self.server_id, *arguments)

    def unplug_busy(self, disk):
        """Check that a busy disk cannot be unplugged and stays plugged."""
        self.assert_busy(self.host.unplug, disk.volume_id)
        self.assertEqual({disk.volume_id: disk.mode}, self.host.disks(self.server_id))

    def kill(self, program):
        [pid] = processes.find(program, self.state)
        os.kill(pid, signal.SIGKILL)
        # The host notices the death once the kernel has closed the files of the process.
        self.assertTrue(clocks.Clock().until(
            lambda: not self.host.disks(self.server_id), 3600, 0.02))

    def test_cached_write_reaches_storage_on_unplug(self):
        disk = self.spawned()
        with open(self.device, 'r+b') as file:
            file.write(b'through the cache')
        self.host.unplug(self.server_id, disk.volume_id)
        self.assertFalse(os.path.lexists(self.device))
        with open(self.storage.file(disk.volume_id), 'rb') as file:
            self.assertEqual(b'through the cache', file.read(17))

    def test_zeroed_blocks_read_as_zeros(self):
        """File systems rely on zeroed blocks. The layer below the device may ignore a discard."""
        self.spawned()
        write(self.device, b'x' * SECTOR)
        with opened(self.device, os.O_RDWR) as file, contextlib.suppress(OSError):
            # The request may fail, but must not succeed without an effect.
            disks.punch(file, 0, SECTOR)
            self.assertEqual(b'', read(self.device))
        processes.run(['blkdiscard', '--zeroout', '--length', str(SECTOR), self.device])
        self.assertEqual(b'', read(self.device))

    def test_the_kernel_refuses_to_write_to_what_is_read_only(self):
        self.spawned(mode=RO)
        self.assertEqual('1', processes.run(['blockdev', '--getro', self.device]).strip())
        processes.run(['blockdev', '--setrw', self.device])
        # The layer below the device refuses the write as well.
        self.assertFalse(self.write(self.host, self.server_id, '', b'x'))

    def test_a_disk_that_is_mounted_stays(self):
        programs.require(self, 'mkfs.ext4')
        disk = self.spawned()
        point = tempfile.mkdtemp(dir=self.state)
        processes.run(['mkfs.ext4', '-q', self.device])
        written = os.urandom(3 * units.MIB)
        for _ in range(2):
            processes.run(['mount', self.device, point])
            try:
                self.unplug_busy(disk)
                path = os.path.join(point, 'file')
                if not os.path.exists(path):
                    with open(path, 'wb') as file:
                        file.write(written)
                with open(path, 'rb') as file:
                    self.assertEqual(written, file.read())
            finally:
                processes.run(['umount', point])
            processes.run(['fsck.ext4', '-fn', self.device])
            self.host.unplug(self.server_id, disk.volume_id)
            self.host.plug(self.server_id, disk)

    def test_a_disk_that_a_process_has_for_itself_stays(self):
        disk = self.spawned()
        new = self.disk(self.host, self.server_id)
        with opened(self.device, os.O_RDONLY | os.O_EXCL):
            self.unplug_busy(disk)
            self.assert_busy(self.host.resize, disk.volume_id, 2)
            self.assert_busy(self.host.swap, disk.volume_id, new)
            self.assertEqual({disk.volume_id: disk.mode}, self.host.disks(self.server_id))

    def test_dead_disk_process_replaced(self):
        disk = self.spawned()
        write(self.device, b'kept')
        for program in nbd.PROCESSES:
            self.kill(program)
            self.host.start(self.guest(disk))
            self.assertEqual({disk.volume_id: disk.mode}, self.host.disks(self.server_id))
            self.assertEqual(b'kept', read(self.device))
            self.kill(program)
            self.host.plug(self.server_id, disk)
            self.assertEqual(b'kept', read(self.device))
        self.kill(nbd.PROCESSES[0])
        self.host.unplug(self.server_id, disk.volume_id)

    def test_no_password_is_where_others_read(self):
        disk = self.spawned()
        wrong = self.unreachable(self.disk(self.host, self.server_id, '/dev/vdc'))
        with self.assertRaises(errors.HostRefused) as caught:
            self.host.plug(self.server_id, wrong)
        self.assertNotIn(wrong.info['auth_password'], str(caught.exception))
        passwords = [one.info['auth_password'].encode() for one in (disk, wrong)]
        for program in nbd.PROCESSES:
            # There is one process of each program. The refused disk has left none.
            [pid] = processes.find(program, self.state)
            for name in ('cmdline', 'environ'):
                with open(f'/proc/{pid}/{name}', 'rb') as file:
                    self.assertNotIn(passwords[0], file.read())
        for folder, _, names in os.walk(self.state):
            if folder.endswith('/mount'):
                continue
            for path in (os.path.join(folder, name) for name in names):
                if os.path.isfile(path):
                    with open(path, 'rb') as file:
                        found = file.read()
                    self.assertFalse([one for one in passwords if one in found], path)

    def test_a_refused_size_leaves_no_way_to_a_device_of_others(self):
        spare = os.path.join(self.state, 'spare')
        with open(spare, 'wb') as file:
            file.truncate(storage.SMALL)
        lower = devices.loop_over(spare, read_only=False)
        disk = self.spawned(size=units.GIB)
        # The next loop device gets the number of this one, after that of the disk.
        processes.run(['losetup', '--detach', lower])
        with self.assertRaises(errors.HostRefused):
            self.host.resize(self.server_id, disk.volume_id, 2)
        self.assertEqual(units.gib_to_bytes(1), devices.size(self.device))

    def test_a_volume_becomes_larger(self):
        disk = self.spawned(size=units.GIB)
        write(self.device, b'kept')
        with self.assertRaises(errors.HostRefused):
            self.host.resize(self.server_id, disk.volume_id, 2)
        self.assertEqual(units.gib_to_bytes(1), devices.size(self.device))
        self.storage.grow(disk.volume_id, 2)
        for _ in range(2):
            self.host.resize(self.server_id, disk.volume_id, 2)
            self.assertEqual(units.gib_to_bytes(2), devices.size(self.device))
        self.assertEqual(b'kept', read(self.device))
        write(self.device, b'new', offset=units.gib_to_bytes(2) - SECTOR)

    def test_a_copy_that_fails_leaves_the_old_one(self):
        disk = self.spawned(size=2 * storage.SMALL)
        for new in (self.disk(self.host, self.server_id),
                    self.disk(self.host, self.server_id, size=2 * storage.SMALL, mode=RO)):
            with self.assertRaises(errors.HostRefused):
                self.host.swap(self.server_id, disk.volume_id, new)
            self.assertEqual({disk.volume_id: disk.mode}, self.host.disks(self.server_id))
            self.assertEqual(1, len(processes.find(nbd.PROCESSES[0], self.state)))
            self.assertTrue(self.write(self.host, self.server_id, '', b'x'))

    def test_two_servers_of_a_host_write_to_one_volume(self):
        disk = self.spawned()
        other = base.Guest(str(uuid.uuid4()), 'other', 1, 256, ())
        self.host.spawn(other)
        self.addCleanup(self.host.destroy, other.server_id)
        self.assertNotEqual(*(self.host.connector(one)['initiator']
                              for one in (self.server_id, other.server_id)))
        self.host.plug(other.server_id, self.disk(
            self.host, other.server_id, volume_id=disk.volume_id))
        write(self.path(other.server_id), b'of the other')
        self.assertEqual(b'of the other', read(self.device))
        self.host.destroy(self.server_id)
        write(self.path(other.server_id), b'goes on')
        self.assertEqual(b'goes on', read(self.path(other.server_id)))

    def test_a_link_that_leads_to_another_disk_is_taken_away(self):
        """Device numbers may be assigned differently after a reboot."""
        disk = self.spawned()
        self.kill(nbd.PROCESSES[0])
        self.assertTrue(os.path.islink(self.device))
        self.make('host-a').check()
        self.assertFalse(os.path.lexists(self.device))
        self.host.start(self.guest(disk))
        write(self.device, b'again')

    def test_plug_invalid_device_name_rejected(self):
        self.host.spawn(self.guest())
        for device in ('/dev/../../x', '/dev/', 'server.json', '/dev/a/b'):
            with self.assertRaises(errors.HostRefused):
                self.host.plug(self.server_id, self.disk(self.host, self.server_id, device))
        self.assertEqual({}, self.host.disks(self.server_id))

    def test_servers_do_not_move(self):
        for act in (lambda: self.host.receive(self.guest()),
                    lambda: self.host.send(self.server_id, 'host-b')):
            with self.assertRaisesRegex(errors.HostRefused, 'cannot live-migrate'):
                act()


class ChoiceTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.state = settings.folder(self)

    def test_chosen_connector_kept_when_kernel_changes(self):
        for kernel in (os.path.join(self.state, 'missing'), self.state):
            made = choice.connector('auto', 'host-a', self.state, kernel)
            self.assertIsInstance(made, nbd.NbdConnector)
        with self.assertRaisesRegex(errors.ConfigurationError,
                                    'cannot use connector brick.* use nbd'):
            choice.connector('brick', 'host-a', self.state)

    def test_a_kernel_with_an_initiator_is_used_by_os_brick(self):
        made = choice.connector('auto', 'host-a', self.state, self.state)
        self.assertIsInstance(made, brick.BrickConnector)

    def test_only_root_may(self):
        made = local_host.LocalHost('host-a', self.state, choice.connector(
            'nbd', 'host-a', self.state), user=lambda: 1000)
        with self.assertRaisesRegex(errors.ConfigurationError, 'root'):
            made.check()
