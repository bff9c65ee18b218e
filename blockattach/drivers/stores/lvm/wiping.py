"""Overwrite what was deleted, a second's share at a time, before its room is given back.

A deleted volume is wiped from its end, and cut there: how far it is stands in its size, where the
next process finds it, and its room comes back bit by bit.
"""
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach import units
from blockattach.drivers.stores.lvm import group
from blockattach.drivers.stores.lvm import names
from blockattach.privileged import lvm

LOG = oslo_log.getLogger(__name__)

# Each cut is a change of the volume group's metadata, so it is worth a GiB.
_STRIDE = units.GIB
_ROUNDS_WHEN_IDLE = 600
_ROUNDS_AFTER_FAILURE = 60


class Wiper:
    """Wipes one group's deleted volumes, one after the other."""

    def __init__(self, volume_group: group.VolumeGroup, bandwidth: int) -> None:
        self._group = volume_group
        self._bandwidth = bandwidth
        self._rest = 0
        # Bytes at the end of the volume that are wiped and not yet cut off.
        self._wiped: dict[str, int] = {}

    def poke(self) -> None:
        """There is something to wipe."""
        self._rest = 0

    def wipe(self) -> None:
        """One round. Never raises: what fails is logged, and tried again a minute later."""
        if self._rest:
            self._rest -= 1
            return
        self._rest = _ROUNDS_WHEN_IDLE
        try:
            for found in self._group.content().volumes.values():
                if found.ours and not found.pool and found.name.startswith(names.DELETED):
                    self._rest = 0
                    self._wipe(found)
                    return
        except errors.BackendError as exc:
            self._rest = _ROUNDS_AFTER_FAILURE
            LOG.error('Cannot wipe a deleted volume; its space is not freed%s',
                      log.fields(volume_group=self._group.name, reason=exc))

    def _wipe(self, found: group.LogicalVolume) -> None:
        if not self._bandwidth:
            # Deleted before clearing was switched off.
            self._group.do(lvm.remove, found.name)
            return
        if not found.active:
            self._group.do(lvm.activate, found.name)
        wiped = self._wiped.pop(found.name, 0)
        length = min(self._bandwidth, found.size - wiped)
        self._group.do(lvm.zero, found.name, found.size - wiped - length, length)
        wiped += length
        if wiped >= found.size:
            self._group.do(lvm.remove, found.name)
            LOG.info('Deleted volume is wiped%s',
                     log.fields(volume_group=self._group.name, logical_volume=found.name))
            return
        self._wiped[found.name] = wiped % _STRIDE
        if wiped >= _STRIDE:
            self._group.do(lvm.cut, found.name, found.size - wiped + wiped % _STRIDE)
