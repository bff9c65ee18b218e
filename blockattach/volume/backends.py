"""A backend as the manager uses it: volumes by their records instead of by the drivers' values."""
import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.domain import reservation
from blockattach.drivers import base
from blockattach.drivers import loading
from blockattach.telemetry import acts

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
        LOG.info('Volume is created%s', log.fields(volume_id=volume.id, pool=volume.pool))

    def extend(self, volume: records.Volume, size_gb: int) -> None:
        """Make the volume's bytes more; errors: `base.VolumeStore.extend`."""
        self.store.extend(_stored(volume), size_gb)
        LOG.info('Volume is extended%s', log.fields(volume_id=volume.id, size_gb=size_gb))

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
            LOG.error('Cannot let hosts see the new size of a volume; they see it once they are '
                      'attached again%s', log.fields(volume_id=volume.id, reason=exc))

    def delete(self, volume: records.Volume) -> None:
        """Remove the volume's bytes; errors: `base.VolumeStore.delete`."""
        self.store.delete(_stored(volume))
        LOG.info('Volume is deleted%s', log.fields(volume_id=volume.id, pool=volume.pool))

    def export_of(self, volume: records.Volume) -> connection.Export:
        """The volume as the target offers it; errors: `base.VolumeStore.device`."""
        stored = _stored(volume)
        return connection.Export(volume.id, stored.name, self.store.device(stored),
                                 volume.size_gb)

    def for_consumer(self, made: connection.Connection, export: connection.Export,
                     volume: records.Volume) -> connection.Connection:
        """The connection that the target reported, with what the consumer must know besides."""
        sizes = None
        discard = (self._tells_discard and self._unmapping is not None
                   and self._unmapping.unmaps(export.device))
        if self._native is not None:
            sizes = self._native.block_sizes(export.device)
            if sizes.logical == _USUAL_BLOCK:
                sizes = None
        return dataclasses.replace(made, discard=discard, block_sizes=sizes, limits=volume.limits)

    def host_reservation(self, volume_id: str,
                         initiator: str) -> reservation.HostReservation | None:
        """What an initiator holds of a volume; None where the target cannot report it."""
        if not isinstance(self.target, base.HostReservations):
            return None
        found = self.target.reservations(volume_id)
        return None if found is None else found.of(initiator)


def _stored(volume: records.Volume) -> base.StoredVolume:
    """A volume is called on its backend as Cinder calls it."""
    return base.StoredVolume(volume.id, f'volume-{volume.id}', volume.size_gb,
                             (volume.pool or '').partition('#')[2])


def _watched(contract: type[abc.ABC], driver: object, telemetry: acts.Telemetry, backend: str,
             part: str) -> Any:
    """The driver, with its capabilities, and each call of a verb recorded."""
    verbs = {name for name in vars(contract) if not name.startswith('_')}
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

    return type(type(driver).__name__, (contract,), {verb: watch(verb) for verb in verbs})()
