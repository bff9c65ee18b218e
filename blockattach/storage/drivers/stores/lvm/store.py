"""Base class of the stores of thin and thick logical volumes."""
import abc
import contextlib
import socket
from collections.abc import Iterator

from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores.lvm import group
from blockattach.storage.privileged import lvm

LOG = oslo_log.getLogger(__name__)

_HOST_TAG = f'{lvm.TAG}.host='


class LvmStore(base.VolumeStore):
    """Store with one pool, which is a volume group or a thin pool in it.

    Also implements `base.Snapshots` and `Manage`.
    """

    # Name of the thin pool. Empty for thick volumes.
    _pool_name = ''

    def __init__(self, settings: backend.BackendSettings) -> None:
        if settings.lvm is None:
            raise errors.ConfigurationError(
                reason=f'backend {settings.name} has no settings for the LVM store')
        self._settings = settings
        self._lvm = settings.lvm
        self._group = group.VolumeGroup(lvm.Site(
            settings.lvm.volume_group, settings.lvm.conf_file, settings.lvm.command_seconds))

    def check(self) -> None:
        if not self._group.name:
            raise self._misfit('volume_group is not set')
        try:
            reason = (self._unfit(self._group.content())
                      or self._group.scanning_complaint())
        except errors.BackendError as exc:
            raise self._misfit(str(exc)) from exc
        if reason is not None:
            raise self._misfit(reason)

    def create(self, volume: base.StoredVolume) -> None:
        content = self._group.content()
        if self._find(content, volume.name) is None:
            self._create(content, volume.name, units.gib_to_bytes(volume.size_gb))

    def delete(self, volume: base.StoredVolume) -> None:
        content = self._group.content()
        self._clean(content, volume)
        self._remove(content, volume.name)

    def create_snapshot(self, snapshot: base.StoredSnapshot,
                        copied: base.Copied = base.unlimited) -> None:
        content = self._group.content()
        name = group.snapshot_name(snapshot)
        if self._find(content, name) is None:
            self._snapshot(content, self._existing(content, snapshot.volume.name), name)

    def delete_snapshot(self, snapshot: base.StoredSnapshot) -> None:
        self._remove(self._group.content(), group.snapshot_name(snapshot))

    def device(self, volume: base.StoredVolume) -> str:
        lv = self._existing(self._group.content(), volume.name)
        self._activate(lv)
        return lv.path

    def extend(self, volume: base.StoredVolume, size_gb: int) -> None:
        content = self._group.content()
        lv = self._existing(content, volume.name)
        wanted = units.gib_to_bytes(size_gb)
        if _is_larger(lv.size, wanted):
            raise errors.BackendRefused(
                reason=f'{volume.name} is already larger than {size_gb} GiB')
        if lv.size >= wanted:
            return
        self._make_room(content, wanted - lv.size)
        self._has_no_snapshots(content, lv)
        self._group.do(lvm.extend, lv.name, wanted, size_gb=size_gb)

    def manageable(self) -> tuple[base.Manageable, ...]:
        return tuple(
            base.Manageable(name, lv.size, self._is_snapshot(lv), lv.origin or None,
                            lv.open)
            for name, lv in sorted(self._group.content().volumes.items())
            if self._is_manageable(lv))

    def manage(self, name: str, volume: base.StoredVolume) -> None:
        content, wanted = self._group.content(), units.gib_to_bytes(volume.size_gb)
        if name not in content.volumes and self._find(content, volume.name) is not None:
            self.extend(volume, volume.size_gb)
            return
        lv = self._foreign(content, name)
        if self._is_snapshot(lv) or _is_larger(lv.size, wanted):
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} is larger than {volume.size_gb} GiB or is a '
                       f'snapshot')
        # Checked before the volume is renamed, because a later refusal is uncertain (`_begun`).
        if lv.size < wanted:
            self._make_room(content, wanted - lv.size)
            self._has_no_snapshots(content, lv)
        self._group.do(lvm.adopt, name, volume.name)
        with self._begun(volume.name):
            self.extend(volume, volume.size_gb)

    def manage_snapshot(self, name: str, snapshot: base.StoredSnapshot) -> None:
        content, new_name = self._group.content(), group.snapshot_name(snapshot)
        if name not in content.volumes and self._find(content, new_name) is not None:
            return
        lv = self._foreign(content, name)
        if lv.origin != self._existing(content, snapshot.volume.name).name:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} is not a snapshot of '
                       f'{snapshot.volume.name}')
        self._group.do(lvm.adopt, name, new_name)

    # ---- Methods that differ between thin and thick volumes ----

    @abc.abstractmethod
    def _make_room(self, content: group.Content, size: int) -> None:
        """Check that ``size`` additional bytes can be allocated in the pool.

        :raises BackendFull: if the pool has too little space
        """

    @abc.abstractmethod
    def _create(self, content: group.Content, name: str, size: int) -> None:
        """Create a logical volume of ``size`` bytes.

        :raises BackendFull: if the pool has too little space
        """

    @abc.abstractmethod
    def _snapshot(self, content: group.Content, origin: group.LogicalVolume, name: str) -> None:
        """Create a snapshot of a logical volume.

        :raises BackendFull: if the pool has too little space
        """

    @abc.abstractmethod
    def _discard(self, lv: group.LogicalVolume) -> None:
        """Delete a logical volume that is not in use and has no snapshots."""

    def _clean(self, content: group.Content, volume: base.StoredVolume) -> None:
        """Delete the logical volumes that an interrupted clone or revert of a volume has left."""
        for name in (group.source_name(volume), group.unfinished_name(volume)):
            self._remove(content, name)

    def _has_no_snapshots(self, content: group.Content, lv: group.LogicalVolume) -> None:
        """Check that no snapshots prevent a volume from being extended or deleted.

        :raises BackendRefused: if the volume has such snapshots
        """

    def _unfit(self, content: group.Content) -> str | None:
        """Return the reason why the volume group is unusable, with advice for the operator.

        :returns: None if the volume group is usable
        """
        hosts = {tag for tag in content.tags if tag.startswith(_HOST_TAG)}
        if hosts and f'{_HOST_TAG}{socket.gethostname()}' not in hosts:
            return (f'the tag {", ".join(sorted(hosts))} assigns the volume group to another '
                    f'host; use a volume group of this host, or change the tag with vgchange')
        strangers = sorted(name for name, lv in content.volumes.items()
                           if lvm.NAMES.fullmatch(name) and not lv.ours)
        if strangers:
            return (f'{len(strangers)} logical volumes have names that the service uses but no '
                    f'tag {lvm.TAG}, the first is {strangers[0]}; use another volume group, or '
                    f'add the tag: lvchange --addtag {lvm.TAG} {self._group.name}/{strangers[0]}')
        if content.missing:
            LOG.error('Missing physical volumes in volume group, serving volumes on the '
                      'remaining physical volumes%s', log.fields(
                          volume_group=self._group.name, missing=content.missing))
        return None

    @abc.abstractmethod
    def _is_snapshot(self, lv: group.LogicalVolume) -> bool:
        """Return True if a logical volume is a snapshot, by its origin (thick) or name (thin)."""

    # ---- Methods shared by thin and thick volumes ----

    def _is_manageable(self, lv: group.LogicalVolume) -> bool:
        """Return True if a manage request can take over a logical volume.

        The logical volume must be in the thin pool of the backend, or thick if the backend has no
        thin pool. It must be neither deleted nor unfinished.
        """
        return (not lv.is_pool and lv.pool == self._pool_name
                and not lv.name.startswith(group.PASSING))

    def _foreign(self, content: group.Content, name: str) -> group.LogicalVolume:
        """Return the logical volume ``name``, which a manage request takes over.

        :raises BackendRefused: if the logical volume does not exist, is not of the type of the
            backend, or is in use
        """
        lv = content.volumes.get(name)
        if lv is None or not self._is_manageable(lv):
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} does not exist or is not a logical volume of '
                       f'the type that the backend uses ({self._lvm.lvm_type})')
        self._not_in_use(lv)
        return lv

    def _existing(self, content: group.Content, name: str) -> group.LogicalVolume:
        """Return an existing logical volume of this backend.

        :raises BackendRefused: if the logical volume does not exist or does not belong to the
            backend
        """
        lv = self._find(content, name)
        if lv is None:
            raise errors.BackendRefused(reason=f'{self._group.name}/{name} does not exist')
        return lv

    def _find(self, content: group.Content, name: str) -> group.LogicalVolume | None:
        """Return a logical volume of this backend, or None if no logical volume has the name.

        :raises BackendRefused: if a logical volume has the name, but not the tag of this service,
            or is in another thin pool
        """
        lv = content.volumes.get(name)
        if lv is not None and not lv.ours:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} does not carry the tag {lvm.TAG} and '
                       f'therefore does not belong to the service')
        if lv is not None and lv.pool != self._pool_name:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} is not a logical volume of the type that the '
                       f'backend uses ({self._lvm.lvm_type}); see lvm_type and lvm_thin_pool')
        return lv

    def _remove(self, content: group.Content, name: str) -> None:
        """Delete the logical volume ``name`` if it exists.

        :raises BackendRefused: if the logical volume is in use, or has snapshots that prevent its
            deletion
        """
        lv = self._find(content, name)
        if lv is not None:
            self._has_no_snapshots(content, lv)
            self._not_in_use(lv)
            self._discard(lv)

    def _not_in_use(self, lv: group.LogicalVolume) -> None:
        if lv.open:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{lv.name} is in use; stop the process that '
                       f'holds the volume open; see lsblk and fuser')

    def _activate(self, lv: group.LogicalVolume) -> None:
        # After a reboot of the host, the logical volume may have no device yet.
        if not lv.active:
            self._group.do(lvm.activate, lv.name)

    @contextlib.contextmanager
    def _begun(self, name: str) -> Iterator[None]:
        """Convert BackendRefused errors of the ``with`` block to BackendUncertain.

        Before the block, the logical volume ``name`` has been changed. A refusal in the block
        therefore does not prove that nothing happened.
        """
        try:
            yield
        except errors.BackendRefused as exc:
            raise errors.BackendUncertain(
                reason=f'{self._group.name}/{name} was left incomplete: {exc}') from exc

    def _size_of_copy(self, size: int, volume: base.StoredVolume) -> int:
        """Return the size in bytes of ``volume`` as a copy of a source of ``size`` bytes.

        A source that LVM has rounded up is copied in full. A source that has been extended since
        the copy was accepted is larger by at least one GiB, and only its beginning is copied.
        """
        wanted = units.gib_to_bytes(volume.size_gb)
        return wanted if _is_larger(size, wanted) else max(wanted, size)

    def _report(self, content: group.Content, thin: bool, total: float, free: float,
                provisioned: int, trouble: str | None) -> tuple[base.PoolReport, ...]:
        """Return the report of the only pool of the store.

        :param total: capacity of the pool in bytes
        :param free: free capacity in bytes
        :param provisioned: total size of the volumes and snapshots in bytes
        :param trouble: reason why the pool accepts no new volumes; None if it accepts volumes
        """
        volumes = sum(
            lv.ours and lv.pool == self._pool_name and name.startswith(group.VOLUME)
            for name, lv in content.volumes.items())
        # The location has the form of Cinder's LVM driver, which ends with the number of mirrors.
        [report] = base.only_pool(
            self._settings, units.bytes_to_gib(int(total)), units.bytes_to_gib(int(free)),
            units.bytes_to_gib(provisioned), volumes,
            f'LVMVolumeDriver:{socket.gethostname()}:{self._group.name}:{self._lvm.lvm_type}:0',
            thin)
        state = {'backend_state': 'down', 'backend_state_reason': trouble} if trouble else {}
        return (base.PoolReport(report.name, {**report.capabilities, **state}),)

    def _missing_disks(self, content: group.Content) -> str | None:
        if content.missing:
            return (f'{content.missing} disks of volume group {self._group.name} are missing; '
                    f'reconnect the disks, or see vgreduce --removemissing')
        return None

    def _misfit(self, reason: str) -> errors.ConfigurationError:
        return errors.ConfigurationError(
            reason=f'cannot use volume group {self._group.name} of backend '
                   f'{self._settings.name}: {reason}')


def _is_larger(size: int, requested: int) -> bool:
    # LVM rounds sizes up to whole extents, so a smaller difference than one GiB does not count.
    return size >= requested + units.GIB
