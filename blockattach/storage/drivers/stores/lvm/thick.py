"""Thick volumes: they take all their room at once, are copied in full, and wiped when deleted.

What was deleted is overwritten a second's share at a time, before its room is given back. It is
wiped from its end, and cut there: how far it is stands in its size, where the next process finds
it, and its room comes back bit by bit.
"""
from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores.lvm import group
from blockattach.storage.drivers.stores.lvm import store
from blockattach.storage.privileged import lvm

LOG = oslo_log.getLogger(__name__)

# So much is copied in one call with rights: each looks for the devices anew.
_PIECE = 256 * units.MIB
# Each cut is a change of the volume group's metadata, so it is worth a GiB.
_CUT = units.GIB
_ROUNDS_WHEN_IDLE = 600
_ROUNDS_AFTER_FAILURE = 60


class ThickStore(store.LvmStore):
    """Also `base.Clone`, `CloneSnapshot`, `Revert` and `Wipe`.

    A snapshot keeps what is overwritten in room of its own, as much as the volume has, so that it
    never overflows. It hangs on its volume, which can neither be deleted nor extended meanwhile.
    What it kept is a tenant's data, and wiped as a volume.
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        super().__init__(settings)
        # Rounds of wiping that are left out.
        self._rest = 0
        # Bytes at the end of the volume that are wiped and not yet cut off.
        self._wiped: dict[str, int] = {}

    def clone(self, source: base.StoredVolume, volume: base.StoredVolume,
              copied: base.Copied = base.unlimited) -> None:
        """See `base.Clone`. Copies a snapshot, since the source may be in use."""
        content = self._group.content()
        if self._find(content, volume.name) is not None:
            return
        origin = self._existing(content, source.name)
        self._copy(content, origin, group.source_name(volume), volume, copied)

    def clone_snapshot(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume,
                       copied: base.Copied = base.unlimited) -> None:
        """See `base.CloneSnapshot`."""
        content = self._group.content()
        if self._find(content, volume.name) is not None:
            return
        found = self._existing(content, group.snapshot_name(snapshot))
        self._copy(content, self._origin(content, found), found.name, volume, copied)

    def revert(self, snapshot: base.StoredSnapshot,
               copied: base.Copied = base.unlimited) -> None:
        """See `base.Revert`: what differs is copied back, so a repeat goes on from there.

        LVM's own merging would end the snapshot and give its room back with its bytes.
        """
        content = self._group.content()
        found = self._existing(content, group.snapshot_name(snapshot))
        origin = self._existing(content, snapshot.volume.name)
        if self._origin(content, found) != origin:
            raise errors.BackendRefused(reason=f'{found.name} is not a snapshot of {origin.name}')
        self._not_in_use(origin)
        for needed in (origin, found):
            self._activate(needed)
        with self._begun(origin.name):
            self._fill(found.name, origin.name, origin.size, copied)

    def pools(self) -> tuple[base.PoolReport, ...]:
        content = self._group.content()
        given = sum(found.size for name, found in content.volumes.items()
                    if lvm.NAMES.fullmatch(name) and found.ours and not found.pool
                    and not name.startswith(group.DELETED))
        return self._report(content, False, content.size, content.free, given,
                            self._missing_disks(content))

    def _make_room(self, content: group.Content, size: int) -> None:
        usable = content.free - content.size * self._settings.reserved_percentage / 100
        if size > usable:
            raise errors.BackendFull(
                size_gb=f'{size / units.GIB:g}',
                reason=f'volume group {self._group.name} has {max(usable, 0) / units.GIB:.2f} GiB '
                       f'available; space of deleted volumes is available after wiping')

    def _has_no_snapshots(self, content: group.Content, found: group.LogicalVolume) -> None:
        hanging = [other.name for other in content.volumes.values()
                   if other.origin == found.name and not other.pool]
        if hanging:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{found.name} has thick snapshots '
                       f'({", ".join(sorted(hanging))}); delete them first')

    def _create(self, content: group.Content, name: str, size: int) -> None:
        self._make_room(content, size)
        self._group.do(lvm.create_thick, name, size, size_gb=size / units.GIB)

    def _snapshot(self, content: group.Content, origin: group.LogicalVolume, name: str) -> None:
        self._make_room(content, origin.size)
        # LVM takes no more of it than can ever be used: the volume's size and some for its tables.
        self._group.do(lvm.snapshot_thick, origin.name, name, 2 * origin.size,
                       size_gb=origin.size / units.GIB)

    def _is_snapshot(self, found: group.LogicalVolume) -> bool:
        return bool(found.origin)

    def _origin(self, content: group.Content,
                snapshot: group.LogicalVolume) -> group.LogicalVolume:
        """The volume that a snapshot hangs on: as large as the snapshot reads."""
        origin = content.volumes.get(snapshot.origin)
        if origin is None:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{snapshot.name} is the remainder of a deleted '
                       f'snapshot; delete the snapshot again')
        return origin

    def _copy(self, content: group.Content, origin: group.LogicalVolume, source: str,
              volume: base.StoredVolume, copied: base.Copied) -> None:
        """Make a volume that begins with the bytes of ``source``, a snapshot of ``origin``; one
        for this only is made and removed. What an interrupted attempt left is taken up.
        """
        size = self._size_of_copy(origin.size, volume)
        unfinished = group.unfinished_name(volume)
        snapshot, copy = self._find(content, source), self._find(content, unfinished)
        try:
            if snapshot is None:
                self._snapshot(content, origin, source)
            else:
                self._activate(snapshot)
            if copy is None:
                self._create(content, unfinished, size)
            else:
                self._activate(copy)
            self._fill(source, unfinished, min(origin.size, size), copied)
            if source == group.source_name(volume):
                self._remove(self._group.content(), source)
            failpoints.point('drivers.lvm.between_copy_and_name')
            self._group.do(lvm.rename, unfinished, volume.name)
        except errors.BackendRefused:
            self._clean(self._group.content(), volume)
            raise

    def _fill(self, source: str, name: str, length: int, copied: base.Copied) -> None:
        limit = self._settings.volume_copy_bps_limit or _PIECE
        most = max(base.COPIED_AT_ONCE, min(limit, _PIECE))
        for offset in range(0, length, most):
            piece = min(most, length - offset)
            self._group.do(lvm.copy, source, name, offset, piece, size_gb=length / units.GIB)
            copied(piece)

    def _discard(self, found: group.LogicalVolume) -> None:
        """Hide it from all but the wiper; one that is not wiped goes at once."""
        if found.health == 'partial':
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{found.name} is partly on a missing disk; reconnect '
                       f'the disk, or see vgreduce --removemissing')
        if not self._lvm.clear_bandwidth:
            self._group.do(lvm.remove, found.name)
            return
        if not found.origin:
            self._hide(found)
            return
        self._group.do(lvm.split_snapshot, found.name)
        with self._begun(found.name):
            self._hide(found)

    def _hide(self, found: group.LogicalVolume) -> None:
        self._group.do(lvm.deactivate, found.name)
        self._group.do(lvm.rename, found.name, group.deleted_name(found.name))
        self._rest = 0

    def wipe(self) -> None:
        """See `base.Wipe`. What fails is logged, and tried again a minute later."""
        if self._rest:
            self._rest -= 1
            return
        self._rest = _ROUNDS_WHEN_IDLE
        try:
            for found in self._group.content().volumes.values():
                if found.ours and not found.pool and found.name.startswith(group.DELETED):
                    self._rest = 0
                    self._wipe(found)
                    return
        except errors.BackendError as exc:
            self._rest = _ROUNDS_AFTER_FAILURE
            LOG.error('Failed to wipe deleted volume, space not freed%s',
                      log.fields(volume_group=self._group.name, reason=exc))

    def _wipe(self, found: group.LogicalVolume) -> None:
        if not self._lvm.clear_bandwidth:
            # Deleted before clearing was switched off.
            self._group.do(lvm.remove, found.name)
            return
        if not found.active:
            self._group.do(lvm.activate, found.name)
        wiped = self._wiped.pop(found.name, 0)
        length = min(self._lvm.clear_bandwidth, found.size - wiped)
        self._group.do(lvm.zero, found.name, found.size - wiped - length, length)
        wiped += length
        if wiped >= found.size:
            self._group.do(lvm.remove, found.name)
            LOG.info('Deleted volume wiped%s',
                     log.fields(volume_group=self._group.name, logical_volume=found.name))
            return
        self._wiped[found.name] = wiped % _CUT
        if wiped >= _CUT:
            self._group.do(lvm.cut, found.name, found.size - wiped + wiped % _CUT)
