"""Connections of a server's volumes: which of them its host lacks, and which nobody uses."""
import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from blockattach import errors
from blockattach import log
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.acts import work
from blockattach.compute.hosts import base

LOG = logging.getLogger(__name__)

_REFUSED = (errors.NotFound, errors.ServerRequestInvalid)
"""Answers of block storage that a repeat does not change."""


class HostConnections:
    """The volumes of a server, connected to the host that the server is on.

    An act connects first, then runs the guest, and then completes. Each part may be repeated.
    """

    def __init__(self, item: work.Work) -> None:
        self._item = item
        self._attachments: dict[str, storage.Attachment] = {}
        """The attachments that are connected here, by the ids of their devices."""
        self._trusts_used = True

    def run(self, start: Callable[[dict[str, Any]], None]) -> None:
        """Run the guest with its disks.

        :param start: asks the host for that
        :raises HostRefused: the host refuses, though every volume was connected to it just now
        """
        self.connect()
        try:
            start(self._item.guest(self._disks()))
        except errors.HostRefused:
            if not any(one.used for one in self._attachments.values()):
                raise
            # An act that failed may have completed an attachment for another host.
            self._trusts_used = False
            self._attachments.clear()
            self.connect()
            start(self._item.guest(self._disks()))

    def connect(self) -> None:
        """Connect each volume that the host lacks.

        An attachment that was never completed is connected again: an act that failed may have
        connected it to another host.

        :raises HostRefused: the server is on no host, or the agent there is too old
        """
        item, host = self._item, self._item.server.host
        # A server that is on no host is refused before its volumes are touched.
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
        """Complete each attachment that was connected here."""
        for device in self._item.devices:
            attachment = self._attachments.get(device.id)
            if attachment is not None and not attachment.used:
                self._item.complete(device, attachment.id)

    def release(self) -> None:
        """Undo `connect`."""
        self._attachments.clear()
        release_unused(self._item)


def hold_next(item: work.Work, devices: Iterable[records.BlockDevice] | None = None) -> None:
    """Hold volumes by new attachments of no host, beside those by which they are used.

    :param devices: None: all of the server
    """
    for device in item.devices if devices is None else devices:
        if device.next_attachment_id is None:
            item.create(device, None, f'{device.id}-{device.attachment_id}', 'next_attachment_id')


def hold_first(item: work.Work) -> None:
    """Hold every volume before anything is taken from the server.

    Block storage refuses here, if it does, and `work.Work.release_next` undoes it.
    """
    # An act that failed may have left attachments that are connected to another host.
    item.release_leftovers()
    hold_next(item)


def hold_anew(item: work.Work, device_ids: Iterable[str] | None = None) -> None:
    """Hold volumes by new attachments of no host, and then give those before back: a volume is
    never free meanwhile.

    :param device_ids: None: all devices of the server
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
        # What the caller asked for is made once more when the account asks for it.
        item.release_unknown(device.volume_id)


def release_unused(item: work.Work, every: bool = False) -> None:
    """Leave no connection that no guest uses, and no second attachment, behind an act that failed.

    Such a volume is held by an attachment of no host. What block storage refuses is logged: the
    act ends all the same, and deleting the server gives everything back.

    :param every: also those attachments that were completed: the guest is ended
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
    """Give back each second attachment; what block storage refuses is logged."""
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
    """Return the attachment of a device; None: there is none, or somebody has removed it."""
    if device.attachment_id is None:
        return None
    try:
        return item.tools.attachments.get(item.caller, device.attachment_id)
    except errors.NotFound:
        return None


def _belongs(item: work.Work, device: records.BlockDevice) -> bool:
    """Return True if no other act may be at a device: acts that share a server have one each."""
    return (not lifecycle.VERBS[item.act.verb].shares
            or device.volume_id == item.act.arguments['volume_id'])
