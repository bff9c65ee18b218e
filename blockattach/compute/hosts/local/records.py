"""Which servers are here, with which disks, and the links by which they are found."""
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
    """A disk of a server. ``link`` is its device's name; None: another disk has it, of which this
    is the copy or the source. Not ``given``: it is on its way in or out.
    """

    volume_id: str
    link: str | None
    mode: connection.AccessMode
    given: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A server, which is nothing but this."""

    power: base.Power = base.Power.STOPPED
    entries: Sequence[Entry] = ()

    def find(self, volume_id: str) -> Entry | None:
        """One of its disks."""
        return next((one for one in self.entries if one.volume_id == volume_id), None)

    def having(self, *entries: Entry) -> 'Record':
        """With these, each instead of the one of the same volume."""
        ids = {one.volume_id for one in entries}
        others = [one for one in self.entries if one.volume_id not in ids]
        return dataclasses.replace(self, entries=(*others, *entries))

    def without(self, volume_id: str) -> 'Record':
        """Without one of them."""
        return dataclasses.replace(self, entries=tuple(
            one for one in self.entries if one.volume_id != volume_id))


class Records:
    """A folder for each server, with a link for each disk that it has."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, server_id: str) -> Record | None:
        """One of them."""
        found = files.read(os.path.join(self._of(server_id), _FILE))
        if found is None:
            return None
        return Record(base.Power(found['power']), tuple(
            Entry(one['volume_id'], one['link'], connection.AccessMode(one['mode']), one['given'])
            for one in found['entries']))

    def all(self) -> dict[str, Record]:
        """All of them."""
        with contextlib.suppress(FileNotFoundError):
            found = {name: self.find(name) for name in os.listdir(self._folder)}
            return {name: record for name, record in found.items() if record is not None}
        return {}

    def keep(self, server_id: str, record: Record) -> None:
        """Write it down."""
        os.makedirs(self._of(server_id), mode=0o755, exist_ok=True)
        files.write(os.path.join(self._of(server_id), _FILE), dataclasses.asdict(record))

    def forget(self, server_id: str) -> None:
        """Remove it with all its links; one that is not there is no error."""
        shutil.rmtree(self._of(server_id), ignore_errors=True)

    def link(self, server_id: str, name: str | None, device: str) -> None:
        """Let a name lead to a device, in one step."""
        if name is None:
            return
        path = os.path.join(self._of(server_id), name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'{path}.new')
        os.symlink(device, f'{path}.new')
        os.replace(f'{path}.new', path)

    def unlink(self, server_id: str, name: str | None) -> None:
        """Let it lead nowhere."""
        if name is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._of(server_id), name))

    def _of(self, server_id: str) -> str:
        if not _NAME.fullmatch(server_id):
            raise errors.HostRefused(reason=f'invalid server ID {server_id}')
        return os.path.join(self._folder, server_id)


def link_of(device: str) -> str:
    """The name of a link for a device, as ``vdb`` of ``/dev/vdb``.

    :raises HostRefused: it has none
    """
    name = device.removeprefix('/dev/')
    if not _NAME.fullmatch(name):
        raise errors.HostRefused(reason=f'invalid device name {device}')
    return name
