"""Behavior of QEMU guests that no fake host shows, including failures of guests and of QEMU."""
import dataclasses
import os
import signal
import stat
import uuid
from concurrent import futures

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts import qemu_disks
from blockattach.compute.hosts import qemu_process
from blockattach.compute.hosts import qemu_records
from blockattach.compute.hosts import qmp
from blockattach.platform import clock
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt_socket
from blockattach.tests.conformance import settings
from lab.compute import qemu

_RO = connection.AccessMode.RO
_BOOTED = b'booted from the volume'
_BOOT_SECTOR = (bytes.fromhex('31c0 8ed8 baf803 be157c ac 84c0 7403 ee ebf8 f4 ebfd') + _BOOTED
                ).ljust(510, b'\0') + b'\x55\xaa'
"""Boot sector whose code writes `_BOOTED` to the serial line, byte by byte, and halts."""
_RUNNING, _STOPPED = base.Power.RUNNING, base.Power.STOPPED
_CROWD = 20


class GuestsTest(qemu.Backing):

    def spawned(self, host, *devices, wait=True, **facts):
        """Spawn a server with new disks, and wait until it takes commands."""
        server_id = str(uuid.uuid4())
        guest = base.Guest(server_id, 'a, server', 1, 256, tuple(
            self.disk(host, server_id, device, **facts) for device in devices))
        self.addCleanup(host.destroy, server_id)
        host.spawn(guest)
        if wait:
            self.console(host, server_id).wait()
        return guest

    def pid(self, host, server_id):
        """Return the process ID of a server's QEMU."""
        with qmp.Monitor(self.server_folder(host, server_id), qemu_process.ASK) as monitor:
            return monitor.pid

    def grow(self, volume_id, size_gb):
        """Extend a volume, and show hosts the new size, which the tgt driver does not do."""
        os.truncate(self.path(volume_id), units.gib_to_bytes(size_gb))
        client = self.target._client()
        for target in client.targets():
            if volume_id in target.name:
                readonly = str(int(target.luns[0].readonly))
                client._call(tgt_socket._Mode.DEVICE, tgt_socket._Op.DELETE, 'delete a LUN', '',
                             target.tid, lun=1)
                client.add_lun(target.tid, 1, self.path(volume_id))
                client.update_lun(target.tid, 1, readonly=readonly, thin_provisioning='1')

    def test_a_guest_finds_its_disks_by_volume(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdc', '/dev/vda')
        seen = self.console(host, guest.server_id).disks()
        self.assertEqual([guest.disks[1].volume_id[:20], guest.disks[0].volume_id[:20]],
                         [disk.serial for disk in seen])
        self.assertEqual(['vda', 'vdb'], [disk.name for disk in seen])

    def test_servers_boot_from_a_volume_that_they_share(self):
        """Two servers boot from one read-only volume, without a kernel of the host."""
        host = self.make('host-a', kernel=None, initrd=None)
        volume_id = str(uuid.uuid4())
        with open(self.path(volume_id), 'wb') as file:
            file.write(_BOOT_SECTOR.ljust(qemu.SMALL, b'\0'))
        for _ in range(2):
            server_id = str(uuid.uuid4())
            self.addCleanup(host.destroy, server_id)
            host.spawn(base.Guest(server_id, 'server', 1, 256, (
                self.disk(host, server_id, '/dev/vdb'),
                self.disk(host, server_id, '/dev/vda', volume_id, _RO))))
            log = os.path.join(self.server_folder(host, server_id), qemu_process.CONSOLE_LOG)

            def has_booted(log=log):
                with open(log, 'rb') as file:
                    return _BOOTED in file.read()

            self.until(has_booted)
        self.assertEqual(2, len(host.servers()))

    def test_a_guest_that_does_not_release_a_disk_keeps_it(self):
        host = self.make('host-a', append=f'{self.boots.append} acpiphp.disable=1',
                         release_seconds=1.0)
        guest = self.spawned(host, '/dev/vdb')
        volume_id = guest.disks[0].volume_id
        for again in (host, self.make('host-a', release_seconds=1.0)):
            with self.assertRaises(errors.DeviceBusy):
                again.unplug(guest.server_id, volume_id)
            self.assertEqual([volume_id], list(again.disks(guest.server_id)))
            self.assertTrue(self.write(again, guest.server_id, volume_id, b'mine'))
            self.assertEqual(b'mine', self.read(again, guest.server_id, volume_id))
        host.stop(guest.server_id)
        host.unplug(guest.server_id, volume_id)
        self.assertEqual({}, host.disks(guest.server_id))

    def test_a_disk_that_a_guest_has_open_is_released(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb', '/dev/vdc')
        self.console(host, guest.server_id).hold('vda')
        host.unplug(guest.server_id, guest.disks[0].volume_id)
        self.assertEqual([guest.disks[1].volume_id], list(host.disks(guest.server_id)))

    def test_a_qemu_that_is_killed_is_run_again(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb')
        volume_id = guest.disks[0].volume_id
        self.assertTrue(self.write(host, guest.server_id, volume_id, b'kept'))
        os.kill(self.pid(host, guest.server_id), signal.SIGKILL)
        self.until(lambda: host.servers() == {guest.server_id: _STOPPED})
        self.assertEqual([volume_id], list(host.disks(guest.server_id)))
        host.start(guest)
        self.assertEqual({guest.server_id: _RUNNING}, host.servers())
        self.console(host, guest.server_id).wait()
        self.assertEqual(b'kept', self.read(host, guest.server_id, volume_id))

    def test_writing_guests_without_access_end_at_once(self):
        """Guests of a fenced host end at once when the agent returns, despite pending writes."""
        first = self.make('host-a')
        made = [self.spawned(first, '/dev/vdb', wait=False) for _ in range(_CROWD)]
        for guest in made:
            self.console(first, guest.server_id).wait()
            write = self.write(first, guest.server_id, guest.disks[0].volume_id, b'before')
            self.assertTrue(write)
        for guest in made:
            self.target.revoke(guest.disks[0].volume_id,
                               first.connector(guest.server_id)['initiator'])
        with futures.ThreadPoolExecutor(2 * _CROWD) as pool:
            writes = [pool.submit(self.write, first, guest.server_id,
                                  guest.disks[0].volume_id, b'after') for guest in made]
            again = self.make('host-a')
            list(pool.map(again.destroy, [guest.server_id for guest in made]))
            self.assertEqual({}, again.servers())
            for one in writes:
                one.cancel()
        for guest in made:
            with open(self.path(guest.disks[0].volume_id), 'rb') as file:
                self.assertEqual(b'before', file.read(6))

    def test_another_portal_takes_the_place_of_a_dead_one(self):
        host, server_id = self.make('host-a'), str(uuid.uuid4())
        guest = base.Guest(server_id, 'server', 1, 256, (
            self.by_ways(self.disk(host, server_id, '/dev/vdb')),))
        self.addCleanup(host.destroy, server_id)
        host.spawn(guest)
        self.console(host, server_id).wait()
        plugged = self.by_ways(self.disk(host, server_id, '/dev/vdc'))
        host.plug(server_id, plugged)
        for disk in (*guest.disks, plugged):
            self.assertTrue(self.write(host, server_id, disk.volume_id, b'reached'))

    @staticmethod
    def by_ways(disk):
        """Return the disk with two more portals: one that is down, and one without the target."""
        portal, target, lun = (disk.info[f'target_{key}'] for key in ('portal', 'iqn', 'lun'))
        dead = f'127.0.0.1:{settings.free_port()}'
        return dataclasses.replace(disk, info={
            **disk.info, 'target_portal': dead, 'target_portals': [dead, portal, portal],
            'target_iqns': [target, f'{target}-none', target], 'target_luns': [lun] * 3})

    def test_a_guest_sees_that_a_disk_has_grown(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb')
        volume_id = guest.disks[0].volume_id
        self.assertRaises(errors.HostRefused, host.resize, guest.server_id, volume_id, 1)
        self.grow(volume_id, 1)
        host.resize(guest.server_id, volume_id, 1)
        self.until(lambda: self.seen(host, guest.server_id, volume_id).size == units.GIB)
        self.assertTrue(self.write(host, guest.server_id, volume_id, b'grown'))

    def test_a_read_only_disk_that_has_grown_is_seen_after_a_restart(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb', mode=_RO)
        volume_id = guest.disks[0].volume_id
        self.grow(volume_id, 1)
        self.assertRaises(errors.HostRefused, host.resize, guest.server_id, volume_id, 1)
        self.assertEqual(b'', self.read(host, guest.server_id, volume_id))
        host.reboot(guest)
        self.console(host, guest.server_id).wait()
        seen = self.seen(host, guest.server_id, volume_id)
        self.assertEqual((units.GIB, True), (seen.size, seen.read_only))

    def test_no_password_is_found_anywhere(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb', wait=False)
        wrong = self.disk(host, guest.server_id, '/dev/vdc')
        wrong = dataclasses.replace(wrong, info={**wrong.info, 'auth_password': 'wrong-password'})
        with self.assertRaises(errors.HostRefused) as caught:
            host.plug(guest.server_id, wrong)
        passwords = [disk.info['auth_password'] for disk in (wrong, *guest.disks)]
        with open(f'/proc/{self.pid(host, guest.server_id)}/cmdline') as file:
            said = [file.read(), str(caught.exception)]
        folder = self.server_folder(host, guest.server_id)
        for name in os.listdir(folder):
            if stat.S_ISREG(os.stat(os.path.join(folder, name)).st_mode):
                with open(os.path.join(folder, name), errors='replace') as file:
                    said.append(file.read())
        self.assertGreater(len(said), 3)
        self.assertEqual([], [text for text in said for one in passwords if one in text])
        self.assertEqual(0o700, stat.S_IMODE(os.stat(folder).st_mode))
        with qmp.Monitor(folder, qemu_process.ACT) as monitor:
            self.assertNotIn('chap', [one['name'] for one in monitor.call(
                'qom-list', {'path': '/objects'})])

    def test_a_server_that_cannot_reach_a_disk_leaves_nothing(self):
        host = self.make('host-a')
        server_id = str(uuid.uuid4())
        disk = self.disk(host, server_id)
        wrong = dataclasses.replace(disk, info={**disk.info, 'auth_password': 'wrong-password'})
        with self.assertRaises(errors.HostRefused):
            host.spawn(base.Guest(server_id, 'server', 1, 256, (wrong,)))
        self.assertEqual({}, host.servers())
        self.assertFalse(os.path.exists(self.server_folder(host, server_id)))

    def test_a_copy_that_fails_leaves_the_old_disk(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb')
        old = guest.disks[0].volume_id
        small = self.disk(host, guest.server_id, size=units.GIB // 512)
        with self.assertRaises(errors.HostRefused):
            host.swap(guest.server_id, old, small)
        self.assertEqual([old], list(host.disks(guest.server_id)))
        self.assertTrue(self.write(host, guest.server_id, old, b'old'))
        grants = {one.volume_id: [grant.sessions for grant in one.grants]
                  for one in self.target.exports()}
        self.assertEqual(([1], [0]), (grants[old], grants[small.volume_id]))

    def test_half_done_plug_and_swap_finished_by_next_agent(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb')
        server_id, old = guest.server_id, guest.disks[0].volume_id
        initiator = host.connector(server_id)['initiator']
        disk = self.disk(host, server_id, '/dev/vdc')
        new = self.disk(host, server_id, '/dev/vdb')
        self.assertTrue(self.write(host, server_id, old, b'copied'))
        with qmp.Monitor(self.server_folder(host, server_id), qemu_process.ACT) as monitor:
            disks = qemu_disks.Disks(monitor, clock.Clock())
            disks.connect(disk, initiator)
            disks.connect(new, initiator)
            monitor.call('blockdev-mirror', {
                'job-id': 'disk-5', 'device': qemu_disks.node(old),
                'target': qemu_disks.node(new.volume_id), 'sync': 'full'})
        again = self.make('host-a')
        again.plug(server_id, disk)
        again.swap(server_id, old, new)
        for _ in range(2):
            self.assertEqual({disk.volume_id, new.volume_id}, set(again.disks(server_id)))
            self.assertEqual(b'copied', self.read(again, server_id, new.volume_id))
            again.swap(server_id, old, new)
        sessions = {one.volume_id: [grant.sessions for grant in one.grants]
                    for one in self.target.exports()}
        self.assertEqual([[0], [1], [1]], [
            sessions[one] for one in (old, new.volume_id, disk.volume_id)])

    def test_a_copy_that_is_given_up_is_taken_away(self):
        host = self.make('host-a')
        guest = self.spawned(host, '/dev/vdb')
        server_id, old = guest.server_id, guest.disks[0].volume_id
        new = self.disk(host, server_id, '/dev/vdb')
        records = qemu_records.Records(os.path.join(self.place, 'host-a'))
        records.write(records.read(server_id).having(qemu_records.disk_of(new, copying=True)))
        with qmp.Monitor(self.server_folder(host, server_id), qemu_process.ACT) as monitor:
            disks = qemu_disks.Disks(monitor, clock.Clock())
            disks.connect(new, host.connector(server_id)['initiator'])
            monitor.call('blockdev-mirror', {
                'job-id': 'disk-5', 'device': qemu_disks.node(old),
                'target': qemu_disks.node(new.volume_id), 'sync': 'full'})
        host.unplug(server_id, new.volume_id)
        self.assertEqual([old], list(host.disks(server_id)))
        self.assertTrue(self.write(host, server_id, old, b'goes on'))
