"""Disks of one running QEMU process.

A disk consists of a block node, which is logged in to a target, and a device of the guest. The
device name determines the slot of the device on the PCI bus. Therefore the guest finds its disks
in the same order after a restart, and at the same slots after a migration. A device keeps its
serial number, which is the id of its first volume, when a swap replaces the volume.
"""
import contextlib
import re
import socket
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts import qmp
from blockattach.platform import clock as clocks
from blockattach.platform import units
from blockattach.storage.domain import connection

_FIRST_SLOT, _LAST_SLOT = 4, 31
_NAME = re.compile(r'(?:/dev/)?(?:vd|sd|xvd|hd)([a-z]{1,2})')
SERIAL_LENGTH = 20
"""Maximum length of the serial number of a disk in a guest."""
_REACH_SECONDS = 10.0
_FREE_SECONDS = 60.0
_TICK = 0.05
_LOOK_SECONDS = 10.0
"""Interval in seconds between queries of a copy job that sends no event."""
_SECRET = 'chap'
_GONE = 'DeviceNotFound'
_ASKED_ALREADY = 'in the process of unplug'


def slot(device: str) -> int:
    """Return the PCI slot for a device name.

    :raises HostRefused: the device name is not supported, or its slot is beyond the last slot
    """
    found = _NAME.fullmatch(device)
    if found is None:
        raise errors.HostRefused(reason=f'device name {device} is not supported')
    number = 0
    for letter in found.group(1):
        number = number * 26 + ord(letter) - ord('a') + 1
    if _FIRST_SLOT + number - 1 > _LAST_SLOT:
        raise errors.HostRefused(reason=(
            f'device name {device} is not supported: a guest can have at most '
            f'{_LAST_SLOT - _FIRST_SLOT + 1} disks'))
    return _FIRST_SLOT + number - 1


def node(volume_id: str) -> str:
    """Return the name of the QEMU block node of a volume, which has at most 31 characters."""
    return f'v{volume_id.replace("-", "")}'[:31]


def device_id(device: str) -> str:
    """Return the id of the QEMU device for a device name such as ``/dev/vdb``."""
    return f'disk-{slot(device)}'


def given(blocks: list[dict[str, Any]]) -> dict[str, tuple[str, bool]]:
    """Return the node name and the read-only flag of each attached device, by QEMU device id.

    :param blocks: result of ``query-block``
    """
    found = {}
    for block in blocks:
        place = re.fullmatch(r'/machine/peripheral/(disk-\d+)/virtio-backend',
                             block.get('qdev', ''))
        if place and 'inserted' in block:
            found[place.group(1)] = (block['inserted']['node-name'], block['inserted']['ro'])
    return found


