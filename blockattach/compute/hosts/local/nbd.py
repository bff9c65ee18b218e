"""Connector for hosts without an iSCSI initiator in the kernel.

For each disk, qemu-storage-daemon logs in with libiscsi, and exports the volume over NBD on a Unix
socket. nbdfuse presents the export as a file, and a loop device uses this file. These processes
and the loop device outlive the agent.
"""
import contextlib
import os
import re
import shutil
import urllib.parse
from collections.abc import Mapping
from typing import Any

from oslo_log import log as oslo_log

from blockattach.compute import errors
from blockattach.compute import files
from blockattach.compute.hosts import base
from blockattach.compute.hosts import qmp
from blockattach.compute.hosts.local import connectors
from blockattach.compute.hosts.local import devices
from blockattach.compute.hosts.local import processes
from blockattach.platform import clock as clocks
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage.domain import connection

LOG = oslo_log.getLogger(__name__)

PROGRAMS = {'qemu-storage-daemon': 'qemu-system-common or qemu-utils, and qemu-block-extra',
            'nbdfuse': 'libnbd-bin', 'losetup': 'util-linux'}
"""Debian packages that contain the required programs, by program name."""
PROCESSES = ('qemu-storage-daemon', 'nbdfuse')
"""Names of the programs of which one process runs for each connected disk."""
_DAEMON, _FUSE = PROCESSES
_NODE, _EXPORT, _FILE, _ORDERS = 'volume', 'export', 'disk', 'qmp'
# A socket path has at most 107 bytes. The connector appends names to the directory.
_LONGEST_FOLDER = 80
_START_SECONDS = 15.0
_TICK = 0.05


class NbdConnector(connectors.Connector):
    """Connector with one initiator name per server and one session per disk."""

    def __init__(self, name: str, state_dir: str, clock: clocks.Clock | None = None) -> None:
        """
        :param name: host name
        :param state_dir: directory used by this connector only
        """
        self._name = re.sub('[^a-z0-9.-]', '-', name.lower())
        self._state_dir = os.path.realpath(state_dir)
        self._clock = clock or clocks.Clock()

    def check(self) -> None:
        missing = [f'{name} (Debian: {packages})' for name, packages in PROGRAMS.items()
                   if shutil.which(name) is None]
        missing += [path for path in ('/dev/fuse', '/dev/loop-control')
                    if not os.path.exists(path)]
        if missing:
            raise errors.ConfigurationError(
                reason=f'cannot connect volumes over NBD. Missing: {", ".join(missing)}')
        if len(os.fsencode(self._state_dir)) > _LONGEST_FOLDER:
            raise errors.ConfigurationError(
                reason=f'the path {self._state_dir} is longer than {_LONGEST_FOLDER} bytes, too '
                       f'long for Unix sockets. Set a shorter state_path')

    def properties(self, server_id: str) -> dict[str, Any]:
        return {'initiator': self._initiator(server_id), 'multipath': False}

    def connect(self, server_id: str, disk: base.Disk) -> str:
        folder = self._folder(server_id, disk.volume_id)
        present = self.path(server_id, disk.volume_id)
        if present is not None and files.read(f'{folder}/mode') == disk.mode:
            return present
        # A broken connection cannot be flushed.
        self._take_down(server_id, disk.volume_id, flushes=present is not None)
        try:
            for path in (self._state_dir, folder, f'{folder}/mount'):
                os.makedirs(path, mode=0o700, exist_ok=True)
            self._log_in(folder, server_id, disk)
            return self._show(folder, disk.mode, int(_data(disk).get('logical_block_size', 512)))
        except (errors.HostError, OSError) as exc:
            self._take_down(server_id, disk.volume_id, flushes=False)
            raise errors.HostRefused(
                reason=f'cannot connect volume {disk.volume_id}: {_without_secret(exc, disk)}'
            ) from None

    def path(self, server_id: str, volume_id: str) -> str | None:
        folder = self._folder(server_id, volume_id)
        found = devices.loop_of(f'{folder}/mount/{_FILE}')
        # A loop device outlives the processes, and then only returns errors.
        if found is None or not all(processes.find(one, folder) for one in PROCESSES):
            return None
        return found

    def disconnect(self, server_id: str, volume_id: str) -> None:
        self._take_down(server_id, volume_id,
                        flushes=self.path(server_id, volume_id) is not None)

    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        folder = self._folder(server_id, volume_id)
        present = self.path(server_id, volume_id)
        if present is None:
            raise errors.HostRefused(reason=f'volume {volume_id} is not connected')
        if devices.size(present) >= units.gib_to_bytes(size_gb):
            return
        mode = connection.AccessMode(files.read(f'{folder}/mode'))
        # NBD has no message for a new size, so the device is created again.
        self._hide(folder, server_id, volume_id, flushes=True)
        with qmp.Monitor(folder, _ORDERS) as daemon:
            self._unexport(daemon)
            try:
                daemon.call('block_resize', {
                    'node-name': _NODE, 'size': units.gib_to_bytes(size_gb)})
            except errors.HostError as exc:
                raise errors.HostRefused(
                    reason=f'cannot resize the device of volume {volume_id}: {exc}') from None
            finally:
                # Also with the old size if the resize has failed.
                _export(daemon, mode)
                self._show(folder, mode, files.read(f'{folder}/block_size'))

    def _log_in(self, folder: str, server_id: str, disk: base.Disk) -> None:
        node, password = _node(disk, self._initiator(server_id))
        files.write(f'{folder}/mode', disk.mode)
        processes.run([_DAEMON, '--daemonize', '--chardev',
                       f'socket,id=orders,path={folder}/{_ORDERS},server=on,wait=off',
                       '--monitor', 'orders'])
        with qmp.Monitor(folder, _ORDERS) as daemon:
            if password is not None:
                daemon.call('object-add', {'qom-type': 'secret', 'id': 'chap', 'data': password})
            daemon.call('blockdev-add', node)
            daemon.call('nbd-server-start', {'addr': {
                'type': 'unix', 'data': {'path': f'{folder}/nbd'}}})
            _export(daemon, disk.mode)

    def _show(self, folder: str, mode: connection.AccessMode, block_size: int) -> str:
        """Create a block device for the NBD export of a disk, and return its path.

        :raises HostError: the device cannot be created
        """
        files.write(f'{folder}/block_size', block_size)
        read_only = mode is connection.AccessMode.RO
        file = f'{folder}/mount/{_FILE}'
        where = urllib.parse.quote(f'{folder}/nbd', safe='/')
        processes.launch([_FUSE, *(['--readonly'] if read_only else []), file,
                          f'nbd+unix:///{_FILE}?socket={where}'], f'{folder}/log')
        if not self._clock.until(lambda: os.path.exists(file), _START_SECONDS, _TICK):
            with open(f'{folder}/log', encoding='utf-8', errors='replace') as said:
                raise errors.HostError(reason=f'{_FUSE} did not start: {said.read().strip()}')
        return devices.loop_over(file, read_only, block_size)

    def _take_down(self, server_id: str, volume_id: str, flushes: bool) -> None:
        """Remove the loop device, the processes and the files of a connection, if they exist.

        :param flushes: True to flush the loop device first
        :raises DeviceBusy: the loop device is in use
        """
        folder = self._folder(server_id, volume_id)
        if not os.path.isdir(folder):
            return
        self._hide(folder, server_id, volume_id, flushes)
        processes.end(_DAEMON, folder)
        for name in set(os.listdir(folder)) - {'mount'}:
            os.unlink(os.path.join(folder, name))
        # Never delete the content of a mount: rmdir fails while it is mounted.
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(f'{folder}/mount')
        os.rmdir(folder)

    def _hide(self, folder: str, server_id: str, volume_id: str, flushes: bool) -> None:
        """Remove the loop device and the nbdfuse mount of an NBD export.

        :param flushes: True to flush the loop device first
        :raises DeviceBusy: the loop device is in use
        """
        file = f'{folder}/mount/{_FILE}'
        loop = devices.loop_of(file)
        if loop is not None:
            with devices.held(loop, server_id, volume_id):
                if flushes:
                    devices.flush(loop)
            if not devices.unloop(loop, file, self._clock):
                raise errors.DeviceBusy(server_id=server_id, volume_id=volume_id)
        if loop is not None and not flushes:
            LOG.warning('Loop device of volume removed, unflushed writes lost%s',
                        log.fields(volume_id=volume_id, path=folder))
        if _is_mounted(f'{folder}/mount'):
            processes.run(['umount', f'{folder}/mount'])
        processes.end(_FUSE, folder)

    def _unexport(self, daemon: qmp.Monitor) -> None:
        daemon.call('block-export-del', {'id': _EXPORT, 'mode': 'hard'})
        if not self._clock.until(lambda: not daemon.call('query-block-exports'),
                                 qmp.ANSWER_SECONDS, _TICK):
            raise errors.HostError(reason=f'{_DAEMON} did not end the export in time')

    def _initiator(self, server_id: str) -> str:
        return f'iqn.2026-01.org.blockattach:{self._name}-{server_id}'

    def _folder(self, server_id: str, volume_id: str) -> str:
        return connectors.folder(self._state_dir, server_id, volume_id)


