"""What a host of QEMU guests remembers of each server: a folder with a description in it.

A description has no connection and no secret: these come with each call that needs them. It says
what was to be; what a guest has is asked of its QEMU.
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
    """A disk without its connection. ``copying``: it is to take the place of another one."""

    volume_id: str
    device: str
    mode: connection.AccessMode
    copying: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A server. ``disks``: all that its QEMU may have, or have had when an agent ended."""

    server_id: str
    name: str
    vcpus: int
    memory_mb: int
    disks: tuple[Disk, ...]

    def disk(self, volume_id: str) -> Disk | None:
        """The one of a volume."""
        return next((disk for disk in self.disks if disk.volume_id == volume_id), None)

    def has_other(self, volume_id: str, device: str) -> bool:
        """Whether another volume has this device name."""
        return any(disk.device == device and disk.volume_id != volume_id for disk in self.disks)

    def without(self, *volume_ids: str) -> 'Record':
        """The same without some disks."""
        return dataclasses.replace(self, disks=tuple(
            disk for disk in self.disks if disk.volume_id not in volume_ids))

    def having(self, disk: Disk) -> 'Record':
        """The same with a disk, in place of what it had of that volume."""
        others = self.without(disk.volume_id)
        return dataclasses.replace(others, disks=(*others.disks, disk))


def record_of(guest: base.Guest) -> Record:
    """How a server is to be remembered."""
    return Record(guest.server_id, guest.name, guest.vcpus, guest.memory_mb,
                  tuple(disk_of(disk) for disk in guest.disks))


def disk_of(disk: base.Disk, copying: bool = False) -> Disk:
    """How a disk is to be remembered."""
    return Disk(disk.volume_id, disk.device, disk.mode, copying)


class Records:
    """The descriptions in a folder; what is in it may be read by its owner only."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def make_folder(self) -> None:
        """Have the folder of all."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def folder(self, server_id: str) -> str:
        """Where all files of a server are."""
        return os.path.join(self._folder, server_id)

    def ids(self) -> Iterable[str]:
        """Those that are remembered."""
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._folder)):
                if os.path.exists(os.path.join(self._folder, name, _DESCRIPTION)):
                    yield name

    def read(self, server_id: str) -> Record | None:
        """One; None: it is not here."""
        try:
            with open(os.path.join(self.folder(server_id), _DESCRIPTION), 'rb') as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        disks = tuple(Disk(**{**disk, 'mode': connection.AccessMode(disk['mode'])})
                      for disk in found.pop('disks'))
        return Record(**found, disks=disks)

    def write(self, record: Record) -> None:
        """Remember it; an older description is there until this one is whole."""
        folder = self.folder(record.server_id)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, _DESCRIPTION)
        with open(f'{path}.new', 'w', encoding='utf-8') as file:
            json.dump(dataclasses.asdict(record), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f'{path}.new', path)

    def remove(self, server_id: str) -> None:
        """Forget it, with all its files."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder(server_id))
