"""Contracts of a backend, which is a store of volumes and a target that exports them.

A backend is a store and a target joined by configuration (`blockattach.storage.drivers.loading`).
Drivers receive and return plain values. A driver never sees a database row, a request context or
the message bus. A driver keeps no state in memory that it cannot read back from the backend,
because its process may be restarted at any moment.

Every method may be repeated. A second call with the same arguments completes an interrupted first
call, or changes nothing, and returns the same result. Before a call, the caller writes the planned
change to the database as an *intent*. The caller reacts to the class of an error:

==========================  ==============================  =====================================
condition                   raise                           reaction of the caller
==========================  ==============================  =====================================
certainly nothing happened  `errors.BackendRefused`         undoes the intent; reports a failure
no space                    `errors.BackendFull`            tries another pool
anything else, or timeout   `errors.BackendUncertain`       keeps the intent; repeats or undoes
                                                            it after its deadline
==========================  ==============================  =====================================

Any other exception counts as uncertain. The tests of `blockattach.conformance` check an
implementation.

Each optional feature of a driver is a capability, declared by a small Protocol. Capabilities are
derived from the methods of the class and never announced by a flag. A driver therefore cannot
report a capability that it does not implement.
"""
import abc
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Protocol
from typing import runtime_checkable

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.domain import connection


@dataclasses.dataclass(frozen=True, slots=True)
class StoredVolume:
    """Volume in a store.

    :ivar name: name of the volume on the backend, ``volume-<uuid>``
    :ivar size_gb: size in GiB
    :ivar pool: name of the pool within the backend
    """

    id: str
    name: str
    size_gb: int
    pool: str


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """Snapshot of a volume.

    :ivar name: name of the snapshot, ``snapshot-<uuid>``
    :ivar volume: snapshotted volume, with its present size
    """

    id: str
    name: str
    volume: StoredVolume


Copied = Callable[[int], None]
"""Callback that a store calls after each chunk that it copies itself.

The argument is the length of the chunk in bytes. The callback may wait to enforce a rate limit, or
raise an exception to end the copy. A repeated call of the method resumes or restarts the copy.
"""
COPIED_AT_ONCE = 16 * units.MIB
"""Length of a chunk in bytes. A store for which each chunk has a fixed cost may copy as many bytes
at once as the rate limit allows in one second."""


def unlimited(length: int) -> None:
    """Impose no rate limit on a copy, and never end the copy (default `Copied` callback)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manageable:
    """Volume or snapshot in a pool, created by this service or by another program.

    :ivar origin: for a snapshot, name of the snapshotted volume; None if unknown
    :ivar in_use: True if a process of this host has the volume or snapshot open
    """

    name: str
    size_bytes: int
    is_snapshot: bool = False
    origin: str | None = None
    in_use: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PoolReport:
    """Capabilities reported by a pool. Keys and units are those of Cinder's pool statistics."""

    name: str
    capabilities: Mapping[str, Any]


def only_pool(settings: backend.BackendSettings, total_gb: float, free_gb: float,
              provisioned_gb: float, volumes: int, location: str,
              thin: bool = True) -> tuple[PoolReport, ...]:
    """Return the report of a store with one pool, with the keys of Cinder's pool statistics.

    :param total_gb: capacity of the pool in GiB
    :param free_gb: free capacity of the pool in GiB
    :param provisioned_gb: total size of the volumes and snapshots in the pool, in GiB
    :param volumes: number of volumes in the pool
    :param location: value of the key ``location_info``
    :param thin: True for a thinly provisioned pool, False for a thickly provisioned one
    """
    return (PoolReport(settings.pool_name, {
        'pool_name': settings.pool_name,
        'total_capacity_gb': total_gb,
        'free_capacity_gb': free_gb,
        'provisioned_capacity_gb': provisioned_gb,
        'reserved_percentage': settings.reserved_percentage,
        # A string, as in Cinder.
        'max_over_subscription_ratio': str(settings.max_over_subscription_ratio),
        'thin_provisioning_support': thin,
        'thick_provisioning_support': not thin,
        'total_volumes': volumes,
        'QoS_support': False,
        'location_info': location,
    }),)


