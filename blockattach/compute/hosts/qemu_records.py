"""Descriptions of the servers on a QEMU host. Each server has a directory with a JSON file.

A description records the intended state of a server, and its QEMU process reports the actual
state. Connection information and secrets are not recorded, but passed with each call.
"""
import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterable

from blockattach.compute.hosts import base
from blockattach.storage.domain import connection

_DESCRIPTION = 'server.json'


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """Disk of a server, without connection information.

    ``copying`` is True while a swap copies another disk of the server to this disk.
    """

    volume_id: str
    device: str
    mode: connection.AccessMode
    copying: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Description of the intended state of a server.

    ``disks`` includes each disk that QEMU may have, even if the agent ended while it added or
    removed the disk.
    """

    server_id: str
    name: str
    vcpus: int
    memory_mb: int
    disks: tuple[Disk, ...]

    def disk(self, volume_id: str) -> Disk | None:
        return next((disk for disk in self.disks if disk.volume_id == volume_id), None)

    def has_other(self, volume_id: str, device: str) -> bool:
        """Return True if a volume other than ``volume_id`` has the device name."""
        return any(disk.device == device and disk.volume_id != volume_id for disk in self.disks)

    def without(self, *volume_ids: str) -> 'Record':
        return dataclasses.replace(self, disks=tuple(
            disk for disk in self.disks if disk.volume_id not in volume_ids))

    def having(self, disk: Disk) -> 'Record':
        """Return a copy of the record with a disk, which replaces a disk of the same volume."""
        others = self.without(disk.volume_id)
        return dataclasses.replace(others, disks=(*others.disks, disk))


def record_of(guest: base.Guest) -> Record:
    """Return the description to store for a guest."""
    return Record(guest.server_id, guest.name, guest.vcpus, guest.memory_mb,
                  tuple(disk_of(disk) for disk in guest.disks))


def disk_of(disk: base.Disk, copying: bool = False) -> Disk:
    """Return the disk without its connection information."""
    return Disk(disk.volume_id, disk.device, disk.mode, copying)


class Records:
    """Store for the descriptions of the servers of one host.

    Only the user of the agent can read the directories of the servers.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def make_folder(self) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def folder(self, server_id: str) -> str:
        return os.path.join(self._folder, server_id)

    def ids(self) -> Iterable[str]:
        """Yield the ids of all servers that have a description."""
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._folder)):
                if os.path.exists(os.path.join(self._folder, name, _DESCRIPTION)):
                    yield name

    def read(self, server_id: str) -> Record | None:
        """Return the description of a server, or None if the server has no description."""
        try:
            with open(os.path.join(self.folder(server_id), _DESCRIPTION), 'rb') as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        disks = tuple(Disk(**{**disk, 'mode': connection.AccessMode(disk['mode'])})
                      for disk in found.pop('disks'))
        return Record(**found, disks=disks)

    def write(self, record: Record) -> None:
        """Write the description of a server atomically."""
        folder = self.folder(record.server_id)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, _DESCRIPTION)
        with open(f'{path}.new', 'w', encoding='utf-8') as file:
            json.dump(dataclasses.asdict(record), file)
            file.flush()
            # Synced before the rename, or a power failure could leave a truncated file.
            os.fsync(file.fileno())
        os.replace(f'{path}.new', path)

    def remove(self, server_id: str) -> None:
        """Delete the directory of a server. A missing directory is not an error."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder(server_id))
