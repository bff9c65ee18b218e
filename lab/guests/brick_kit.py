"""Conformance kit of compute hosts for os-brick and the kernel's initiator, with disks of the
host. Runs in a guest, see test_compute_hosts.
"""
import subprocess
import uuid

from blockattach.compute.hosts.local import devices
from blockattach.conformance import hosts
from blockattach.storage.domain import connection
from lab.compute import storage
from lab.compute import test_local_host


class BrickHostTest(test_local_host.OnThisHost, hosts.HostContract):

    kind = 'brick'

    def nothing_is_left(self):
        super().nothing_is_left()
        found = subprocess.run(['iscsiadm', '-m', 'session'], capture_output=True, text=True,
                               check=False)
        self.assertEqual(('', 'iscsiadm: No active sessions.\n'), (found.stdout, found.stderr))

    def test_the_last_server_of_a_volume_ends_its_session(self):
        first, second = self.spawned(), self.spawned()
        disk = self.disk(self.host, first.server_id)
        self.host.plug(first.server_id, disk)
        for mode in (connection.AccessMode.RO, connection.AccessMode.RW):
            other = self.disk(self.host, second.server_id, volume_id=disk.volume_id, mode=mode)
            self.host.plug(second.server_id, other)
            self.assertEqual(mode is connection.AccessMode.RW,
                             self.write(self.host, second.server_id, disk.volume_id, b'x'))
        self.host.unplug(first.server_id, disk.volume_id)
        self.assertTrue(self.write(self.host, second.server_id, disk.volume_id, b'y'))

    def test_a_disk_that_a_process_has_for_itself_stays(self):
        guest = self.spawned('/dev/vdb')
        path = self.path(guest.server_id)
        with devices.held(path, guest.server_id, str(uuid.uuid4())), \
                self.assertRaises(test_local_host.errors.DeviceBusy):
            self.host.unplug(guest.server_id, guest.disks[0].volume_id)
        self.assert_has(self.host, guest.server_id, *guest.disks)
        self.assertEqual(storage.SMALL, devices.size(path))