class Disks:
    """Operations on the disks of one QEMU process, over a monitor connection."""

    def __init__(self, monitor: qmp.Monitor, clock: clocks.Clock) -> None:
        self._monitor = monitor
        self._clock = clock

    def add(self, disk: base.Disk, initiator: str, boot_index: int | None = None) -> None:
        """Log in to the target of a disk, and attach the disk to the guest.

        A disk that the guest already has is not an error.

        :param initiator: initiator name of the server
        :param boot_index: position of the disk in the boot order, or None
        :raises HostRefused: the guest is unchanged, and QEMU is not logged in to the target
        """
        place = device_id(disk.device)
        has = self.given().get(place)
        if has is not None:
            if has[0] == node(disk.volume_id):
                return
            raise errors.HostRefused(reason=f'device name {disk.device} is in use by another disk')
        self.connect(disk, initiator)
        properties: dict[str, Any] = {
            'driver': 'virtio-blk-pci', 'id': place, 'bus': 'pci.0',
            'addr': f'{slot(disk.device):#x}', 'drive': node(disk.volume_id),
            'serial': disk.volume_id[:SERIAL_LENGTH], 'share-rw': disk.shared,
            # Errors are passed to the guest. By default QEMU pauses a guest on ENOSPC.
            'werror': 'report', 'rerror': 'report'}
        for size in ('logical_block_size', 'physical_block_size'):
            if size in disk.info:
                properties[size] = int(disk.info[size])
        if boot_index is not None:
            properties['bootindex'] = boot_index
        try:
            self._monitor.call('device_add', properties)
        except qmp.Refused as exc:
            self.disconnect(disk.volume_id)
            raise errors.HostRefused(
                reason=f'cannot attach volume {disk.volume_id} to the guest: '
                       f'{exc.description}') from exc

    def connect(self, disk: base.Disk, initiator: str) -> None:
        """Log in to the target of a disk through the first portal that accepts the login.

        The disk is not attached to the guest.

        :raises HostRefused: no portal accepted the login
        """
        info = disk.info
        # A login that an earlier agent process left may have used another password.
        self.disconnect(disk.volume_id)
        options: dict[str, Any] = {
            'driver': 'iscsi', 'node-name': node(disk.volume_id), 'transport': 'tcp',
            'initiator-name': initiator, 'read-only': disk.mode is connection.AccessMode.RO,
            'discard': 'unmap' if info.get('discard') else 'ignore',
            'cache': {'direct': True}}
        refused = []
        for portal, target, lun in _ways(info):
            try:
                _check_portal(portal)
                self._log_in({**options, 'portal': portal, 'target': target, 'lun': lun}, info)
            except (OSError, qmp.Refused) as exc:
                reason = exc.description if isinstance(exc, qmp.Refused) else str(exc)
                refused.append(f'{portal}: {reason}')
            else:
                return
        raise errors.HostRefused(
            reason=f'cannot connect volume {disk.volume_id}: {"; ".join(refused)}')

    def _log_in(self, options: dict[str, Any], info: Mapping[str, Any]) -> None:
        """Log in to a target.

        The QEMU secret with the password is deleted after the login. QEMU keeps the password in
        memory for further logins of the block node.
        """
        if info.get('auth_method') is None:
            self._monitor.call('blockdev-add', options)
            return
        # An agent process that ended during a login has left its secret.
        self._forget_secret()
        self._monitor.call('object-add', {
            'qom-type': 'secret', 'id': _SECRET, 'data': info['auth_password']})
        try:
            self._monitor.call('blockdev-add', {
                **options, 'user': info['auth_username'], 'password-secret': _SECRET})
        finally:
            self._forget_secret()

    def _forget_secret(self) -> None:
        with contextlib.suppress(qmp.Refused):
            self._monitor.call('object-del', {'id': _SECRET})

    def disconnect(self, volume_id: str) -> None:
        """Log out of the target of a volume. A missing login is not an error.

        :raises HostError: a part of QEMU still uses the node
        """
        refused: list[qmp.Refused] = []

        def is_out() -> bool:
            refused.clear()
            try:
                self._monitor.call('blockdev-del', {'node-name': node(volume_id)})
            except qmp.Refused as exc:
                # A deleted device releases its node a moment later.
                refused.append(exc)
                return node(volume_id) not in self._nodes()
            return True

        if not self._clock.until(is_out, _FREE_SECONDS, _TICK):
            raise refused[0]

    def remove(self, volume_id: str, device: str, seconds: float) -> bool:
        """Detach a disk from the guest, and log out of its target.

        :param seconds: time for the guest to release the disk. If the guest releases the disk
            later, a repeated call finds no device and only logs out
        :returns: False if the guest did not release the disk
        """
        place = device_id(device)
        if self.given().get(place, ('', False))[0] == node(volume_id) and not self._taken(
                place, seconds):
            return False
        self.disconnect(volume_id)
        return True

    def _taken(self, place: str, seconds: float) -> bool:
        try:
            self._monitor.call('device_del', {'id': place})
        except qmp.Refused as exc:
            if exc.kind == _GONE:
                return True
            # A repeated request has no class of its own. The guest may still release the disk.
            if _ASKED_ALREADY not in exc.description:
                raise
        answer = self._monitor.wait(
            lambda event: event['event'] in ('DEVICE_DELETED', 'DEVICE_UNPLUG_GUEST_ERROR')
            and event['data'].get('device') == place, seconds)
        if answer is not None:
            return bool(answer['event'] == 'DEVICE_DELETED')
        return place not in self.given()

    def resize(self, volume_id: str, size_gb: int) -> None:
        """Re-read the size of a volume from its target, and notify the guest.

        :raises HostRefused: the target does not report the new size yet, or the disk is
            read-only, so that QEMU cannot re-read its size
        """
        try:
            self._monitor.call('block_resize', {'node-name': node(volume_id),
                                                'size': units.gib_to_bytes(size_gb)})
        except qmp.Refused as exc:
            raise errors.HostRefused(
                reason=f'cannot resize volume {volume_id} in the running guest, so the new size '
                       f'applies after the next connection: {exc.description}') from exc

    def copy(self, old: str, device: str, disk: base.Disk, initiator: str) -> None:
        """Copy a disk to a new disk, which replaces the old disk while the guest runs.

        A copy job that an earlier agent process started, and that is still running, is continued.

        :param old: volume id of the old disk
        :param device: device name of the old disk
        :raises HostRefused: the guest still has the old disk, and QEMU is not logged in to the
            target of the new disk
        """
        place = device_id(device)
        if self.given().get(place, ('', False))[0] != node(disk.volume_id):
            if self._job(place) is None:
                self.connect(disk, initiator)
            try:
                reason = self._mirrored(place, old, disk.volume_id)
            except qmp.Refused as exc:
                reason = exc.description
            if self.given().get(place, ('', False))[0] != node(disk.volume_id):
                self.cancel(device)
                self.disconnect(disk.volume_id)
                raise errors.HostRefused(
                    reason=f'cannot copy volume {old} to {disk.volume_id}: {reason}')
        self.disconnect(old)

    def _mirrored(self, place: str, old: str, new: str) -> str:
        """Mirror the block node of the old volume to the block node of the new volume.

        When both are equal, the device is switched over to the node of the new volume.

        :param place: id of the QEMU device
        :returns: reason of the failure, if the device was not switched over
        """
        if self._job(place) is None:
            # The guest's writes go to both disks, so that the copy converges.
            self._monitor.call('blockdev-mirror', {
                'job-id': place, 'device': node(old), 'target': node(new), 'sync': 'full',
                'copy-mode': 'write-blocking', 'on-source-error': 'report',
                'on-target-error': 'report'})
        reason, completing = 'the copy job ended', False
        while (job := self._job(place)) is not None:
            if job['ready'] and not completing:
                completing = True
                self._monitor.call('block-job-complete', {'device': place})
            event = self._monitor.wait(lambda event: event['data'].get('device') == place
                                       and event['event'].startswith('BLOCK_JOB_'), _LOOK_SECONDS)
            reason = (event or {}).get('data', {}).get('error', reason)
        return reason

    def _job(self, place: str) -> dict[str, Any] | None:
        found: list[dict[str, Any]] = self._monitor.call('query-block-jobs')
        return next((job for job in found if job['device'] == place), None)

    def cancel(self, device: str) -> None:
        """Cancel the copy job of a device, if a job is running.

        :raises HostError: the job did not end in time
        """
        place = device_id(device)

        def is_over() -> bool:
            if self._job(place) is None:
                return True
            self._monitor.call('block-job-cancel', {'device': place, 'force': True})
            return False

        if not self._clock.until(is_over, _FREE_SECONDS, _TICK):
            raise errors.HostError(
                reason=f'the copy job of {device} did not end after its cancellation')

    def given(self) -> dict[str, tuple[str, bool]]:
        """Return the devices that are attached to the guest; see the function `given`."""
        return given(self._monitor.call('query-block'))

    def _nodes(self) -> dict[str, dict[str, Any]]:
        return {one['node-name']: one for one in self._monitor.call(
            'query-named-block-nodes', {'flat': True})}


def _ways(info: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return the portal, target name and LUN of each iSCSI path in connection information."""
    if 'target_portals' not in info:
        return [(info['target_portal'], info['target_iqn'], int(info['target_lun']))]
    return [(portal, target, int(lun)) for portal, target, lun in zip(
        info['target_portals'], info['target_iqns'], info['target_luns'], strict=True)]


def _check_portal(portal: str) -> None:
    """Check that a portal accepts TCP connections, before QEMU logs in.

    QEMU and its guest would hang during a login to a portal that does not answer.

    :raises OSError: the portal cannot be reached
    """
    host, _, port = portal.rpartition(':')
    socket.create_connection((host.strip('[]'), int(port)), _REACH_SECONDS).close()
