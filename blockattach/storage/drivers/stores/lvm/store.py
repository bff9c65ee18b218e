"""What thin and thick volumes have in common."""
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
    """One pool: a volume group, or a thin pool in it. Also `base.Snapshots` and `Manage`."""

    # The thin pool of its volumes, if they have one.
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
        """See `base.Snapshots`."""
        content = self._group.content()
        name = group.snapshot_name(snapshot)
        if self._find(content, name) is None:
            self._snapshot(content, self._existing(content, snapshot.volume.name), name)

    def delete_snapshot(self, snapshot: base.StoredSnapshot) -> None:
        """See `base.Snapshots`."""
        self._remove(self._group.content(), group.snapshot_name(snapshot))

    def device(self, volume: base.StoredVolume) -> str:
        found = self._existing(self._group.content(), volume.name)
        self._activate(found)
        return found.path

    def extend(self, volume: base.StoredVolume, size_gb: int) -> None:
        content = self._group.content()
        found = self._existing(content, volume.name)
        wanted = units.gib_to_bytes(size_gb)
        if _is_larger(found.size, wanted):
            raise errors.BackendRefused(
                reason=f'{volume.name} is already larger than {size_gb} GiB')
        if found.size >= wanted:
            return
        self._make_room(content, wanted - found.size)
        self._has_no_snapshots(content, found)
        self._group.do(lvm.extend, found.name, wanted, size_gb=size_gb)

    def manageable(self) -> tuple[base.Manageable, ...]:
        """See `base.Manage`."""
        return tuple(
            base.Manageable(name, found.size, self._is_snapshot(found), found.origin or None,
                            found.open)
            for name, found in sorted(self._group.content().volumes.items())
            if self._is_manageable(found))

    def manage(self, name: str, volume: base.StoredVolume) -> None:
        """See `base.Manage`."""
        content, wanted = self._group.content(), units.gib_to_bytes(volume.size_gb)
        if name not in content.volumes and self._find(content, volume.name) is not None:
            self.extend(volume, volume.size_gb)
            return
        found = self._foreign(content, name)
        if self._is_snapshot(found) or _is_larger(found.size, wanted):
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} is larger than {volume.size_gb} GiB or is a '
                       f'snapshot')
        if found.size < wanted:
            self._make_room(content, wanted - found.size)
            self._has_no_snapshots(content, found)
        self._group.do(lvm.adopt, name, volume.name)
        with self._begun(volume.name):
            self.extend(volume, volume.size_gb)

    def manage_snapshot(self, name: str, snapshot: base.StoredSnapshot) -> None:
        """See `base.Manage`."""
        content, new_name = self._group.content(), group.snapshot_name(snapshot)
        if name not in content.volumes and self._find(content, new_name) is not None:
            return
        found = self._foreign(content, name)
        if found.origin != self._existing(content, snapshot.volume.name).name:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} is not a snapshot of '
                       f'{snapshot.volume.name}')
        self._group.do(lvm.adopt, name, new_name)

    # ---- What thin and thick volumes do each in their way ----

    @abc.abstractmethod
    def _make_room(self, content: group.Content, size: int) -> None:
        """Make sure that ``size`` bytes more may be given away, or raise BackendFull."""

    @abc.abstractmethod
    def _create(self, content: group.Content, name: str, size: int) -> None:
        """Make a volume of ``size`` bytes, if there is room."""

    @abc.abstractmethod
    def _snapshot(self, content: group.Content, origin: group.LogicalVolume, name: str) -> None:
        """Make a snapshot, if there is room."""

    @abc.abstractmethod
    def _discard(self, found: group.LogicalVolume) -> None:
        """Remove what nobody uses."""

    def _clean(self, content: group.Content, volume: base.StoredVolume) -> None:
        """Take away what is left of making this volume from another one."""
        for name in (group.source_name(volume), group.unfinished_name(volume)):
            self._remove(content, name)

    def _has_no_snapshots(self, content: group.Content, found: group.LogicalVolume) -> None:
        """Refuse to extend or remove a volume for what hangs on it."""

    def _unfit(self, content: group.Content) -> str | None:
        """Why this group cannot be served from, with what the operator must change."""
        hosts = {tag for tag in content.tags if tag.startswith(_HOST_TAG)}
        if hosts and f'{_HOST_TAG}{socket.gethostname()}' not in hosts:
            return (f'the tag {", ".join(sorted(hosts))} assigns the volume group to another '
                    f'host; use a volume group of this host, or change the tag with vgchange')
        strangers = sorted(name for name, found in content.volumes.items()
                           if lvm.NAMES.fullmatch(name) and not found.ours)
        if strangers:
            return (f'{len(strangers)} logical volumes have names that the service uses but no '
                    f'tag {lvm.TAG}, the first is {strangers[0]}; use another volume group, or '
                    f'add the tag: lvchange --addtag {lvm.TAG} {self._group.name}/{strangers[0]}')
        if content.missing:
            LOG.error('Volume group lost disks, serving volumes on the others%s',
                      log.fields(volume_group=self._group.name, missing=content.missing))
        return None

    @abc.abstractmethod
    def _is_snapshot(self, found: group.LogicalVolume) -> bool:
        """Whether it is a snapshot, as far as LVM can tell."""

    # ---- For both ----

    def _is_manageable(self, found: group.LogicalVolume) -> bool:
        """Whether it is of the kind that this backend keeps, and whole."""
        return (not found.is_pool and found.pool == self._pool_name
                and not found.name.startswith(group.PASSING))

    def _foreign(self, content: group.Content, name: str) -> group.LogicalVolume:
        """What is to be taken over; refuses if it cannot be."""
        found = content.volumes.get(name)
        if found is None or not self._is_manageable(found):
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} does not exist or is not a logical volume of '
                       f'the type that the backend uses ({self._lvm.lvm_type})')
        self._not_in_use(found)
        return found

    def _existing(self, content: group.Content, name: str) -> group.LogicalVolume:
        """A logical volume of ours that is there; refuses otherwise."""
        found = self._find(content, name)
        if found is None:
            raise errors.BackendRefused(reason=f'{self._group.name}/{name} does not exist')
        return found

    def _find(self, content: group.Content, name: str) -> group.LogicalVolume | None:
        """A logical volume of ours; refuses one of the same name that is not this backend's."""
        found = content.volumes.get(name)
        if found is not None and not found.ours:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} does not carry the tag {lvm.TAG} and '
                       f'therefore does not belong to the service')
        if found is not None and found.pool != self._pool_name:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{name} is not a logical volume of the type that the '
                       f'backend uses ({self._lvm.lvm_type}); see lvm_type and lvm_thin_pool')
        return found

    def _remove(self, content: group.Content, name: str) -> None:
        """Remove it if it is there, and nobody uses it."""
        found = self._find(content, name)
        if found is not None:
            self._has_no_snapshots(content, found)
            self._not_in_use(found)
            self._discard(found)

    def _not_in_use(self, found: group.LogicalVolume) -> None:
        if found.open:
            raise errors.BackendRefused(
                reason=f'{self._group.name}/{found.name} is in use; stop the process that '
                       f'holds the volume open; see lsblk and fuser')

    def _activate(self, found: group.LogicalVolume) -> None:
        """After a reboot it may have no device yet."""
        if not found.active:
            self._group.do(lvm.activate, found.name)

    @contextlib.contextmanager
    def _begun(self, name: str) -> Iterator[None]:
        """From here on a refusal proves no more that nothing happened."""
        try:
            yield
        except errors.BackendRefused as exc:
            raise errors.BackendUncertain(
                reason=f'{self._group.name}/{name} was left incomplete: {exc}') from exc

    def _size_of_copy(self, size: int, volume: base.StoredVolume) -> int:
        """Return the size in bytes of a copy of a volume of ``size`` bytes.

        The source may have been extended since the copy was accepted.
        """
        wanted = units.gib_to_bytes(volume.size_gb)
        return wanted if _is_larger(size, wanted) else max(wanted, size)

    def _report(self, content: group.Content, thin: bool, total: float, free: float,
                provisioned: int, trouble: str | None) -> tuple[base.PoolReport, ...]:
        """The only pool, with Cinder's keys. ``trouble``: why it takes nothing, if so."""
        volumes = sum(
            found.ours and found.pool == self._pool_name and name.startswith(group.VOLUME)
            for name, found in content.volumes.items())
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


def _is_larger(size: int, wanted: int) -> bool:
    """Volumes are whole GiB; LVM may round one up to its extents."""
    return size >= wanted + units.GIB