def check_room(settings: backend.BackendSettings, pool: str, total_gb: float, given_gb: float,
               size_gb: float) -> None:
    """Check that a thin pool stays within its over-subscription ratio.

    The limit of the total size of all volumes is the capacity of the pool, less the reserved
    percentage, times ``max_over_subscription_ratio``.

    :param pool: description of the pool for the error text
    :param total_gb: capacity of the pool in GiB
    :param given_gb: total size of the existing volumes in GiB
    :param size_gb: size in GiB that is to be added
    :raises BackendFull: if the additional size would exceed the limit
    """
    limit = total_gb * (1 - settings.reserved_percentage / 100)
    limit *= settings.max_over_subscription_ratio
    if given_gb + size_gb > limit:
        raise errors.BackendFull(
            size_gb=f'{size_gb:.12g}',
            reason=f'{pool} has allocated {given_gb:.0f} of {limit:.0f} GiB')


@dataclasses.dataclass(frozen=True, slots=True)
class ActualExport:
    """Export of a volume that exists at the target, with its grants."""

    volume_id: str
    grants: tuple[connection.ActualGrant, ...]


class VolumeStore(abc.ABC):
    """Driver that stores the data of volumes in one or more pools."""

    @abc.abstractmethod
    def check(self) -> None:
        """Check that the store is usable, and delete the unfinished data of killed processes.

        Called when the process starts, before any other method. Other processes of a cluster may
        use the same pool, so only data that certainly no process uses is deleted. Other unfinished
        data is deleted or reused when its method is repeated, or deleted with its volume.

        :raises ConfigurationError: if the store is unusable; the text says what must be changed
        """

    @abc.abstractmethod
    def create(self, volume: StoredVolume) -> None:
        """Create a volume of ``volume.size_gb`` GiB that reads as zeros.

        An existing volume is left as it is.

        :raises BackendFull: if the pool has too little space; nothing is left behind
        """

    @abc.abstractmethod
    def delete(self, volume: StoredVolume) -> None:
        """Delete a volume and its data.

        Succeeds if the volume does not exist. Never deletes snapshots of the volume.

        :raises BackendRefused: if the volume is in use, or snapshots depend on it
        """

    @abc.abstractmethod
    def extend(self, volume: StoredVolume, size_gb: int) -> None:
        """Extend a volume and keep its data.

        The added part reads as zeros. The method never shrinks a volume.

        :param size_gb: new size in GiB
        :raises BackendFull: if the pool has too little space; the volume keeps its size
        :raises BackendRefused: if the volume is absent or larger, or snapshots prevent the extend
        """

    @abc.abstractmethod
    def device(self, volume: StoredVolume) -> str:
        """Return the path of the file or block device that the target exports.

        :raises BackendRefused: if the volume does not exist
        """

    @abc.abstractmethod
    def pools(self) -> tuple[PoolReport, ...]:
        """Return a report of each pool, with its present capacities.

        A pool that reports ``multiattach`` as False gets no multiattach volumes, even if the
        target supports them.
        """


