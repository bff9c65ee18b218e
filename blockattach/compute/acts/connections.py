"""Connection of the volumes of a server to its host, and release of unused connections."""
import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.acts import work
from blockattach.compute.hosts import base
from blockattach.platform import log

LOG = logging.getLogger(__name__)

_REFUSED = (errors.NotFound, errors.ServerRequestInvalid)
"""Errors of block storage that a retry of the request does not resolve."""


class HostConnections:
    """Connections of the volumes of a server to its host.

    A server action connects the volumes, runs the guest, and then completes the attachments. Each
    of these operations can be repeated.
    """

    def __init__(self, item: work.Work) -> None:
        self._item = item
        self._attachments: dict[str, storage.Attachment] = {}
        """Connected attachments by device id."""
        # False once the host has rejected disks of attachments that were completed before.
        self._trusts_used = True

    def run(self, start: Callable[[dict[str, Any]], None]) -> None:
        """Connect the volumes of the server, and start its guest with the volumes as disks.

        :param start: function that passes the guest to the agent of the host. If the host rejects
            disks of completed attachments, all volumes are connected again, and the function is
            called a second time
        :raises HostRefused: the host rejects the guest although each of its volumes has just been
            connected, or `connect` raises the error
        """
        self.connect()
        try:
            start(self._item.guest(self._disks()))
        except errors.HostRefused:
            if not any(one.used for one in self._attachments.values()):
                raise
            # A failed action may have completed an attachment for another host.
            self._trusts_used = False
            self._attachments.clear()
            self.connect()
            start(self._item.guest(self._disks()))

    def connect(self) -> None:
        """Connect the host of the server to each volume without a completed attachment.

        An attachment that is connected but not completed is connected again, because a failed
        server action may have connected the attachment to another host.

        :raises HostRefused: the server has no host, or the agent of the host is too old to
            enforce read-only attachments
        """
        item, host = self._item, self._item.server.host
        # Reject a server without a host before touching its volumes.
        item.plain_agent(host)
        item.check_modes(host)
        item.release_leftovers()
        connector = None
        for device in item.devices:
            if device.id in self._attachments:
                continue
            attachment = _existing(item, device)
            if attachment is None or not (attachment.used and self._trusts_used):
                connector = connector or item.connector(host)
                attachment = item.connect(connector, dataclasses.replace(
                    device, attachment_id=None if attachment is None else attachment.id))
            self._attachments[device.id] = attachment

    def _disks(self) -> list[base.Disk]:
        return [self._item.disk(device, self._attachments[device.id].info)
                for device in self._item.devices if device.id in self._attachments]

    def complete(self) -> None:
        """Complete each attachment that `connect` has connected (os-complete)."""
        for device in self._item.devices:
            attachment = self._attachments.get(device.id)
            if attachment is not None and not attachment.used:
                self._item.complete(device, attachment.id)

    def release(self) -> None:
        """Release the connections that `connect` has made; see `release_unused`."""
        self._attachments.clear()
        release_unused(self._item)


def define_lost(item: work.Work) -> bool:
    """Define the guest of a server on its host again, if the host has lost the guest.

    The volumes of the server are connected, and the guest stays stopped.

    :returns: True if the guest was defined, False if the host has the guest or the server has no
        host
    """
    host, server_id = item.server.host, item.act.server_id
    if host is None or server_id in item.agent(host).servers(item.caller):
        return False
    here = HostConnections(item)
    here.run(lambda guest: item.spawn(host, guest, running=False))
    here.complete()
    return True


def hold_next(item: work.Work, devices: Iterable[records.BlockDevice] | None = None) -> None:
    """Reserve volumes of a server with additional attachments that have no host.

    The ids of these attachments are recorded in ``next_attachment_id`` of the block devices.

    :param devices: block devices of the volumes, or None for all block devices of the server
    """
    for device in item.devices if devices is None else devices:
        if device.next_attachment_id is None:
            # An action may replace an attachment twice. The second request needs another key.
            item.create(device, None, f'{device.id}-{device.attachment_id}', 'next_attachment_id')


def hold_first(item: work.Work) -> None:
    """Reserve every volume of a server, before the server action changes the server.

    If block storage rejects a reservation, undoing the step by `work.Work.release_next` deletes
    the reservations of the other volumes.
    """
    # A failed action may have left attachments that are connected to another host.
    item.release_leftovers()
    hold_next(item)


def hold_anew(item: work.Work, device_ids: Iterable[str] | None = None) -> None:
    """Replace the attachments of volumes with attachments without a host.

    The new attachments are created before the old ones are deleted, so that a volume never
    becomes available in between.

    :param device_ids: ids of the block devices, or None for all block devices of the server
    """
    chosen = None if device_ids is None else set(device_ids)

    def devices() -> list[records.BlockDevice]:
        return [device for device in item.devices if chosen is None or device.id in chosen]

    hold_next(item, devices())
    for device in devices():
        if device.attachment_id is not None:
            item.tools.attachments.delete(item.caller, device.attachment_id)
        item.store.change_device(device.id, attachment_id=device.next_attachment_id,
                                 next_attachment_id=None)
        # A create repeated with the service account makes a second attachment, because
        # idempotency keys are per user.
        item.release_unknown(device.volume_id)


def release_unused(item: work.Work, every: bool = False) -> None:
    """Release the connections and additional attachments that a failed server action left.

    A connection counts as unused if its attachment is not completed. The volumes stay reserved by
    attachments without a host. Rejections by block storage are only logged, because the deletion
    of the server releases everything.

    :param every: True to release the connections of completed attachments too, because the guest
        has been stopped
    :raises ActTakenOver: see `release_second`
    """
    release_second(item)
    for device in item.devices:
        if not _belongs(item, device):
            continue
        with _logging_refusals(device):
            attachment = _existing(item, device)
            if attachment is None:
                item.release_unknown(device.volume_id)
            elif attachment.info and (every or not attachment.used):
                hold_anew(item, [device.id])


def release_second(item: work.Work) -> None:
    """Delete the attachment in ``next_attachment_id`` of each block device.

    Rejections by block storage are only logged.

    :raises ActTakenOver: this process no longer holds the server action, so the attachments may
        belong to another process
    """
    item.check_lease()
    for device in item.devices:
        if device.next_attachment_id is not None and _belongs(item, device):
            with _logging_refusals(device):
                item.tools.attachments.delete(item.caller, device.next_attachment_id)
                item.store.change_device(device.id, next_attachment_id=None)


@contextlib.contextmanager
def _logging_refusals(device: records.BlockDevice) -> Iterator[None]:
    try:
        yield
    except _REFUSED as exc:
        LOG.warning('Failed to release attachment of volume%s', log.fields(
            server_id=device.server_id, volume_id=device.volume_id, reason=exc))


def _existing(item: work.Work, device: records.BlockDevice) -> storage.Attachment | None:
    """Return the recorded attachment of a block device, or None if it does not exist."""
    if device.attachment_id is None:
        return None
    try:
        return item.tools.attachments.get(item.caller, device.attachment_id)
    except errors.NotFound:
        return None


def _belongs(item: work.Work, device: records.BlockDevice) -> bool:
    """Return True if a server action may release the attachments of a block device.

    A server action that can run beside others, such as an attach, may only release the
    attachments of its own volume.
    """
    return (not lifecycle.VERBS[item.act.verb].shares
            or device.volume_id == item.act.arguments['volume_id'])
