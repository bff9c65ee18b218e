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
"""Errors of block storage that retrying does not resolve."""


class HostConnections:
    """Connections of the volumes of a server to its host.

    An act connects the volumes, runs the guest, and then completes the attachments. Each step can
    be repeated.
    """

    def __init__(self, item: work.Work) -> None:
        self._item = item
        self._attachments: dict[str, storage.Attachment] = {}
        """Connected attachments by device id."""
        # False once the host has rejected disks of attachments that were completed before.
        self._trusts_used = True

    def run(self, start: Callable[[dict[str, Any]], None]) -> None:
        """Run the guest with its disks.

        :param start: calls the host
        :raises HostRefused: the host rejects the call although every volume was just connected
        """
        self.connect()
        try:
            start(self._item.guest(self._disks()))
        except errors.HostRefused:
            if not any(one.used for one in self._attachments.values()):
                raise
            # A failed act may have completed an attachment for another host.
            self._trusts_used = False
            self._attachments.clear()
            self.connect()
            start(self._item.guest(self._disks()))

    def connect(self) -> None:
        """Connect each volume that the host lacks.

        An attachment that was never completed is connected again, because a failed act may have
        connected it to another host.

        :raises HostRefused: the server has no host, or the agent of the host is too old
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
        """Complete each attachment that `connect` connected."""
        for device in self._item.devices:
            attachment = self._attachments.get(device.id)
            if attachment is not None and not attachment.used:
                self._item.complete(device, attachment.id)

    def release(self) -> None:
        """Undo `connect`."""
        self._attachments.clear()
        release_unused(self._item)


def define_lost(item: work.Work) -> bool:
    """Define the guest of a server that is off, with its volumes, if an earlier act lost it.

    :returns: False if the host has the guest, or if the server has no host
    """
    host, server_id = item.server.host, item.act.server_id
    if host is None or server_id in item.agent(host).servers(item.caller):
        return False
    here = HostConnections(item)
    here.run(lambda guest: item.spawn(host, guest, running=False))
    here.complete()
    return True


def hold_next(item: work.Work, devices: Iterable[records.BlockDevice] | None = None) -> None:
    """Reserve volumes with additional attachments that have no host.

    :param devices: None for all devices of the server
    """
    for device in item.devices if devices is None else devices:
        if device.next_attachment_id is None:
            # An act may replace an attachment twice. The second request needs another key.
            item.create(device, None, f'{device.id}-{device.attachment_id}', 'next_attachment_id')


def hold_first(item: work.Work) -> None:
    """Reserve every volume before anything is taken from the server.

    If block storage rejects a reservation, `work.Work.release_next` undoes the others.
    """
    # A failed act may have left attachments that are connected to another host.
    item.release_leftovers()
    hold_next(item)


def hold_anew(item: work.Work, device_ids: Iterable[str] | None = None) -> None:
    """Replace the attachments of volumes with attachments that have no host.

    The new attachments are created first, so that a volume is never available in between.

    :param device_ids: None for all devices of the server
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
    """Release the unused connections and the second attachments that a failed act left.

    The volumes stay reserved by attachments without a host. Errors of block storage are only
    logged, because deleting the server releases everything.

    :param every: also release completed attachments, because the guest has been stopped
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
    """Delete the second attachment of each device, logging errors of block storage.

    :raises ActTakenOver: another process runs this act or a later one, to which the attachments
        belong
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
        LOG.warning('Failed to release the connection of a volume%s', log.fields(
            server_id=device.server_id, volume_id=device.volume_id, reason=exc))


def _existing(item: work.Work, device: records.BlockDevice) -> storage.Attachment | None:
    """Return the attachment of a device, or None if block storage has none."""
    if device.attachment_id is None:
        return None
    try:
        return item.tools.attachments.get(item.caller, device.attachment_id)
    except errors.NotFound:
        return None


def _belongs(item: work.Work, device: records.BlockDevice) -> bool:
    """Return True if a device belongs to this act alone.

    Acts that share a server have one device each.
    """
    return (not lifecycle.VERBS[item.act.verb].shares
            or device.volume_id == item.act.arguments['volume_id'])