class ExportTarget(abc.ABC):
    """Driver that exports volumes to initiators, each with its own mode and credential.

    :cvar multiattach: True if several initiators may have access to a volume at once. A target
        that sets False refuses a second initiator of a volume, and its pools get no multiattach
        volumes.
    :cvar storage_protocol: capability ``storage_protocol`` of the pools
    """

    multiattach: bool = True
    storage_protocol: str = 'iSCSI'

    def check(self) -> None:  # noqa: B027, a driver may have nothing to check
        """Check that the target is usable now.

        :raises ConfigurationError: if the target is unusable; the text says what must be changed
        """

    @abc.abstractmethod
    def export(self, export: connection.Export) -> None:
        """Export a volume without granting access to it.

        Existing grants and sessions of the volume remain.
        """

    @abc.abstractmethod
    def unexport(self, volume_id: str) -> None:
        """Remove the export of a volume, with all its grants and sessions.

        Succeeds if the volume is not exported. Other volumes are not affected.
        """

    @abc.abstractmethod
    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        """Grant an initiator access to a volume, and export the volume if it is not exported yet.

        A repeated call with another mode changes the mode while sessions continue. When the call
        returns, hosts with a read-only grant can no longer write. Other grants of the volume are
        not affected.

        Hosts may log in with any name in ``grant.admitted``, because names of initiators are
        case-insensitive.

        :returns: address of the volume for this initiator, without the credential
        """

    @abc.abstractmethod
    def revoke(self, volume_id: str, initiator: str) -> None:
        """Revoke the access of an initiator to a volume, and end its sessions of this volume.

        The initiator cannot log in to the volume again. Other grants are not affected. Succeeds if
        the grant does not exist. The name of the initiator is case-insensitive.
        """

    @abc.abstractmethod
    def exports(self) -> tuple[ActualExport, ...]:
        """Return each exported volume with its grants and their sessions.

        The state is read from the target itself, never from memory. It contains no secret.
        Targets whose name does not begin with ``target_prefix`` of the backend are omitted.
        """


@runtime_checkable
class Daemon(Protocol):
    """Target that runs in a process of its own, supervised by the volume manager."""

    def start(self) -> None:
        """Start the process unless it is running, and wait until it answers requests.

        :raises ConfigurationError: if the process cannot be started; the text says why
        """

    def running(self) -> bool:
        """Return True if the target answers requests now."""

    def has_process(self) -> bool:
        """Return True if the process of the target exists, even if it does not answer."""

    def stop(self) -> None:
        """Stop the process with its exports and sessions, unless another program started it."""


@runtime_checkable
class HostReservations(Protocol):
    """Target that enforces SCSI-3 persistent reservations between hosts.

    All hosts of a volume see the same logical unit.
    """

    def reservations(self, volume_id: str) -> connection.Reservations | None:
        """Return the registered initiators of a volume and the holders of its reservation.

        :returns: None if the volume is not exported
        """


@runtime_checkable
class Unmap(Protocol):
    """Target that passes the discards of hosts (SCSI UNMAP) to devices that support discard."""

    def unmaps(self, device: str) -> bool:
        """Return True if space that a host discards is freed on the device.

        The method must return quickly and must not use the network.
        """


@runtime_checkable
class NativeBlocks(Protocol):
    """Target that reports the block sizes of the device to hosts.

    A target without this capability always reports 512 bytes.
    """

    def block_sizes(self, device: str) -> connection.BlockSizes:
        """Return the logical and the physical block size of a device.

        The method must return quickly and must not use the network.
        """


@runtime_checkable
class LiveResize(Protocol):
    """Target whose hosts see the new size of an extended volume without a new login."""

    def resize(self, export: connection.Export) -> None:
        """Make the new device size visible to connected hosts. I/O continues.

        Hosts see the new size at their next query. Succeeds if the volume is not exported.
        """


@runtime_checkable
class Discard(Protocol):
    """Store that frees the space that hosts discard in volumes."""

    def allocated_bytes(self, volume: StoredVolume) -> int:
        """Return the space in bytes that a volume occupies now. Discarded space is not included.

        :raises BackendRefused: if the volume does not exist
        """


@runtime_checkable
class Disks(Protocol):
    """Store that gives access to the data of its volumes without a local block device."""

    def disk(self, volume: StoredVolume, writes: bool) -> disks.Disk:
        """Return an object that reads and writes the data of an existing volume.

        :param writes: True if the caller will write to the volume
        :raises BackendRefused: if the volume does not exist
        """


@runtime_checkable
class Clone(Protocol):
    """Store that clones volumes itself, so that its caller need not copy the data."""

    def clone(self, source: StoredVolume, volume: StoredVolume,
              copied: Copied = unlimited) -> None:
        """Create ``volume`` with the data of ``source``. Any space beyond this data is zero.

        If the source is larger than ``volume``, only the beginning of the source is cloned. The
        source may have been extended after the clone was accepted. An existing ``volume`` is left
        as it is. Later writes to either volume do not affect the other. The source may be in use.

        :raises BackendFull: if the pool has too little space; nothing is left behind
        :raises BackendRefused: if the source does not exist
        """


