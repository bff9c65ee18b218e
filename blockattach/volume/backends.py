"""A backend as the keeper uses it: volumes by their records instead of by the drivers' values."""
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.domain import reservation
from blockattach.drivers import base
from blockattach.drivers import capabilities
from blockattach.drivers import loading


class KeptBackend:
    """One store and one target, joined."""

    def __init__(self, backend: loading.Backend) -> None:
        self.name = backend.name
        self.store = backend.store
        self.target = backend.target
        self.pools = backend.pools

    def create(self, volume: records.Volume) -> None:
        """Make the volume's bytes; raises as `base.VolumeStore.create`."""
        self.store.create(_stored(volume))

    def delete(self, volume: records.Volume) -> None:
        """Remove the volume's bytes; raises as `base.VolumeStore.delete`."""
        self.store.delete(_stored(volume))

    def export_of(self, volume: records.Volume) -> connection.Export:
        """The volume as the target offers it; raises as `base.VolumeStore.device`."""
        stored = _stored(volume)
        return connection.Export(volume.id, stored.name, self.store.device(stored),
                                 volume.size_gb)

    def host_reservation(self, volume_id: str,
                         initiator: str) -> reservation.HostReservation | None:
        """What an initiator holds of a volume; None where the target cannot tell."""
        if not isinstance(self.target, capabilities.HostReservations):
            return None
        found = self.target.reservations(volume_id)
        return None if found is None else found.of(initiator)


def _stored(volume: records.Volume) -> base.StoredVolume:
    """A volume is called on its backend as Cinder calls it."""
    return base.StoredVolume(volume.id, f'volume-{volume.id}', volume.size_gb,
                             (volume.pool or '').partition('#')[2])
