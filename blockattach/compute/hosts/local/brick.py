"""Connector that uses os-brick and the kernel's iSCSI initiator.

All servers of the host share the initiator.
"""
import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

from blockattach.compute import errors
from blockattach.compute import files
from blockattach.compute.hosts import base
from blockattach.compute.hosts.local import connectors
from blockattach.compute.hosts.local import devices
from blockattach.platform import clock as clocks
from blockattach.platform import units
from blockattach.storage.domain import connection

LOCKS = '/run/lock/os-brick'
"""Directory of os-brick's locks unless OSLO_LOCK_PATH is set."""
MODULES = ('os_brick', 'os_brick.privileged', 'os_brick.initiator.connector',
           'oslo_concurrency.lockutils', 'oslo_config.cfg')
_NO_HELPER = ''
_PROTOCOL = 'ISCSI'
_SECRETS = ('auth_password', 'discovery_auth_password')


class BrickConnector(connectors.Connector):
    """Connector with one session and one device per volume, which the host's servers share.

    A read-only attachment gets a read-only loop device on top of the shared device, because
    another server may write to the shared device.
    """

    def __init__(self, name: str, state_dir: str, address: str | None = None,
                 multipath: bool = False, clock: clocks.Clock | None = None,
                 find: Callable[[str], Any] = importlib.import_module) -> None:
        """
        :param state_dir: directory used by this connector only
        :param address: IP address of this host, or None to omit the address
        :param find: function that imports a module by name
        """
        self._name = name
        self._state_dir = state_dir
        self._address = address
        self._multipath = multipath
        self._clock = clock or clocks.Clock()
        self._find = find
        self._brick: Any = None
        # Serializes the search for other servers of a volume with connects and disconnects.
        self._guard = threading.Lock()

    def check(self) -> None:
        if not self.properties('').get('initiator'):
            raise errors.ConfigurationError(
                reason='this host has no iSCSI initiator name. Install open-iscsi, which creates '
                       '/etc/iscsi/initiatorname.iscsi')

    def properties(self, server_id: str) -> dict[str, Any]:
        found = self._module().get_connector_properties(
            _NO_HELPER, self._address, self._multipath, self._multipath, self._name)
        return {key: value for key, value in found.items() if value is not None}

    def connect(self, server_id: str, disk: base.Disk) -> str:
        with self._guard:
            present = self._path(server_id, disk.volume_id)
            note = files.read(self._note(server_id, disk.volume_id))
            if present is not None and note['mode'] == disk.mode:
                return present
            self._let_go(server_id, disk.volume_id)
            note = {'server_id': server_id, 'volume_id': disk.volume_id, 'mode': disk.mode,
                    'info': connection.masked(disk.info), 'device': None, 'loop': None}
            # Written first, so that the connection is found again if the agent ends here.
            files.write(self._note(server_id, disk.volume_id), note)
            reason = self._try(note, disk)
            # Raise outside of the handler: the chained error may contain a password.
            if reason is not None:
                self._let_go(server_id, disk.volume_id)
                raise errors.HostRefused(
                    reason=f'cannot connect volume {disk.volume_id}: {reason}')
            return str(note['loop'] or note['device'])

    def path(self, server_id: str, volume_id: str) -> str | None:
        with self._guard:
            return self._path(server_id, volume_id)

    def disconnect(self, server_id: str, volume_id: str) -> None:
        with self._guard:
            self._let_go(server_id, volume_id)

    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        with self._guard:
            present = self._path(server_id, volume_id)
            note = files.read(self._note(server_id, volume_id))
            if present is None:
                raise errors.HostRefused(reason=f'volume {volume_id} is not connected')
            self._connector().extend_volume(note['info'])
            if note['loop'] is not None:
                devices.grow_loop(note['loop'])
            if devices.size(present) < units.gib_to_bytes(size_gb):
                raise errors.HostRefused(reason=(
                    f'the device of volume {volume_id} is still smaller than {size_gb} GiB'))

    def _try(self, note: dict[str, Any], disk: base.Disk) -> str | None:
        """Log in to the target of a disk, and record the device.

        :param note: record of the connection, in which the devices are set
        :returns: reason of the failure without secrets, or None on success
        """
        try:
            note['device'] = os.path.realpath(
                self._connector().connect_volume(dict(disk.info))['path'])
            if disk.mode is connection.AccessMode.RO:
                note['loop'] = devices.loop_over(note['device'], read_only=True)
            files.write(self._note(note['server_id'], disk.volume_id), note)
        except Exception as exc:  # os-brick raises errors of many unrelated classes
            return _without_secrets(exc, disk)
        return None

    def _path(self, server_id: str, volume_id: str) -> str | None:
        note = files.read(self._note(server_id, volume_id))
        if note is None or note['device'] is None:
            return None
        # After a reboot another disk may have this device name.
        found = map(os.path.realpath, self._connector().get_volume_paths(note['info']))
        if not self._multipath and note['device'] not in found:
            return None
        if note['loop'] is None:
            return str(note['device'])
        return note['loop'] if devices.is_over(note['loop'], note['device']) else None

    def _let_go(self, server_id: str, volume_id: str) -> None:
        """Disconnect a volume from one server.

        If no other server of the host uses the volume, the iSCSI session is closed.

        :raises DeviceBusy: the device is in use
        """
        name = self._note(server_id, volume_id)
        note = files.read(name)
        if note is None:
            return
        present = self._path(server_id, volume_id)
        is_last = not any(one['volume_id'] == volume_id and one['server_id'] != server_id
                          for one in self._notes())
        if note['loop'] is not None and present is not None:
            with devices.held(present, server_id, volume_id):
                pass
            if not devices.unloop(note['loop'], note['device'], self._clock):
                raise errors.DeviceBusy(server_id=server_id, volume_id=volume_id)
        elif present is not None and is_last and not self._multipath:
            # Only for the last server, because any server may be the user of a shared device.
            with devices.held(present, server_id, volume_id):
                pass
        if is_last:
            connector = self._connector()
            paths = connector.get_volume_paths(note['info'])
            # os-brick flushes only the path that is passed to it.
            connector.disconnect_volume(note['info'], {'path': paths[0]} if paths else {})
        elif present is not None:
            # os-brick flushes only when the session is closed.
            devices.flush(note['device'])
        os.unlink(name)

    def _notes(self) -> list[dict[str, Any]]:
        names = os.listdir(self._state_dir)
        # Names with this suffix are files of an interrupted write.
        found = [files.read(os.path.join(self._state_dir, name)) for name in names
                 if not name.endswith('.new')]
        return [one for one in found if one is not None]

    def _note(self, server_id: str, volume_id: str) -> str:
        os.makedirs(self._state_dir, mode=0o700, exist_ok=True)
        return connectors.folder(self._state_dir, server_id, volume_id)

    def _connector(self) -> Any:
        return self._module().InitiatorConnector.factory(_PROTOCOL, _NO_HELPER,
                                                         use_multipath=self._multipath)

    def _module(self) -> Any:
        """Return os-brick's connector module, initialized on first use.

        :raises ConfigurationError: os-brick is not installed
        """
        if self._brick is None:
            try:
                brick, privileged, connector, lockutils, cfg = map(self._find, MODULES)
            except ImportError:
                raise errors.ConfigurationError(
                    reason="os-brick is not installed. Run: pip install 'blockattach[host]'"
                ) from None
            # Root needs no privsep daemon.
            for context in (privileged.default, privileged.brick_privsep_hide_output):
                context.set_client_mode(False)
            lockutils.set_defaults(os.environ.get('OSLO_LOCK_PATH', LOCKS))
            brick.setup(cfg.CONF)
            self._brick = connector
        return self._brick


def _without_secrets(exc: Exception, disk: base.Disk) -> str:
    text = ' '.join(str(exc).split()) or type(exc).__name__
    for name in _SECRETS:
        if disk.info.get(name):
            text = text.replace(disk.info[name], connection.MASKED)
    return text