@runtime_checkable
class Snapshots(Protocol):
    """Store that creates and deletes snapshots of volumes."""

    def create_snapshot(self, snapshot: StoredSnapshot, copied: Copied = unlimited) -> None:
        """Create a snapshot of a volume, which may be in use.

        An existing snapshot is left as it is.

        :raises BackendFull: if the pool has too little space; nothing is left behind
        :raises BackendRefused: if the volume does not exist
        """

    def delete_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Delete a snapshot, and nothing else.

        Succeeds if the snapshot does not exist.

        :raises BackendRefused: if the snapshot is in use
        """


@runtime_checkable
class CloneSnapshot(Protocol):
    """Store that creates volumes from snapshots itself. Its caller need not copy the data."""

    def clone_snapshot(self, snapshot: StoredSnapshot, volume: StoredVolume,
                       copied: Copied = unlimited) -> None:
        """Create ``volume`` with the data of the snapshot. Any space beyond this data is zero.

        If the snapshotted volume was extended after the request, the snapshot may be larger, and
        only its beginning is cloned. An existing ``volume`` is left as it is.

        :raises BackendFull: if the pool has too little space; nothing is left behind
        :raises BackendRefused: if the snapshot does not exist
        """


@runtime_checkable
class Revert(Protocol):
    """Store that reverts a volume to a snapshot."""

    def revert(self, snapshot: StoredSnapshot, copied: Copied = unlimited) -> None:
        """Replace the data of a volume with the data of its snapshot.

        The volume keeps its size. Any space beyond the data of the snapshot reads as zeros. The
        snapshot remains. The caller repeats an interrupted call until the call succeeds.

        :raises BackendFull: if the pool has too little space; the volume is unchanged
        :raises BackendRefused: if the volume or snapshot does not exist, or the volume is in use
        """


@runtime_checkable
class Manage(Protocol):
    """Store that takes over existing volumes and snapshots of its pool."""

    def manageable(self) -> tuple[Manageable, ...]:
        """Return all volumes and snapshots of the pool, except unfinished and deleted ones."""

    def manage(self, name: str, volume: StoredVolume) -> None:
        """Take over the stored volume ``name`` as ``volume``.

        The stored volume is renamed to ``volume.name`` and extended to ``volume.size_gb`` GiB. Its
        data is kept. The added part reads as zeros if the store can ensure this.

        :param name: current name of the stored volume in the pool
        :raises BackendFull: if the pool has too little space; the stored volume keeps its name
        :raises BackendRefused: if the stored volume does not exist, is in use, is larger than
            ``volume.size_gb`` GiB, or is a snapshot
        """

    def manage_snapshot(self, name: str, snapshot: StoredSnapshot) -> None:
        """Take over the stored snapshot ``name`` as ``snapshot``, by renaming it.

        :param name: current name of the stored snapshot in the pool
        :raises BackendRefused: if the stored snapshot does not exist, is in use, or is a snapshot
            of a volume other than ``snapshot.volume``
        """


@runtime_checkable
class Wipe(Protocol):
    """Store that overwrites deleted volumes in the background before it frees their space."""

    def wipe(self) -> None:
        """Overwrite deleted volumes for about one second.

        Called about once a second, by one thread at a time. Volumes that remain to be wiped are
        found again after a restart. Failures are logged and never raised.
        """


CAPABILITIES = {'clone': Clone, 'clone_snapshot': CloneSnapshot, 'daemon': Daemon,
                'discard': Discard, 'disks': Disks, 'host_reservations': HostReservations,
                'live_resize': LiveResize, 'manage': Manage, 'native_blocks': NativeBlocks,
                'revert': Revert, 'snapshots': Snapshots, 'unmap': Unmap, 'wipe': Wipe}


def declared(driver: object) -> frozenset[str]:
    """Return the names of the capabilities that a driver implements."""
    return frozenset(name for name, protocol in CAPABILITIES.items()
                     if isinstance(driver, protocol))
