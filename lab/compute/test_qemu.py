"""QEMU guests keep the contract of hosts, on a real target, with real bytes."""
import dataclasses

from blockattach.conformance import hosts
from lab.compute import qemu


class QemuHostTest(qemu.Backing, hosts.HostContract):

    has_bytes = True

    def spawned(self, *devices):
        """It takes commands; before, a guest releases no disk."""
        guest = super().spawned(*devices)
        self.console(self.host, guest.server_id).wait()
        return guest

    def unreachable(self, disk):
        return dataclasses.replace(disk, info={**disk.info, 'auth_password': 'wrong-password'})
