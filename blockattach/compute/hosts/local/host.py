"""Host driver whose servers are sets of block devices of this host, without guests.

Each device of a server has a symbolic link. The operator runs the programs that use the devices.
Power states are only recorded, and live migration is not supported.
"""
import contextlib
import dataclasses
import os
import re
import shutil
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from blockattach.compute import errors
from blockattach.compute import files
from blockattach.compute.hosts import base
from blockattach.compute.hosts.local import connectors
from blockattach.compute.hosts.local import devices
from blockattach.storage.domain import connection

_FILE = 'server.json'
_NAME = re.compile('[A-Za-z0-9][A-Za-z0-9_-]*')
_RUNNING, _STOPPED = base.Power.RUNNING, base.Power.STOPPED
_STAYS = ('cannot live-migrate servers of a local host, because the agent does not know which '
          'programs use their disks')


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """Recorded disk of a server.

    :ivar link: name of the symbolic link to the device; None while a swap copies a volume to this
        disk, and after the copy for the old disk
    :ivar given: True while the server can use the disk; False while the disk is being attached,
        and for the old disk after the copy of a swap
    """

    volume_id: str
    link: str | None
    mode: connection.AccessMode
    given: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Record:
    """Recorded power state and disks of a server."""

    power: base.Power = base.Power.STOPPED
    entries: Sequence[_Entry] = ()

    def find(self, volume_id: str) -> _Entry | None:
        return next((one for one in self.entries if one.volume_id == volume_id), None)

    def having(self, *entries: _Entry) -> '_Record':
        """Return a copy of the record with the given entries.

        They replace existing entries of the same volumes.
        """
        ids = {one.volume_id for one in entries}
        others = [one for one in self.entries if one.volume_id not in ids]
        return dataclasses.replace(self, entries=(*others, *entries))

    def without(self, volume_id: str) -> '_Record':
        return dataclasses.replace(self, entries=tuple(
            one for one in self.entries if one.volume_id != volume_id))


