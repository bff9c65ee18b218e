"""Store of thin logical volumes, which share a thin pool and allocate space when written."""
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


class ThinStore(store.LvmStore):
    """Store of thin volumes.

    Also implements `base.Clone`, `CloneSnapshot`, `Revert` and `Discard`.

    A snapshot is a thin volume that shares blocks with its volume. Either can exist without the
    other. Deleted volumes and snapshots need no wipe, because the pool allocates zeroed blocks.
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        super().__init__(settings)
        self._pool_name = self._lvm.thin_pool
        self._reported = 0

    def check(self) -> None:
        """Check the store, and delete the volumes that interrupted reverts have replaced.

        If processes of a cluster share the pool, the replaced volumes are kept. An unfinished
        volume is kept until its clone or revert is repeated, or its volume is
        deleted. LVM does not show whether a running process works on an unfinished volume, and an
        interrupted revert may need it to continue. Each volume has at most one unfinished volume,
        which counts as provisioned capacity of the pool.
        """
        super().check()
        # Another process of the cluster may be deleting the same volumes.
        if not self._settings.shared:
            self._remove_replaced()

    def clone(self, source: base.StoredVolume, volume: base.StoredVolume,
              copied: base.Copied = base.unlimited) -> None:
        self._clone(source.name, volume)

    def clone_snapshot(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume,
                       copied: base.Copied = base.unlimited) -> None:
        self._clone(group.snapshot_name(snapshot), volume)

    def revert(self, snapshot: base.StoredSnapshot,
               copied: base.Copied = base.unlimited) -> None:
        """Replace a volume with a clone of its snapshot, see `base.Revert`.

        The volume is deactivated before it is replaced. It then has no device, so that no process
        can start to use it.
        """
        volume = snapshot.volume
        content = self._group.content()
        origin = self._existing(content, group.snapshot_name(snapshot))
        unfinished = group.unfinished_name(volume)
        lv = self._find(content, volume.name)
        if lv is not None:
            self._not_in_use(lv)
            self._remove(content, unfinished)
            self._make_room(content, lv.size)
            self._copy(origin, unfinished, lv.size)
            self._hide(volume)
            failpoints.point('drivers.lvm.between_names')
        else:
            # An interrupted call has renamed the volume, and its replacement must exist.
            self._existing(content, unfinished)
        with self._begun(volume.name):
            self._group.do(lvm.rename, unfinished, volume.name)
            self._clean(self._group.content(), volume)

    def allocated_bytes(self, volume: base.StoredVolume) -> int:
        """Return the allocated space of a volume, see `base.Discard`.

        Blocks that the volume shares with other volumes are included.
        """
        lv = self._existing(self._group.content(), volume.name)
        return round(lv.size * lv.data_percent / 100)

    def pools(self) -> tuple[base.PoolReport, ...]:
        content = self._group.content()
        pool = self._pool(content)
        self._warn(pool)
        return self._report(content, True, pool.size, pool.size * (1 - pool.data_percent / 100),
                            self._provisioned(content),
                            self._missing_disks(content) or self._fullness(pool))

    def _unfit(self, content: group.Content) -> str | None:
        name = f'{self._group.name}/{self._pool_name}'
        pool = content.volumes.get(self._pool_name)
        if pool is None:
            return (f'thin pool {name} does not exist; create the pool: lvcreate --type thin-pool '
                    f'--extents 95%FREE --addtag {lvm.TAG} --name {self._pool_name} '
                    f'{self._group.name}')
        if not pool.is_pool:
            return f'{name} is not a thin pool; set lvm_thin_pool to a thin pool'
        if not pool.ours:
            return (f'thin pool {name} does not carry the tag {lvm.TAG}; add the tag: lvchange '
                    f'--addtag {lvm.TAG} {name}')
        if not pool.zeroes and self._lvm.clear_bandwidth:
            return (f'thin pool {name} does not zero new blocks, so new volumes expose data of '
                    f'earlier ones; enable zeroing: lvchange --zero y {name}')
        return super()._unfit(content)

    def _make_room(self, content: group.Content, size: int) -> None:
        """Check that the thin pool is not full and stays within its over-subscription ratio.

        LVM itself would continue to extend volumes in a full pool.
        """
        pool = self._pool(content)
        reason = self._fullness(pool)
        if reason is not None:
            raise errors.BackendFull(size_gb=f'{size / units.GIB:g}', reason=reason)
        base.check_room(self._settings, f'thin pool {pool.name}', pool.size / units.GIB,
                        self._provisioned(content) / units.GIB, size / units.GIB)

    def _create(self, content: group.Content, name: str, size: int) -> None:
        self._make_room(content, size)
        self._group.do(lvm.create_thin, self._pool_name, name, size, size_gb=size / units.GIB)

    def _snapshot(self, content: group.Content, origin: group.LogicalVolume, name: str) -> None:
        self._make_room(content, origin.size)
        self._copy(origin, name, origin.size)

    def _is_snapshot(self, lv: group.LogicalVolume) -> bool:
        # The origin does not identify snapshots, because a cloned thin volume has one too.
        return lv.name.startswith(group.SNAPSHOT)

    def _discard(self, lv: group.LogicalVolume) -> None:
        self._group.do(lvm.remove, lv.name)

    def _remove_replaced(self) -> None:
        try:
            content = self._group.content()
            for name, lv in content.volumes.items():
                # The revert is finished once the new volume has its name.
                if (lv.ours and lv.pool == self._pool_name and not lv.open
                        and group.replaced_by(name) in content.volumes):
                    self._discard(lv)
                    LOG.info('Replaced volume of an interrupted revert deleted%s', log.fields(
                        volume_group=self._group.name, logical_volume=name))
        except errors.BackendError as exc:
            LOG.warning('Failed to delete replaced volumes of interrupted reverts, will retry at '
                        'the next start%s', log.fields(volume_group=self._group.name, reason=exc))

    def _clean(self, content: group.Content, volume: base.StoredVolume) -> None:
        super()._clean(content, volume)
        for name in content.volumes:
            if group.is_replaced(name, volume):
                self._remove(content, name)

    def _clone(self, source: str, volume: base.StoredVolume) -> None:
        content = self._group.content()
        if self._find(content, volume.name) is not None:
            return
        origin = self._existing(content, source)
        size = self._size_of_copy(origin.size, volume)
        if size == origin.size:
            self._snapshot(content, origin, volume.name)
        else:
            self._make_room(content, size)
            unfinished = group.unfinished_name(volume)
            # A snapshot of another size is created in two steps, and gets its name last.
            self._remove(content, unfinished)
            self._copy(origin, unfinished, size)
            self._group.do(lvm.rename, unfinished, volume.name)

    def _copy(self, origin: group.LogicalVolume, name: str, size: int) -> None:
        """Create the volume ``name`` of ``size`` bytes as a thin snapshot of ``origin``."""
        self._group.do(lvm.snapshot_thin, origin.name, name, size_gb=size / units.GIB)
        if size != origin.size:
            resize = lvm.extend if size > origin.size else lvm.cut
            try:
                self._group.do(resize, name, size, size_gb=size / units.GIB)
            except errors.BackendRefused:
                self._group.do(lvm.remove, name)
                raise

    def _hide(self, volume: base.StoredVolume) -> None:
        """Deactivate and rename a volume, so that its replacement can get its name.

        :raises BackendRefused: if the volume is in use; the unfinished replacement is deleted
        """
        try:
            self._group.do(lvm.deactivate, volume.name)
            self._group.do(lvm.rename, volume.name, group.deleted_name(volume.name))
        except errors.BackendRefused:
            self._group.do(lvm.remove, group.unfinished_name(volume))
            raise

    def _pool(self, content: group.Content) -> group.LogicalVolume:
        pool = content.volumes.get(self._pool_name)
        if pool is None or not pool.ours:
            raise errors.BackendRefused(
                reason=f'thin pool {self._group.name}/{self._pool_name} does not exist or does '
                       f'not carry the tag {lvm.TAG}')
        return pool

    def _provisioned(self, content: group.Content) -> int:
        """Return the total size in bytes of the volumes and snapshots of the pool."""
        return sum(lv.size for lv in content.volumes.values()
                   if lv.pool == self._pool_name)

    def _fullness(self, pool: group.LogicalVolume) -> str | None:
        """Return the reason why the thin pool accepts no new volumes, or None if it does."""
        name = f'{self._group.name}/{pool.name}'
        if pool.data_percent >= self._lvm.full_percent or pool.health == 'out_of_data':
            return (f'data of thin pool {name} is {pool.data_percent:.1f}% full; extend the pool: '
                    f'lvextend --size +10G {name}')
        if pool.metadata_percent >= self._lvm.full_percent:
            return (f'metadata of thin pool {name} is {pool.metadata_percent:.1f}% full; extend '
                    f'the metadata: lvextend --poolmetadatasize +1G {name}')
        if pool.health:
            return f'thin pool {name} is unhealthy ({pool.health}); see lvconvert --repair'
        return None

    def _warn(self, pool: group.LogicalVolume) -> None:
        near = max(pool.data_percent, pool.metadata_percent) >= self._lvm.warn_percent
        level = 2 if self._fullness(pool) else int(near)
        fields = log.fields(volume_group=self._group.name, thin_pool=pool.name,
                            data_percent=pool.data_percent,
                            metadata_percent=pool.metadata_percent, health=pool.health or 'good')
        if level > self._reported and level == 1:
            LOG.warning('Thin pool nearly filled; extend the pool before all writes stop%s',
                        fields)
        elif level > self._reported:
            LOG.error('Thin pool closed for new volumes; extend the pool before all writes stop%s',
                      fields)
        self._reported = level
