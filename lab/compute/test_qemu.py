"""Contract of hosts, kept by QEMU guests with real data on a real target."""
import dataclasses

from blockattach.conformance import hosts
from lab.compute import qemu


class QemuHostTest(qemu.Backing, hosts.HostContract):

    has_bytes = True

    def spawned(self, *devices):
        """Spawn a server, and wait until its guest takes commands.

        A guest does not release disks before that.
        """
        guest = super().spawned(*devices)
        self.console(self.host, guest.server_id).wait()
        return guest

    def unreachable(self, disk):
        return dataclasses.replace(disk, info={**disk.info, 'auth_password': 'wrong-password'})
