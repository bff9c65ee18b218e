"""Access of the volume manager to the store and the target of a backend.

The methods take database records, and translate them to the values of the driver contract.
"""
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
from blockattach.storage.domain import snapshots
from blockattach.storage.drivers import base
from blockattach.storage.drivers import loading

LOG = oslo_log.getLogger(__name__)

# Logical block size in bytes that consumers assume if a connection contains none.
_USUAL_BLOCK = 512


class KeptBackend:
    """Backend that a volume manager serves.

    :ivar store: store driver, in a wrapper that records its calls in the telemetry
    :ivar target: target driver, in a wrapper that records its calls in the telemetry
    """

    def __init__(self, backend: loading.Backend,
                 telemetry: acts.Telemetry | None = None) -> None:
        """Wrap the drivers of a backend.

        :param telemetry: telemetry that records each call of a driver; None for a new one
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
        # The check of a runtime protocol takes longer than most calls of a driver.
        self._unmapping = self.target if isinstance(self.target, base.Unmap) else None
        self._resizing = self.target if isinstance(self.target, base.LiveResize) else None
        self._native = (self.target if isinstance(self.target, base.NativeBlocks)
                        else None)

    def pools(self) -> tuple[base.PoolReport, ...]:
        """Return the current reports of the pools; errors as in `base.VolumeStore.pools`."""
        with self.telemetry.backend(self.name, 'store', 'pools'):
            failpoints.point('backend.store.pools.before')
            reports = self._pools()
            failpoints.point('backend.store.pools.after')
            return reports

    def create(self, volume: records.Volume) -> None:
        """Create a volume on the store; errors as in `base.VolumeStore.create`."""
        self.store.create(_stored(volume))
        LOG.info('Volume created on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool))

    def extend(self, volume: records.Volume, size_gb: int) -> None:
        """Extend a volume on the store; errors as in `base.VolumeStore.extend`."""
        self.store.extend(_stored(volume), size_gb)
        LOG.info('Volume extended on backend%s', log.fields(
            volume_id=volume.id, size_gb=size_gb))

    @property
    def resizes_live(self) -> bool:
        """True if connected hosts can see the new size of an extended volume."""
        return self._resizing is not None

    def resize(self, volume: records.Volume) -> None:
        """Make the new size of a volume visible to connected hosts, if the target supports that.

        Hosts that connect later see the new size in any case.

        :raises BackendUncertain: if hosts may not see the new size yet
        """
        if self._resizing is None:
            return
        try:
            self._resizing.resize(self.export_of(volume))
        except errors.BackendRefused as exc:
            # The extension of the volume itself has succeeded.
            LOG.error('Failed to make new volume size visible to connected hosts; detach and '
                      'attach the volume again%s', log.fields(volume_id=volume.id, reason=exc))

    def clone(self, source: records.Volume, volume: records.Volume,
              copied: base.Copied) -> None:
        """Create a volume from another volume; errors as in `base.Clone.clone`.

        :raises BackendRefused: also if the store cannot clone volumes
        """
        if not isinstance(self.store, base.Clone):
            raise errors.BackendRefused(reason=f'backend {self.name} cannot clone volumes')
        self.store.clone(_stored(source), _stored(volume), copied)
        LOG.info('Volume cloned on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool, source_volid=source.id))

    def clone_snapshot(self, snapshot_id: str, origin: records.Volume, volume: records.Volume,
                       copied: base.Copied) -> None:
        """Create a volume from a snapshot; errors as in `base.CloneSnapshot.clone_snapshot`.

        :param origin: volume of the snapshot
        :raises BackendRefused: also if the store cannot clone snapshots
        """
        if not isinstance(self.store, base.CloneSnapshot):
            raise errors.BackendRefused(reason=f'backend {self.name} cannot clone snapshots')
        self.store.clone_snapshot(
            base.StoredSnapshot(snapshot_id, f'snapshot-{snapshot_id}', _stored(origin)),
            _stored(volume), copied)
        LOG.info('Volume created on backend from snapshot%s', log.fields(
            volume_id=volume.id, pool=volume.pool, snapshot_id=snapshot_id))

    def disk(self, volume: records.Volume, writes: bool = False) -> disks.Disk:
        """Open the data of a volume.

        :raises BackendRefused: if the volume does not exist
        :raises OSError: if the device of the volume cannot be opened
        """
        if isinstance(self.store, base.Disks):
            return self.store.disk(_stored(volume), writes)
        return disks.Device(self.store.device(_stored(volume)), volume.size_gb * units.GIB,
                            writes)

    def disk_errors(self, volume: records.Volume) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that translates an OSError of `disk` into a backend error."""
        return disks.translated(volume.size_gb)

    def delete(self, volume: records.Volume) -> None:
        """Delete a volume on the store; errors as in `base.VolumeStore.delete`."""
        self.store.delete(_stored(volume))
        LOG.info('Volume deleted on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool))

    def create_snapshot(self, snapshot: snapshots.Snapshot, volume: records.Volume,
                        copied: base.Copied) -> None:
        """Create a snapshot of a volume; errors as in `base.Snapshots.create_snapshot`.

        :raises BackendRefused: also if the store does not support snapshots
        """
        if not isinstance(self.store, base.Snapshots):
            raise errors.BackendRefused(reason=f'backend {self.name} does not support snapshots')
        self.store.create_snapshot(_stored_snapshot(snapshot, volume), copied)

    def delete_snapshot(self, snapshot: snapshots.Snapshot, volume: records.Volume) -> None:
        """Delete a snapshot on the store; errors as in `base.Snapshots.delete_snapshot`.

        Does nothing if the store does not support snapshots.
        """
        if isinstance(self.store, base.Snapshots):
            self.store.delete_snapshot(_stored_snapshot(snapshot, volume))

    def revert(self, snapshot: snapshots.Snapshot, volume: records.Volume,
               copied: base.Copied) -> None:
        """Revert a volume to its snapshot; errors as in `base.Revert.revert`.

        :raises BackendRefused: also if the store cannot revert volumes
        """
        if not isinstance(self.store, base.Revert):
            raise errors.BackendRefused(reason=f'backend {self.name} cannot revert volumes')
        self.store.revert(_stored_snapshot(snapshot, volume), copied)

    def manageable(self, noun: str) -> list[base.Manageable]:
        """Return the volumes or the snapshots in the pools; errors as in `base.Manage.manageable`.

        :param noun: ``volume`` or ``snapshot``
        :raises BackendRefused: also if the store does not implement `base.Manage`
        """
        return [item for item in self._managing().manageable()
                if item.is_snapshot == (noun == 'snapshot')]

    def manage(self, name: str, volume: records.Volume) -> None:
        """Take over the stored volume ``name``; errors as in `base.Manage.manage`."""
        self._managing().manage(name, _stored(volume))
        LOG.info('Volume managed on backend%s', log.fields(
            volume_id=volume.id, pool=volume.pool))

    def manage_snapshot(self, name: str, snapshot: snapshots.Snapshot,
                        volume: records.Volume) -> None:
        """Take over the stored snapshot ``name``; errors as in `base.Manage.manage_snapshot`.

        :param volume: volume of the snapshot
        """
        self._managing().manage_snapshot(name, _stored_snapshot(snapshot, volume))
        LOG.info('Snapshot managed on backend%s', log.fields(snapshot_id=snapshot.id))

    def _managing(self) -> base.Manage:
        if not isinstance(self.store, base.Manage):
            raise errors.BackendRefused(
                reason=f'backend {self.name} cannot manage existing volumes or snapshots')
        return self.store

    def export_of(self, volume: records.Volume | records.Exported) -> connection.Export:
        """Return the description of a volume's export; errors as in `base.VolumeStore.device`."""
        stored = _stored(volume)
        return connection.Export(volume.id, stored.name, self.store.device(stored),
                                 volume.size_gb)

    def for_consumer(self, target_connection: connection.Connection, export: connection.Export,
                     volume: records.Volume | records.Exported) -> connection.Connection:
        """Return a connection with discard support, block sizes and QoS limits for the consumer.

        :param target_connection: connection that the target returned, without these values
        """
        sizes = None
        discard = (self._tells_discard and self._unmapping is not None
                   and self._unmapping.unmaps(export.device))
        if self._native is not None:
            sizes = self._native.block_sizes(export.device)
            if sizes.logical == _USUAL_BLOCK:
                sizes = None
        return dataclasses.replace(target_connection, discard=discard, block_sizes=sizes,
                                   limits=volume.limits)

    def actual_export(self, volume_id: str) -> base.ActualExport | None:
        """Return the export that the target reports for a volume, or None if it reports none."""
        return next((export for export in self.target.exports() if export.volume_id == volume_id),
                    None)

    def host_reservation(self, volume_id: str,
                         initiator: str) -> connection.HostReservation | None:
        """Return the role of an initiator in the persistent reservations of a volume.

        :returns: None if the target cannot report reservations or does not export the volume, or
            if the initiator is missing from an incomplete report
        """
        if not isinstance(self.target, base.HostReservations):
            return None
        reservations = self.target.reservations(volume_id)
        return None if reservations is None else reservations.of(initiator)


def is_one_disk(source: KeptBackend, volume: records.Volume, destination: KeptBackend,
                copy: records.Volume) -> bool:
    """Return True if a volume and its copy on another backend are the same file or device.

    For example, both backends may use the same volume group.
    """
    try:
        paths = source.store.device(_stored(volume)), destination.store.device(_stored(copy))
    except errors.BackendRefused:
        return False
    try:
        return os.path.samefile(*paths)
    except OSError:
        return False


def _stored(volume: records.Volume | records.Exported) -> base.StoredVolume:
    # The name is the one that Cinder gives a volume on its backend.
    return base.StoredVolume(volume.id, f'volume-{volume.id}', volume.size_gb,
                             (volume.pool or '').partition('#')[2])


def _stored_snapshot(snapshot: snapshots.Snapshot, volume: records.Volume) -> base.StoredSnapshot:
    # The name is the one that Cinder gives a snapshot on its backend.
    return base.StoredSnapshot(snapshot.id, f'snapshot-{snapshot.id}', _stored(volume))


def _watched(contract: type[abc.ABC], driver: object, telemetry: acts.Telemetry, backend: str,
             part: str) -> Any:
    """Wrap a driver, so that the telemetry records its calls. Its capabilities stay the same."""
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

    # A class for each driver, because `base.declared` derives the capabilities from its methods.
    return type(type(driver).__name__, (contract,),
                {**facts, **{verb: watch(verb) for verb in verbs}})()
