"""Records of the servers on a local host, their disks, and the links to the devices."""
import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Sequence

from blockattach.compute import errors
from blockattach.compute import files
from blockattach.compute.hosts import base
from blockattach.storage.domain import connection

_FILE = 'server.json'
_NAME = re.compile('[A-Za-z0-9][A-Za-z0-9_-]*')


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Disk of a server.

    :ivar link: name of its link, or None if another disk of a copy, its source or its target,
        has the link
    :ivar given: False while the disk is being attached or is the source of a finished copy
    """

    volume_id: str
    link: str | None
    mode: connection.AccessMode
    given: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Power state and disks of a server."""

    power: base.Power = base.Power.STOPPED
    entries: Sequence[Entry] = ()

    def find(self, volume_id: str) -> Entry | None:
        """Return the disk of a volume, or None."""
        return next((one for one in self.entries if one.volume_id == volume_id), None)

    def having(self, *entries: Entry) -> 'Record':
        """Return a copy of the record with the entries, replacing those of the same volumes."""
        ids = {one.volume_id for one in entries}
        others = [one for one in self.entries if one.volume_id not in ids]
        return dataclasses.replace(self, entries=(*others, *entries))

    def without(self, volume_id: str) -> 'Record':
        """Return a copy of the record without the disk of a volume."""
        return dataclasses.replace(self, entries=tuple(
            one for one in self.entries if one.volume_id != volume_id))


class Records:
    """Directory of each server, with its record and a link for each disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, server_id: str) -> Record | None:
        """Return the record of a server, or None."""
        found = files.read(os.path.join(self._of(server_id), _FILE))
        if found is None:
            return None
        return Record(base.Power(found['power']), tuple(
            Entry(one['volume_id'], one['link'], connection.AccessMode(one['mode']), one['given'])
            for one in found['entries']))

    def all(self) -> dict[str, Record]:
        """Return the records of all servers, by server id."""
        with contextlib.suppress(FileNotFoundError):
            found = {name: self.find(name) for name in os.listdir(self._folder)}
            return {name: record for name, record in found.items() if record is not None}
        return {}

    def keep(self, server_id: str, record: Record) -> None:
        """Write the record of a server."""
        os.makedirs(self._of(server_id), mode=0o755, exist_ok=True)
        files.write(os.path.join(self._of(server_id), _FILE), dataclasses.asdict(record))

    def forget(self, server_id: str) -> None:
        """Delete the record and the links of a server. A missing server is not an error."""
        shutil.rmtree(self._of(server_id), ignore_errors=True)

    def link(self, server_id: str, name: str | None, device: str) -> None:
        """Point a link at a device atomically. Do nothing if the name is None."""
        if name is None:
            return
        path = os.path.join(self._of(server_id), name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'{path}.new')
        os.symlink(device, f'{path}.new')
        os.replace(f'{path}.new', path)

    def unlink(self, server_id: str, name: str | None) -> None:
        """Delete a link. Do nothing if the name is None or the link is missing."""
        if name is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._of(server_id), name))

    def _of(self, server_id: str) -> str:
        if not _NAME.fullmatch(server_id):
            raise errors.HostRefused(reason=f'invalid server ID {server_id}')
        return os.path.join(self._folder, server_id)


def link_of(device: str) -> str:
    """Return the link name of a device, for example ``vdb`` for ``/dev/vdb``.

    :raises HostRefused: the device name is invalid
    """
    name = device.removeprefix('/dev/')
    if not _NAME.fullmatch(name):
        raise errors.HostRefused(reason=f'invalid device name {device}')
    return name
