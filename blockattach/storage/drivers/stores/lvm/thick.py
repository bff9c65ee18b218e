"""Store of thick logical volumes.

Thick volumes allocate all their space on creation, are copied in full and are wiped after their
deletion. If ``volume_clear`` is none, deleted volumes are removed without a wipe.

A deleted volume is overwritten in steps of about one second before its space is freed. The wipe
starts at the end of the volume and cuts off the overwritten part. The size of the volume thus
records the progress of the wipe, also for the next process, and space is freed in small parts.
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

# Bytes copied by one privileged call. Each call looks up the devices again, which takes time.
_PIECE = 256 * units.MIB
# Bytes cut off at once. Each cut rewrites the metadata of the volume group, which takes time.
_CUT = units.GIB
_ROUNDS_WHEN_IDLE = 600
_ROUNDS_AFTER_FAILURE = 60


class ThickStore(store.LvmStore):
    """Store of thick volumes.

    Also implements `base.Clone`, `CloneSnapshot`, `Revert` and `Wipe`.

    A snapshot has space of its own for the original data of blocks that are overwritten in its
    volume. This space is as large as the volume, so that the snapshot never overflows. A volume
    with snapshots can neither be deleted nor extended. A snapshot contains data of a tenant, so a
    deleted snapshot is wiped like a volume.
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        super().__init__(settings)
        # Number of the next calls of `wipe` that do nothing.
        self._rest = 0
        # Number of bytes at the end of a deleted volume that are wiped but not cut off yet, by the
        # name of the volume. After a restart, these bytes are wiped again.
        self._wiped: dict[str, int] = {}

    def clone(self, source: base.StoredVolume, volume: base.StoredVolume,
              copied: base.Copied = base.unlimited) -> None:
        """Clone a volume, see `base.Clone`.

        The data is copied from a temporary snapshot, because the source may be in use.
        """
        content = self._group.content()
        if self._find(content, volume.name) is not None:
            return
        origin = self._existing(content, source.name)
        self._copy(content, origin, group.source_name(volume), volume, copied)

    def clone_snapshot(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume,
                       copied: base.Copied = base.unlimited) -> None:
        content = self._group.content()
        if self._find(content, volume.name) is not None:
            return
        lv = self._existing(content, group.snapshot_name(snapshot))
        self._copy(content, self._origin(content, lv), lv.name, volume, copied)

    def revert(self, snapshot: base.StoredSnapshot,
               copied: base.Copied = base.unlimited) -> None:
        """Revert a volume by copying the data that differs from its snapshot, see `base.Revert`.

        A repeated call does not copy again the data that an interrupted call has copied. A merge
        by LVM is not used, because it would remove the snapshot and free its space without a wipe.
        """
        content = self._group.content()
        lv = self._existing(content, group.snapshot_name(snapshot))
        origin = self._existing(content, snapshot.volume.name)
        if self._origin(content, lv) != origin:
            raise errors.BackendRefused(reason=f'{lv.name} is not a snapshot of {origin.name}')
        self._not_in_use(origin)
        for needed in (origin, lv):
            self._activate(needed)
        with self._begun(origin.name):
            self._fill(lv.name, origin.name, origin.size, copied)

    def pools(self) -> tuple[base.PoolReport, ...]:
        content = self._group.content()
        given = sum(lv.size for name, lv in content.volumes.items()
                    if lvm.NAMES.fullmatch(name) and lv.ours and not lv.pool
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

    def _has_no_snapshots(self, content: group.Content, lv: group.LogicalVolume) -> None:
        hanging = [other.name for other in content.volumes.values()
                   if other.origin == lv.name and not other.pool]
        if hanging:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{lv.name} has thick snapshots '
                       f'({", ".join(sorted(hanging))}); delete them first')

    def _create(self, content: group.Content, name: str, size: int) -> None:
        self._make_room(content, size)
        self._group.do(lvm.create_thick, name, size, size_gb=size / units.GIB)

    def _snapshot(self, content: group.Content, origin: group.LogicalVolume, name: str) -> None:
        self._make_room(content, origin.size)
        # LVM reduces this size to the most that a snapshot can use: the size of the volume and
        # some space for the tables of the snapshot.
        self._group.do(lvm.snapshot_thick, origin.name, name, 2 * origin.size,
                       size_gb=origin.size / units.GIB)

    def _is_snapshot(self, lv: group.LogicalVolume) -> bool:
        return bool(lv.origin)

    def _origin(self, content: group.Content,
                snapshot: group.LogicalVolume) -> group.LogicalVolume:
        """Return the origin of a snapshot. The size of the origin is also that of the snapshot.

        :raises BackendRefused: if the snapshot was separated from its volume by an interrupted
            deletion
        """
        origin = content.volumes.get(snapshot.origin)
        if origin is None:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{snapshot.name} is the remainder of a deleted '
                       f'snapshot; delete the snapshot again')
        return origin

    def _copy(self, content: group.Content, origin: group.LogicalVolume, source: str,
              volume: base.StoredVolume, copied: base.Copied) -> None:
        """Create a volume with the data of ``source``, a snapshot of ``origin``.

        If the snapshot does not exist, it is created. A snapshot that serves only this copy is
        deleted afterwards. Logical volumes that an interrupted attempt has left are reused.
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
                # ``content`` was read before the snapshot was created.
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

    def _discard(self, lv: group.LogicalVolume) -> None:
        if lv.health == 'partial':
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{lv.name} is partly on a missing disk; reconnect '
                       f'the disk, or see vgreduce --removemissing')
        if not self._lvm.clear_bandwidth:
            self._group.do(lvm.remove, lv.name)
            return
        if not lv.origin:
            self._hide(lv)
            return
        self._group.do(lvm.split_snapshot, lv.name)
        with self._begun(lv.name):
            self._hide(lv)

    def _hide(self, lv: group.LogicalVolume) -> None:
        # LVM refuses to deactivate a volume that was opened since the content was read.
        self._group.do(lvm.deactivate, lv.name)
        self._group.do(lvm.rename, lv.name, group.deleted_name(lv.name))
        self._rest = 0

    def wipe(self) -> None:
        """Overwrite a part of a deleted volume, see `base.Wipe`.

        After a failure, the wipe is retried about a minute later. While no volume is to be wiped,
        the volume group is searched about every ten minutes.
        """
        if self._rest:
            self._rest -= 1
            return
        self._rest = _ROUNDS_WHEN_IDLE
        try:
            for lv in self._group.content().volumes.values():
                if lv.ours and not lv.pool and lv.name.startswith(group.DELETED):
                    self._rest = 0
                    self._wipe(lv)
                    return
        except errors.BackendError as exc:
            self._rest = _ROUNDS_AFTER_FAILURE
            LOG.error('Failed to wipe deleted volume, space not freed%s',
                      log.fields(volume_group=self._group.name, reason=exc))

    def _wipe(self, lv: group.LogicalVolume) -> None:
        if not self._lvm.clear_bandwidth:
            # The volume was deleted before volume_clear was set to none.
            self._group.do(lvm.remove, lv.name)
            return
        if not lv.active:
            self._group.do(lvm.activate, lv.name)
        wiped = self._wiped.pop(lv.name, 0)
        length = min(self._lvm.clear_bandwidth, lv.size - wiped)
        self._group.do(lvm.zero, lv.name, lv.size - wiped - length, length)
        wiped += length
        if wiped >= lv.size:
            self._group.do(lvm.remove, lv.name)
            LOG.info('Deleted volume wiped%s',
                     log.fields(volume_group=self._group.name, logical_volume=lv.name))
            return
        self._wiped[lv.name] = wiped % _CUT
        if wiped >= _CUT:
            self._group.do(lvm.cut, lv.name, lv.size - wiped + wiped % _CUT)
