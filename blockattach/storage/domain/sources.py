"""Sources of new volumes: checks of the volume or snapshot from which a volume is created.

All checks run when the volume is requested. `check` runs again when the row of the volume is
written, because the source may be deleted in between. Cinder checks only once.

The statuses, sizes and texts are those of `ExtractVolumeRequestTask` in
``cinder.volume.flows.api.create_volume``.
"""
import dataclasses

from blockattach.storage import errors
from blockattach.storage.domain import records

USABLE_VOLUMES = ('available', 'in-use')
USABLE_SNAPSHOTS = ('available',)
_BACKEND = 'volume_backend_name'


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Source of a new volume: a volume, or a snapshot of a volume.

    :ivar volume_id: id of the source volume, or of the volume of the snapshot
    :ivar snapshot_id: None if the source is a volume
    :ivar pool: ``host@backend#pool`` of the source
    """

    volume_id: str
    snapshot_id: str | None
    project_id: str
    size_gb: int
    status: str
    volume_type_id: str
    availability_zone: str
    pool: str | None

    @property
    def id(self) -> str:
        """Id of the source snapshot, or of the source volume."""
        return self.snapshot_id or self.volume_id

    @property
    def host(self) -> str | None:
        """``host@backend`` of the source; None if the source has no pool.

        New volumes are created on the backend of their source.
        """
        return records.host_of(self.pool)

    @property
    def columns(self) -> dict[str, str]:
        """Columns in the row of the new volume that refer to the source."""
        if self.snapshot_id is None:
            return {'source_volid': self.volume_id}
        return {'snapshot_id': self.snapshot_id}


def of_volume(volume: records.Volume) -> Source:
    """Return the source that represents a volume."""
    return Source(volume.id, None, volume.project_id, volume.size_gb, volume.status,
                  volume.volume_type_id, volume.availability_zone, volume.pool)


def check(source: Source, size_gb: int) -> None:
    """Check that a volume of ``size_gb`` GiB can be created from the source now.

    :raises InvalidVolume: if the status of the source volume does not allow the creation
    :raises InvalidSnapshot: if the status of the snapshot does not allow the creation
    :raises InvalidInput: if the volume would be smaller than the source
    """
    if source.snapshot_id is None:
        if source.status not in USABLE_VOLUMES:
            raise errors.InvalidVolume(reason=_must_be('source volume', USABLE_VOLUMES))
        if size_gb < source.size_gb:
            # Cinder's text has two blanks too.
            raise errors.InvalidInput(
                f"Invalid input received: Volume size '{size_gb}'GB cannot be smaller than "
                f'original volume size  {source.size_gb}GB. They must be >= original volume size.')
        return
    if source.status not in USABLE_SNAPSHOTS:
        raise errors.InvalidSnapshot(reason=_must_be('snapshot', USABLE_SNAPSHOTS))
    if size_gb < source.size_gb:
        raise errors.InvalidInput(
            f"Invalid input received: Volume size '{size_gb}'GB cannot be smaller than the "
            f'snapshot size {source.size_gb}GB. They must be >= original snapshot size.')


def check_type(source: Source, own: records.VolumeType, kind: records.VolumeType,
               backends: int) -> None:
    """Check that the type of a new volume is compatible with the type of its source.

    The volume is created on the backend of the source, so both types must be for the same backend
    and have the same encryption. The rule is `_retype_is_possible` of ``cinder.volume.api``.

    :param own: type of the source
    :param kind: type of the new volume
    :param backends: number of backends in the deployment; a single backend serves all types
    :raises InvalidInput: if the types are not compatible
    """
    if kind.id == own.id:
        return
    name = own.extra_specs.get(_BACKEND)
    same_backend = backends == 1 or (name and name == kind.extra_specs.get(_BACKEND))
    if same_backend and _cipher(own) == _cipher(kind):
        return
    advice = 'either match source volume, or omit type argument' \
        if source.snapshot_id is None else 'recommend omitting the type argument'
    raise errors.InvalidInput(
        f'Invalid input received: Invalid volume_type provided: {kind.id} (requested type is not '
        f'compatible; {advice}).')


def check_zone(source: Source, zone: str) -> None:
    """Check that the availability zone of a new volume is that of its source.

    :raises InvalidInput: if the zones differ
    """
    if zone != source.availability_zone:
        noun = 'source volume' if source.snapshot_id is None else 'snapshot'
        raise errors.InvalidInput(f'Invalid input received: Volume must be in the same '
                                  f'availability zone as the {noun}')


def _must_be(noun: str, allowed: tuple[str, ...]) -> str:
    return f"Originating {noun} status must be one of '{', '.join(allowed)}' values"


def _cipher(kind: records.VolumeType) -> tuple[object, ...] | None:
    """Return the encryption parameters of a volume type, or None without encryption."""
    found = kind.encryption
    return None if found is None else (
        found.provider, found.control_location, found.cipher, found.key_size)
