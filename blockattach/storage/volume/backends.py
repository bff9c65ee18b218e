"""A backend as the manager uses it: volumes by their records instead of by the drivers' values."""
import abc
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform import units
from blockattach.platform.telemetry import acts
from blockattach.storage.domain import connection
from blockattach.storage.domain import records
from blockattach.storage.domain import reservation
from blockattach.storage.domain import snapshots
from blockattach.storage.drivers import base
from blockattach.storage.drivers import loading

LOG = oslo_log.getLogger(__name__)

# What every consumer takes a disk to have unless another size is given.
_USUAL_BLOCK = 512


class KeptBackend:
    """One store and one target, joined."""

    def __init__(self, backend: loading.Backend,
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param telemetry: records each verb of a driver
        """
        self.name = backend.name
        self.telemetry = telemetry or acts.Telemetry()
        self.store: base.VolumeStore = _watched(
            base.VolumeStore, backend.store, self.telemetry, backend.name, 'store')
        self.target: base.ExportTarget = _watched(
            base.ExportTarget, backend.target, self.telemetry, backend.name, 'target')
        self._pools = backend.pools
        self._tells_discard = (backend.settings.report_discard_supported
                               and isinstance(backend.store, base.Discard))
        # To see what a driver can do takes longer than most of what it does.
        self._unmapping = self.target if isinstance(self.target, base.Unmap) else None
        self._resizing = self.target if isinstance(self.target, base.LiveResize) else None
        self._native = (self.target if isinstance(self.target, base.NativeBlocks)
                        else None)

    def pools(self) -> tuple[base.PoolReport, ...]:
        """The pools, with what they offer now; errors: `base.VolumeStore.pools`."""
        with self.telemetry.backend(self.name, 'store', 'pools'):
            failpoints.point('backend.store.pools.before')
            found = self._pools()
            failpoints.point('backend.store.pools.after')
            return found

    def create(self, volume: records.Volume) -> None:
        """Make the volume's bytes; errors: `base.VolumeStore.create`."""
        self.store.create(_stored(volume))
        LOG.info('Volume created on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool))

    def extend(self, volume: records.Volume, size_gb: int) -> None:
        """Make the volume's bytes more; errors: `base.VolumeStore.extend`."""
        self.store.extend(_stored(volume), size_gb)
        LOG.info('Volume extended on backend%s', log.fields(
            volume_id=volume.id, size_gb=size_gb))

    @property
    def resizes_live(self) -> bool:
        """Whether hosts see a new size without attaching again."""
        return self._resizing is not None

    def resize(self, volume: records.Volume) -> None:
        """Let hosts see a volume's new size, where the target can; what is exported anew has it.

        :raises BackendUncertain: they may not see it yet
        """
        if self._resizing is None:
            return
        try:
            self._resizing.resize(self.export_of(volume))
        except errors.BackendRefused as exc:
            # The volume is larger all the same.
            LOG.error('Failed to make new volume size visible to connected hosts; detach and '
                      'attach the volume again%s', log.fields(volume_id=volume.id, reason=exc))

    def clone(self, source: records.Volume, volume: records.Volume,
              copied: base.Copied) -> None:
        """Make the volume's bytes of another one's; errors: `base.Clone.clone`.

        :raises BackendRefused: also where the store cannot do that
        """
        if not isinstance(self.store, base.Clone):
            raise errors.BackendRefused(reason=f'backend {self.name} cannot clone volumes')
        self.store.clone(_stored(source), _stored(volume), copied)
        LOG.info('Volume cloned on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool, source_volid=source.id))

    def clone_snapshot(self, snapshot_id: str, origin: records.Volume, volume: records.Volume,
                       copied: base.Copied) -> None:
        """Make the volume's bytes of a snapshot's; errors: `base.CloneSnapshot.clone_snapshot`.

        :param origin: the volume that it is a snapshot of
        :raises BackendRefused: also where the store cannot do that
        """
        if not isinstance(self.store, base.CloneSnapshot):
            raise errors.BackendRefused(reason=f'backend {self.name} cannot clone snapshots')
        self.store.clone_snapshot(
            base.StoredSnapshot(snapshot_id, f'snapshot-{snapshot_id}', _stored(origin)),
            _stored(volume), copied)
        LOG.info('Volume created on backend from snapshot%s', log.fields(
            volume_id=volume.id, pool=volume.pool, snapshot_id=snapshot_id))

    def disk(self, volume: records.Volume, writes: bool = False) -> disks.Disk:
        """The volume's bytes.

        :raises BackendRefused: there is no such volume
        :raises OSError: they cannot be reached
        """
        if isinstance(self.store, base.Disks):
            return self.store.disk(_stored(volume), writes)
        return disks.Device(self.store.device(_stored(volume)), volume.size_gb * units.GIB,
                            writes)

    def disk_errors(self, volume: records.Volume) -> contextlib.AbstractContextManager[None]:
        """Return a context that translates errors of the volume's disk into backend errors."""
        return disks.translated(volume.size_gb)

    def delete(self, volume: records.Volume) -> None:
        """Remove the volume's bytes; errors: `base.VolumeStore.delete`."""
        self.store.delete(_stored(volume))
        LOG.info('Volume deleted on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool))

    def create_snapshot(self, snapshot: snapshots.Snapshot, volume: records.Volume,
                        copied: base.Copied) -> None:
        """Keep the volume's bytes as they are; errors: `base.Snapshots.create_snapshot`."""
        if not isinstance(self.store, base.Snapshots):
            raise errors.BackendRefused(reason=f'backend {self.name} does not support snapshots')
        self.store.create_snapshot(_stored_snapshot(snapshot, volume), copied)

    def delete_snapshot(self, snapshot: snapshots.Snapshot, volume: records.Volume) -> None:
        """Remove a snapshot's bytes; errors: `base.Snapshots.delete_snapshot`."""
        if isinstance(self.store, base.Snapshots):
            self.store.delete_snapshot(_stored_snapshot(snapshot, volume))

    def revert(self, snapshot: snapshots.Snapshot, volume: records.Volume,
               copied: base.Copied) -> None:
        """Give the volume the bytes of its snapshot; errors: `base.Revert.revert`."""
        if not isinstance(self.store, base.Revert):
            raise errors.BackendRefused(reason=f'backend {self.name} cannot revert volumes')
        self.store.revert(_stored_snapshot(snapshot, volume), copied)

    def manageable(self, noun: str) -> list[base.Manageable]:
        """What lies in the pools; errors: `base.Manage.manageable`.

        :param noun: ``volume`` or ``snapshot``: all of these that lie there
        :raises BackendRefused: the store cannot do that
        """
        return [one for one in self._managing().manageable()
                if one.is_snapshot == (noun == 'snapshot')]

    def manage(self, name: str, volume: records.Volume) -> None:
        """Take over what is called so as a volume; errors: `base.Manage.manage`."""
        self._managing().manage(name, _stored(volume))
        LOG.info('Volume managed on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool))

    def manage_snapshot(self, name: str, snapshot: snapshots.Snapshot,
                        volume: records.Volume) -> None:
        """The same as a snapshot of a volume; errors: `base.Manage.manage_snapshot`."""
        self._managing().manage_snapshot(name, _stored_snapshot(snapshot, volume))
        LOG.info('Snapshot managed on backend%s', log.fields(snapshot_id=snapshot.id))

    def _managing(self) -> base.Manage:
        if not isinstance(self.store, base.Manage):
            raise errors.BackendRefused(
                reason=f'backend {self.name} cannot manage existing volumes or snapshots')
        return self.store

    def export_of(self, volume: records.Volume | records.Exported) -> connection.Export:
        """The volume as the target offers it; errors: `base.VolumeStore.device`."""
        stored = _stored(volume)
        return connection.Export(volume.id, stored.name, self.store.device(stored),
                                 volume.size_gb)

    def for_consumer(self, made: connection.Connection, export: connection.Export,
                     volume: records.Volume | records.Exported) -> connection.Connection:
        """The connection that the target reported, with what the consumer must know besides."""
        sizes = None
        discard = (self._tells_discard and self._unmapping is not None
                   and self._unmapping.unmaps(export.device))
        if self._native is not None:
            sizes = self._native.block_sizes(export.device)
            if sizes.logical == _USUAL_BLOCK:
                sizes = None
        return dataclasses.replace(made, discard=discard, block_sizes=sizes, limits=volume.limits)

    def actual_export(self, volume_id: str) -> base.ActualExport | None:
        """A volume as the target offers it now; None: it does not."""
        return next((one for one in self.target.exports() if one.volume_id == volume_id), None)

    def host_reservation(self, volume_id: str,
                         initiator: str) -> reservation.HostReservation | None:
        """What an initiator holds of a volume; None where the target cannot report it."""
        if not isinstance(self.target, base.HostReservations):
            return None
        found = self.target.reservations(volume_id)
        return None if found is None else found.of(initiator)


def is_one_disk(one: KeptBackend, here: records.Volume, other: KeptBackend,
                there: records.Volume) -> bool:
    """Whether two backends keep a volume at the same place, as with one volume group for both."""
    try:
        paths = one.store.device(_stored(here)), other.store.device(_stored(there))
    except errors.BackendRefused:
        return False
    try:
        return os.path.samefile(*paths)
    except OSError:
        return False


def _stored(volume: records.Volume | records.Exported) -> base.StoredVolume:
    """A volume is called on its backend as Cinder calls it."""
    return base.StoredVolume(volume.id, f'volume-{volume.id}', volume.size_gb,
                             (volume.pool or '').partition('#')[2])


def _stored_snapshot(snapshot: snapshots.Snapshot, volume: records.Volume) -> base.StoredSnapshot:
    """As Cinder calls it. Its pool is the volume's."""
    return base.StoredSnapshot(snapshot.id, f'snapshot-{snapshot.id}', _stored(volume))


def _watched(contract: type[abc.ABC], driver: object, telemetry: acts.Telemetry, backend: str,
             part: str) -> Any:
    """The driver, with its capabilities, and each call of a verb recorded."""
    public = {name for name in vars(contract) if not name.startswith('_')}
    verbs = {name for name in public if callable(vars(contract)[name])}
    facts = {name: getattr(driver, name) for name in public - verbs}
    for name in base.declared(driver):
        verbs.update(verb for verb in vars(base.CAPABILITIES[name])
                     if not verb.startswith('_'))

    def watch(verb: str) -> Callable[..., Any]:
        act = getattr(driver, verb)
        before, after = f'backend.{part}.{verb}.before', f'backend.{part}.{verb}.after'

        @functools.wraps(act)
        def traced(_self: object, *arguments: Any, **more: Any) -> Any:
            with telemetry.backend(backend, part, verb):
                failpoints.point(before)
                answer = act(*arguments, **more)
                failpoints.point(after)
                return answer
        return traced

    return type(type(driver).__name__, (contract,),
                {**facts, **{verb: watch(verb) for verb in verbs}})()