class _Records:
    """Directories of the servers. A directory contains the record and a link for each disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, server_id: str) -> _Record | None:
        found = files.read(os.path.join(self._of(server_id), _FILE))
        if found is None:
            return None
        return _Record(base.Power(found['power']), tuple(
            _Entry(one['volume_id'], one['link'], connection.AccessMode(one['mode']), one['given'])
            for one in found['entries']))

    def all(self) -> dict[str, _Record]:
        # The directory is missing before the first server.
        with contextlib.suppress(FileNotFoundError):
            found = {name: self.find(name) for name in os.listdir(self._folder)}
            return {name: record for name, record in found.items() if record is not None}
        return {}

    def keep(self, server_id: str, record: _Record) -> None:
        # Programs of the operator, which need not run as root, follow the links.
        os.makedirs(self._of(server_id), mode=0o755, exist_ok=True)
        files.write(os.path.join(self._of(server_id), _FILE), dataclasses.asdict(record))

    def forget(self, server_id: str) -> None:
        """Delete the record and the links of a server. A missing server is not an error."""
        shutil.rmtree(self._of(server_id), ignore_errors=True)

    def link(self, server_id: str, name: str | None, device: str) -> None:
        """Create or replace the link to a device atomically. Do nothing if the name is None."""
        if name is None:
            return
        path = os.path.join(self._of(server_id), name)
        # An agent process that ended before the replacement may have left the link.
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


def _link_of(device: str) -> str:
    """Return the name of the link for a device name, such as ``vdb`` for ``/dev/vdb``.

    :raises HostRefused: the device name is invalid
    """
    name = device.removeprefix('/dev/')
    if not _NAME.fullmatch(name):
        raise errors.HostRefused(reason=f'invalid device name {device}')
    return name


class LocalHost(base.Host):
    """Host driver with one link per disk, ``<state_dir>/servers/<server id>/<device name>``."""

    def __init__(self, name: str, state_dir: str, connector: connectors.Connector,
                 user: Callable[[], int] = os.geteuid) -> None:
        """
        :param user: function that returns the effective user id
        """
        self._name = name
        self._connector = connector
        self._user = user
        self._records = _Records(os.path.join(os.path.abspath(state_dir), 'servers'))
        self._locks: dict[str, threading.Lock] = {}

    def check(self) -> None:
        """See `base.Host`. The links of volumes that are not connected are deleted too.

        After a reboot, the kernel may have given the device name of such a volume to another disk.
        """
        if self._user() != 0:
            raise errors.ConfigurationError(
                reason='cannot connect volumes to this host. Run the agent as root')
        self._connector.check()
        for server_id, record in self._records.all().items():
            for entry in record.entries:
                if self._connector.path(server_id, entry.volume_id) is None:
                    self._records.unlink(server_id, entry.link)

    def connector(self, server_id: str) -> dict[str, Any]:
        return {**self._connector.properties(server_id), 'host': self._name}

    def spawn(self, guest: base.Guest) -> None:
        with self._lock(guest.server_id):
            known = self._records.find(guest.server_id) is not None
            try:
                self._run(guest)
            except errors.HostRefused:
                if not known:
                    self._destroy(guest.server_id)
                raise

    def define(self, guest: base.Guest) -> None:
        """See `base.Host`. The disks are already connected, because there is no guest to start."""
        known = self._records.find(guest.server_id)
        if known is None or known.power is not _RUNNING:
            self.spawn(guest)
            self.stop(guest.server_id)

    def stop(self, server_id: str) -> None:
        with self._lock(server_id):
            record = self._known(server_id)
            self._records.keep(server_id, _Record(_STOPPED, record.entries))

    def start(self, guest: base.Guest) -> None:
        """See `base.Host`. Broken connections of the disks are repaired."""
        with self._lock(guest.server_id):
            self._run(guest)

    def reboot(self, guest: base.Guest) -> None:
        self.start(guest)

    def destroy(self, server_id: str) -> None:
        with self._lock(server_id):
            self._destroy(server_id)

    def plug(self, server_id: str, disk: base.Disk) -> None:
        with self._lock(server_id):
            self._known(server_id)
            self._plug(server_id, disk)

    def unplug(self, server_id: str, volume_id: str) -> None:
        with self._lock(server_id):
            self._unplug(server_id, volume_id)

    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """See `base.Host`.

        :raises DeviceBusy: the device is in use and cannot grow
        """
        with self._lock(server_id):
            entry = self._known(server_id).find(volume_id)
            if entry is None:
                raise errors.HostRefused(reason=f'server {server_id} has no volume {volume_id}')
            # The connector may replace the device.
            with self._without_link(server_id, entry):
                self._connector.resize(server_id, volume_id, size_gb)

    def swap(self, server_id: str, volume_id: str, disk: base.Disk) -> None:
        """See `base.Host`.

        :raises DeviceBusy: the old device is in use
        """
        with self._lock(server_id):
            record = self._known(server_id)
            old, new = record.find(volume_id), record.find(disk.volume_id)
            # A repeated call after the copy finds the new disk.
            if new is None or not new.given:
                if old is None:
                    raise errors.HostRefused(
                        reason=f'server {server_id} has no volume {volume_id}')
                self._copy(server_id, old, disk)
            self._unplug(server_id, volume_id)

    def servers(self) -> dict[str, base.Power]:
        return {name: record.power for name, record in self._records.all().items()}

    def disks(self, server_id: str) -> dict[str, connection.AccessMode]:
        """Return the access mode of each attached volume whose device works, by volume id."""
        return {one.volume_id: one.mode for one in self._known(server_id).entries
                if one.given and self._connector.path(server_id, one.volume_id) is not None}

    def receive(self, guest: base.Guest) -> str:
        raise errors.HostRefused(reason=_STAYS)

    def send(self, server_id: str, address: str) -> None:
        raise errors.HostRefused(reason=_STAYS)

    def _run(self, guest: base.Guest) -> None:
        """Connect the disks of the guest, and record the server as running.

        Any other disks of the server are disconnected first.
        """
        server_id = guest.server_id
        record = self._records.find(server_id) or _Record()
        # `_plug` and `_unplug` need a record.
        self._records.keep(server_id, record)
        wanted = {disk.volume_id for disk in guest.disks}
        for entry in record.entries:
            if entry.volume_id not in wanted:
                self._unplug(server_id, entry.volume_id)
        for disk in guest.disks:
            self._plug(server_id, disk)
        self._records.keep(server_id, _Record(_RUNNING, self._known(server_id).entries))

    def _destroy(self, server_id: str) -> None:
        record = self._records.find(server_id)
        if record is None:
            return
        self._records.keep(server_id, _Record(_STOPPED, record.entries))
        for entry in record.entries:
            self._unplug(server_id, entry.volume_id)
        self._records.forget(server_id)

    def _plug(self, server_id: str, disk: base.Disk) -> None:
        record, link = self._known(server_id), _link_of(disk.device)
        if any(one.link == link and one.volume_id != disk.volume_id for one in record.entries):
            raise errors.HostRefused(
                reason=f'device name {link} of server {server_id} is in use by another volume')
        entry = _Entry(disk.volume_id, link, disk.mode)
        with self._without_link(server_id, entry):
            self._connect(server_id, entry, disk)
        self._keep(server_id, _Entry(disk.volume_id, link, disk.mode, given=True))

    def _connect(self, server_id: str, entry: _Entry, disk: base.Disk) -> str:
        # Recorded first, so that the connection is found again if the agent ends here.
        if self._known(server_id).find(disk.volume_id) is None:
            self._keep(server_id, entry)
        try:
            return self._connector.connect(server_id, disk)
        except errors.HostRefused:
            self._records.keep(server_id, self._known(server_id).without(disk.volume_id))
            raise

    def _unplug(self, server_id: str, volume_id: str) -> None:
        record = self._records.find(server_id)
        entry = None if record is None else record.find(volume_id)
        if record is None or entry is None:
            return
        with self._without_link(server_id, entry):
            self._connector.disconnect(server_id, volume_id)
        self._records.keep(server_id, record.without(volume_id))

    @contextlib.contextmanager
    def _without_link(self, server_id: str, entry: _Entry) -> Iterator[None]:
        """Delete the link of a disk before the block, and create the link after the block.

        The link is deleted because the kernel may reuse the name of a released device for another
        disk. The link is created again only if the disk is connected.
        """
        self._records.unlink(server_id, entry.link)
        try:
            yield
        finally:
            path = self._connector.path(server_id, entry.volume_id)
            if path is not None:
                self._records.link(server_id, entry.link, path)

    def _copy(self, server_id: str, old: _Entry, disk: base.Disk) -> None:
        """Connect the new disk, copy the old disk to the new disk, and move the link.

        :raises HostRefused: the server still has the old disk, and the new disk is not connected
        :raises DeviceBusy: the old device is in use
        """
        source = self._connector.path(server_id, old.volume_id)
        if source is None:
            raise errors.HostRefused(reason=f'volume {old.volume_id} is not connected')
        with devices.held(source, server_id, old.volume_id):
            # The link still belongs to the old disk.
            device = self._connect(server_id, _Entry(disk.volume_id, None, disk.mode),
                                   disk)
            try:
                with devices.held(device, server_id, disk.volume_id):
                    devices.copy(source, device)
            except (OSError, errors.DeviceBusy) as exc:
                self._unplug(server_id, disk.volume_id)
                raise errors.HostRefused(
                    reason=f'cannot copy volume {old.volume_id} to {disk.volume_id}: {exc}'
                ) from None
            self._records.keep(server_id, self._known(server_id).having(
                _Entry(old.volume_id, None, old.mode),
                _Entry(disk.volume_id, old.link, disk.mode, given=True)))
            self._records.link(server_id, old.link, device)

    def _keep(self, server_id: str, entry: _Entry) -> None:
        self._records.keep(server_id, self._known(server_id).having(entry))

    def _known(self, server_id: str) -> _Record:
        record = self._records.find(server_id)
        if record is None:
            raise errors.HostRefused(reason=f'server {server_id} does not exist on this host')
        return record

    def _lock(self, server_id: str) -> threading.Lock:
        return self._locks.setdefault(server_id, threading.Lock())
