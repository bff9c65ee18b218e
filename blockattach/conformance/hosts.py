"""Conformance kit for implementations of `blockattach.compute.hosts.base.Host`.

A subclass provides two hosts with access to the same volumes, and disks of these volumes. If the
guests are real, the tests read and write disks from within the guests. The tests call most methods
twice, because each method of a host must be idempotent.
"""
import abc
import unittest
import uuid
from collections.abc import Iterable

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.storage.domain import connection

_RW, _RO = connection.AccessMode.RW, connection.AccessMode.RO
_RUNNING, _STOPPED = base.Power.RUNNING, base.Power.STOPPED


class HostContract(unittest.TestCase):
    """Behaviors of `blockattach.compute.hosts.base.Host`.

    :cvar moves: True if hosts of this kind support the live migration of servers
    :cvar has_bytes: True if guests can read and write disks; a subclass that sets True must
        implement `read` and `write`
    """

    moves = True
    has_bytes = False

    def setUp(self) -> None:
        super().setUp()
        if type(self) is HostContract:
            self.skipTest('abstract contract without a host')
        self.host = self.make('host-a')
        self.host.check()

    @abc.abstractmethod
    def make(self, name: str) -> base.Host:
        """Return a driver for the host with the given name.

        A second call with the same name must return another driver that finds the servers of the
        host.
        """

    @abc.abstractmethod
    def disk(self, host: base.Host, server_id: str, device: str = '/dev/vdb',
             volume_id: str | None = None, mode: connection.AccessMode = _RW) -> base.Disk:
        """Return a disk of a volume that the server may access from the host.

        :param volume_id: volume of the disk; None for a new volume
        """

    def read(self, host: base.Host, server_id: str, volume_id: str) -> bytes:
        """Return the data that a guest reads at the start of a disk, without trailing zeros."""
        raise NotImplementedError

    def write(self, host: base.Host, server_id: str, volume_id: str, data: bytes) -> bool:
        """Write data from within a guest to the start of a disk.

        :returns: True if the write succeeded
        """
        raise NotImplementedError

    def guest(self, disks: Iterable[base.Disk] = (), server_id: str | None = None) -> base.Guest:
        """Return the description of a server.

        :param server_id: id of the server; None for a new id
        """
        return base.Guest(server_id or str(uuid.uuid4()), 'server', 1, 256, tuple(disks))

    def spawned(self, *devices: str) -> base.Guest:
        """Spawn a new server with a new disk for each device name, and return its description."""
        server_id = str(uuid.uuid4())
        guest = self.guest([self.disk(self.host, server_id, one) for one in devices], server_id)
        self.host.spawn(guest)
        self.addCleanup(self.host.destroy, server_id)
        return guest

    def assert_has(self, host: base.Host, server_id: str, *disks: base.Disk) -> None:
        """Assert that a server has exactly the given disks, each in its access mode."""
        self.assertEqual({one.volume_id: one.mode for one in disks}, host.disks(server_id))

    def test_a_connector_names_the_host_and_an_initiator(self) -> None:
        found = self.host.connector(str(uuid.uuid4()))
        self.assertEqual('host-a', found['host'])
        connection.check_connector(found)
        self.assertEqual(found, {**found, 'initiator': found['initiator']})

    def test_a_server_without_disks(self) -> None:
        guest = self.spawned()
        self.assertEqual({guest.server_id: _RUNNING}, self.host.servers())
        self.assert_has(self.host, guest.server_id)

    def test_a_server_with_disks_and_once_more(self) -> None:
        guest = self.spawned('/dev/vda', '/dev/vdb')
        self.host.spawn(guest)
        self.assert_has(self.host, guest.server_id, *guest.disks)

    def test_a_disk_is_plugged_and_unplugged(self) -> None:
        guest = self.spawned()
        disk = self.disk(self.host, guest.server_id)
        for _ in range(2):
            self.host.plug(guest.server_id, disk)
            self.assert_has(self.host, guest.server_id, disk)
        for _ in range(2):
            self.host.unplug(guest.server_id, disk.volume_id)
            self.assert_has(self.host, guest.server_id)

    def test_a_disk_that_cannot_be_reached_changes_nothing(self) -> None:
        guest = self.spawned()
        wrong = self.unreachable(self.disk(self.host, guest.server_id))
        if wrong is None:
            self.skipTest('unreachable returns no disk')
        with self.assertRaises(errors.HostRefused) as caught:
            self.host.plug(guest.server_id, wrong)
        # The text of the error is logged, and must not contain the secret.
        self.assertNotIn(wrong.info['auth_password'], str(caught.exception))
        self.assert_has(self.host, guest.server_id)
        self.assertEqual({guest.server_id: _RUNNING}, self.host.servers())

    def unreachable(self, disk: base.Disk) -> base.Disk | None:
        """Return a copy of a disk with a wrong CHAP password.

        :returns: None if hosts of this kind do not check the password
        """
        return None

    def test_it_is_stopped_and_started_with_its_disks(self) -> None:
        guest = self.spawned('/dev/vdb')
        for _ in range(2):
            self.host.stop(guest.server_id)
            self.assertEqual({guest.server_id: _STOPPED}, self.host.servers())
        for _ in range(2):
            self.host.start(guest)
            self.assertEqual({guest.server_id: _RUNNING}, self.host.servers())
        self.host.reboot(guest)
        self.assert_has(self.host, guest.server_id, *guest.disks)

    def test_one_that_is_stopped_from_the_beginning(self) -> None:
        server_id = str(uuid.uuid4())
        guest = self.guest([self.disk(self.host, server_id)], server_id)
        self.addCleanup(self.host.destroy, server_id)
        for _ in range(2):
            self.host.define(guest)
            self.assertEqual({server_id: _STOPPED}, self.host.servers())
        self.host.start(guest)
        self.assertEqual({server_id: _RUNNING}, self.host.servers())
        self.assert_has(self.host, server_id, *guest.disks)
        self.host.define(guest)
        self.assertEqual({server_id: _RUNNING}, self.host.servers())

    def test_a_disk_of_a_stopped_server_is_taken_and_given(self) -> None:
        guest = self.spawned('/dev/vdb')
        self.host.stop(guest.server_id)
        self.host.unplug(guest.server_id, guest.disks[0].volume_id)
        disk = self.disk(self.host, guest.server_id)
        self.host.plug(guest.server_id, disk)
        self.host.start(self.guest([disk], guest.server_id))
        self.assert_has(self.host, guest.server_id, disk)

    def test_it_is_destroyed_and_once_more(self) -> None:
        guest = self.spawned('/dev/vdb')
        for _ in range(2):
            self.host.destroy(guest.server_id)
            self.assertEqual({}, self.host.servers())

    def test_an_agent_that_is_started_anew_finds_its_servers(self) -> None:
        guest = self.spawned('/dev/vdb')
        # Guests keep running while an agent restarts, so a new driver must find their state.
        again = self.make('host-a')
        self.assertEqual({guest.server_id: _RUNNING}, again.servers())
        self.assert_has(again, guest.server_id, *guest.disks)
        again.unplug(guest.server_id, guest.disks[0].volume_id)
        self.assert_has(again, guest.server_id)

    def test_one_that_is_not_here(self) -> None:
        nobody = str(uuid.uuid4())
        self.host.unplug(nobody, str(uuid.uuid4()))
        for act in (lambda: self.host.plug(nobody, self.disk(self.host, nobody)),
                    lambda: self.host.stop(nobody)):
            self.assertRaises(errors.HostRefused, act)

    def test_it_is_read_only(self) -> None:
        guest = self.spawned()
        disk = self.disk(self.host, guest.server_id, mode=_RO)
        self.host.plug(guest.server_id, disk)
        self.assert_has(self.host, guest.server_id, disk)
        if self.has_bytes:
            self.assertFalse(self.write(self.host, guest.server_id, disk.volume_id, b'x'))

    def test_two_servers_share_a_volume(self) -> None:
        writer, reader = self.spawned(), self.spawned()
        disk = self.disk(self.host, writer.server_id)
        self.host.plug(writer.server_id, disk)
        other = self.disk(self.host, reader.server_id, volume_id=disk.volume_id, mode=_RO)
        self.host.plug(reader.server_id, other)
        if self.has_bytes:
            self.assertTrue(self.write(self.host, writer.server_id, disk.volume_id, b'shared'))
            self.assertEqual(b'shared', self.read(self.host, reader.server_id, disk.volume_id))
        self.host.unplug(reader.server_id, disk.volume_id)
        self.assert_has(self.host, writer.server_id, disk)
        if self.has_bytes:
            self.assertTrue(self.write(self.host, writer.server_id, disk.volume_id, b'still'))

    def test_another_volume_takes_the_place_of_one(self) -> None:
        guest = self.spawned('/dev/vdb')
        old = guest.disks[0]
        if self.has_bytes:
            self.assertTrue(self.write(self.host, guest.server_id, old.volume_id, b'moved'))
        new = self.disk(self.host, guest.server_id)
        self.host.swap(guest.server_id, old.volume_id, new)
        self.assert_has(self.host, guest.server_id, new)
        if self.has_bytes:
            self.assertEqual(b'moved', self.read(self.host, guest.server_id, new.volume_id))

    def test_it_moves_to_another_host(self) -> None:
        if not self.moves:
            self.skipTest('the host does not support live migration')
        guest, there = self.spawned('/dev/vdb'), self.make('host-b')
        self.addCleanup(there.destroy, guest.server_id)
        volume_id = guest.disks[0].volume_id
        if self.has_bytes:
            self.assertTrue(self.write(self.host, guest.server_id, volume_id, b'moving'))
        arriving = self.guest([self.disk(there, guest.server_id, volume_id=volume_id)],
                              guest.server_id)
        self.host.send(guest.server_id, there.receive(arriving))
        self.assertEqual({}, self.host.servers())
        self.assertEqual({guest.server_id: _RUNNING}, there.servers())
        self.assert_has(there, guest.server_id, *arriving.disks)
        if self.has_bytes:
            self.assertEqual(b'moving', self.read(there, guest.server_id, volume_id))

    def test_one_that_nobody_receives_stays(self) -> None:
        if not self.moves:
            self.skipTest('the host does not support live migration')
        guest, there = self.spawned('/dev/vdb'), self.make('host-b')
        address = there.receive(self.guest([], guest.server_id))
        there.destroy(guest.server_id)
        self.assertRaises(errors.HostRefused, self.host.send, guest.server_id, address)
        self.assertEqual({guest.server_id: _RUNNING}, self.host.servers())
        self.assert_has(self.host, guest.server_id, *guest.disks)
