"""In-memory host driver, which does not log in to targets."""
import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.storage.domain import connection


class Cloud:
    """Registry of fake hosts by name. Servers can be migrated between the hosts of a registry."""

    def __init__(self) -> None:
        self.hosts: dict[str, FakeHost] = {}


class FakeHost(base.Host):
    """Host driver that only records servers and their disks.

    :ivar busy: ids of volumes whose detach fails as if guests did not release their disks
    :ivar failing: names of methods that raise `HostRefused`; each item makes one call fail
    """

    def __init__(self, name: str, cloud: Cloud | None = None) -> None:
        self.busy: set[str] = set()
        self.failing: list[str] = []
        self._name = name
        self._cloud = cloud or Cloud()
        self._cloud.hosts[name] = self
        self._guests: dict[str, base.Guest] = {}
        self._power: dict[str, base.Power] = {}
        self._guard = threading.Lock()

    def check(self) -> None:
        """Accept the host without any check."""

    def connector(self, server_id: str) -> dict[str, Any]:
        """Return connector properties with a separate initiator name for each server."""
        return {'host': self._name, 'initiator': f'iqn.2026-01.org.blockattach:{self._name}-'
                                                 f'{server_id}',
                'ip': '127.0.0.1', 'multipath': False, 'platform': 'x86_64', 'os_type': 'linux'}

    def connected(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """Return the connection information of each disk, by server id and volume id."""
        with self._guard:
            return {(guest.server_id, disk.volume_id): disk.info
                    for guest in self._guests.values() for disk in guest.disks}

    def guest(self, server_id: str) -> base.Guest:
        """Return the recorded definition of a server.

        :raises HostRefused: the server does not exist on this host
        """
        with self._guard:
            return self._known(server_id)

    def spawn(self, guest: base.Guest) -> None:
        self._fail('spawn')
        with self._guard:
            self._guests.setdefault(guest.server_id, guest)
            self._power[guest.server_id] = base.Power.RUNNING

    def define(self, guest: base.Guest) -> None:
        self._fail('define')
        with self._guard:
            self._guests.setdefault(guest.server_id, guest)
            self._power.setdefault(guest.server_id, base.Power.STOPPED)

    def stop(self, server_id: str) -> None:
        self._fail('stop')
        with self._guard:
            self._known(server_id)
            self._power[server_id] = base.Power.STOPPED

    def start(self, guest: base.Guest) -> None:
        self._fail('start')
        with self._guard:
            self._guests[guest.server_id] = guest
            self._power[guest.server_id] = base.Power.RUNNING

    def reboot(self, guest: base.Guest) -> None:
        self._fail('reboot')
        self.start(guest)

    def destroy(self, server_id: str) -> None:
        self._fail('destroy')
        with self._guard:
            self._guests.pop(server_id, None)
            self._power.pop(server_id, None)

    def plug(self, server_id: str, disk: base.Disk) -> None:
        self._fail('plug')
        with self._guard:
            self._change(server_id, disk.volume_id, disk)

    def unplug(self, server_id: str, volume_id: str) -> None:
        """Delete the record of the disk.

        :raises DeviceBusy: the volume is listed in `busy`
        """
        self._fail('unplug')
        with self._guard:
            if server_id not in self._guests:
                return
            if volume_id in self.busy:
                raise errors.DeviceBusy(volume_id=volume_id, server_id=server_id)
            self._change(server_id, volume_id, None)

    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """Check that the server exists. The size is not recorded."""
        self._fail('resize')
        with self._guard:
            self._known(server_id)

    def swap(self, server_id: str, volume_id: str, disk: base.Disk) -> None:
        self._fail('swap')
        with self._guard:
            guest = self._known(server_id)
            self._guests[server_id] = dataclasses.replace(guest, disks=tuple(
                disk if one.volume_id == volume_id else one for one in guest.disks))

    def servers(self) -> dict[str, base.Power]:
        with self._guard:
            return dict(self._power)

    def disks(self, server_id: str) -> dict[str, connection.AccessMode]:
        with self._guard:
            return {disk.volume_id: disk.mode for disk in self._known(server_id).disks}

    def receive(self, guest: base.Guest) -> str:
        """Record the server as stopped until `run` is called, and return the name of this host."""
        self._fail('receive')
        with self._guard:
            self._guests.setdefault(guest.server_id, guest)
            self._power.setdefault(guest.server_id, base.Power.STOPPED)
        return self._name

    def send(self, server_id: str, address: str) -> None:
        """Start the guest on the receiving host, and delete the server from this host."""
        self._fail('send')
        there = self._cloud.hosts.get(address)
        if there is None:
            raise errors.HostRefused(reason=(
                f'cannot live-migrate the server to host {address}: agents of kind fake migrate '
                'servers only between hosts of the same process'))
        if server_id not in there.servers():
            raise errors.HostRefused(
                reason=f'host {address} is not prepared to receive server {server_id}')
        there.run(server_id)
        self.destroy(server_id)

    def run(self, server_id: str) -> None:
        """Start the guest of a received server."""
        with self._guard:
            self._known(server_id)
            self._power[server_id] = base.Power.RUNNING

    def _fail(self, method: str) -> None:
        if method in self.failing:
            self.failing.remove(method)
            raise errors.HostRefused(reason=f'{method} fails as planned')

    def _known(self, server_id: str) -> base.Guest:
        guest = self._guests.get(server_id)
        if guest is None:
            raise errors.HostRefused(reason=f'server {server_id} does not exist on this host')
        return guest

    def _change(self, server_id: str, volume_id: str, disk: base.Disk | None) -> None:
        guest = self._known(server_id)
        others = [one for one in guest.disks if one.volume_id != volume_id]
        self._guests[server_id] = dataclasses.replace(
            guest, disks=(*others, disk) if disk is not None else tuple(others))