def _data(disk: base.Disk) -> Mapping[str, Any]:
    data: Mapping[str, Any] = disk.info.get('data', disk.info)
    return data


def _node(disk: base.Disk, initiator: str) -> tuple[dict[str, Any], str | None]:
    """Return the options of the block node for a disk, and the CHAP password.

    The password is None without CHAP. With CHAP, the options refer to the password by the id of a
    QEMU secret.

    :raises HostError: the connection information is incomplete or its type is not iscsi
    """
    data = _data(disk)
    kind = disk.info.get('driver_volume_type')
    if kind != 'iscsi':
        raise errors.HostError(reason=f'connection type {kind} is not supported, only iscsi is')
    missing = {'target_portal', 'target_iqn', 'target_lun'} - set(data)
    if missing:
        raise errors.HostError(
            reason=f'the connection information lacks {", ".join(sorted(missing))}')
    node = {'driver': 'iscsi', 'node-name': _NODE, 'transport': 'tcp',
            'portal': data['target_portal'], 'target': data['target_iqn'],
            'lun': data['target_lun'], 'initiator-name': initiator,
            'read-only': disk.mode is connection.AccessMode.RO,
            # Other hosts read what this host writes, and vice versa.
            'cache': {'direct': True}}
    password = data.get('auth_password')
    if password is not None:
        node |= {'user': data['auth_username'], 'password-secret': 'chap'}
    return node, password


def _export(daemon: qmp.Monitor, mode: connection.AccessMode) -> None:
    daemon.call('block-export-add', {
        'type': 'nbd', 'id': _EXPORT, 'node-name': _NODE, 'name': _FILE,
        'writable': mode is connection.AccessMode.RW})


def _without_secret(exc: Exception, disk: base.Disk) -> str:
    password = _data(disk).get('auth_password')
    return str(exc).replace(password, connection.MASKED) if password else str(exc)


def _is_mounted(folder: str) -> bool:
    """Return True if a directory is a mount point.

    The mount table is read because `os.path.ismount` fails if the FUSE process has died.
    """
    with open('/proc/self/mounts', encoding='utf-8') as file:
        return any(line.split(' ')[1] == folder for line in file)
