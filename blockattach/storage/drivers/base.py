"""Contracts of a backend, which is a store of volumes and a target that exports them.

A backend is a store and a target joined by configuration (`blockattach.storage.drivers.loading`).
Values go in and come out; a driver never sees a row, a request context or the bus, and keeps
nothing in memory that it cannot read back from the backend, because it may be started anew at any
moment.

Every method may be repeated: a second call with the same arguments finds the work done and returns
the same result. Errors are of two kinds, and the core acts on the kind alone:

==========================  ==============================  =====================================
condition                   raise                           what the caller does
==========================  ==============================  =====================================
proved: nothing happened    `errors.BackendRefused`         undoes its intent, answers a failure
no room                     `errors.BackendFull`            tries another pool
anything else, a time-out   `errors.BackendUncertain`       keeps the intent; repeats or undoes it
too                                                         when its deadline has passed
==========================  ==============================  =====================================

Any other exception counts as uncertain. `blockattach.conformance` proves an implementation.

What a driver may do beyond its contract is a capability, one small Protocol each. It is never
announced by a flag: the list is derived from the class, so that a driver cannot claim what it has
no method for.
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
from blockattach.storage.domain import reservation


@dataclasses.dataclass(frozen=True, slots=True)
class StoredVolume:
    """A volume as a store knows it. ``name`` is its name on the backend (``volume-<uuid>``)."""

    id: str
    name: str
    size_gb: int
    pool: str


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """Snapshot of a volume.

    :ivar name: ``snapshot-<uuid>``
    :ivar volume: the volume as it is now, not as it was when the snapshot was created
    """

    id: str
    name: str
    volume: StoredVolume


Copied = Callable[[int], None]
"""Called by a store that copies data itself, after each piece, with its length in bytes. It may
wait, as a limit wants, and raise to end the copy; a repeat of the verb goes on or begins anew."""
COPIED_AT_ONCE = 16 * units.MIB
"""The length of a piece; one that costs more than its bytes may be of a second's share."""


def unlimited(length: int) -> None:
    """A copy that neither waits nor ends early."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manageable:
    """Volume or snapshot in a pool, created by this service or by others.

    :ivar origin: the name of the volume that it is a snapshot of, where the store can tell
    :ivar in_use: something on this host has it open
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
    """The report of a store with one pool, with Cinder's keys."""
    return (PoolReport(settings.pool_name, {
        'pool_name': settings.pool_name,
        'total_capacity_gb': total_gb,
        'free_capacity_gb': free_gb,
        'provisioned_capacity_gb': provisioned_gb,
        'reserved_percentage': settings.reserved_percentage,
        'max_over_subscription_ratio': str(settings.max_over_subscription_ratio),
        'thin_provisioning_support': thin,
        'thick_provisioning_support': not thin,
        'total_volumes': volumes,
        'QoS_support': False,
        'location_info': location,
    }),)


def check_room(settings: backend.BackendSettings, pool: str, total_gb: float, given_gb: float,
               size_gb: float) -> None:
    """A thin pool may be given away ``max_over_subscription_ratio`` times, and no more.

    :raises BackendFull: ``size_gb`` more would be too much
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
    """Keeps the bytes of volumes in one or more pools."""

    @abc.abstractmethod
    def check(self) -> None:
        """Make sure that the store can be used, and remove unfinished data of killed processes.

        Called at the start, before any other verb. Other processes of a cluster may be at work in
        the same pool, so only data on which certainly no process works is removed. Other
        unfinished data is removed or reused when the verb is repeated, and removed when the
        volume or snapshot is deleted.

        :raises ConfigurationError: it cannot; the text says what the operator must change
        """

    @abc.abstractmethod
    def create(self, volume: StoredVolume) -> None:
        """Make a volume of ``size_gb`` that reads as zeros. A repeat keeps what is there.

        :raises BackendFull: no room; nothing is left behind
        """

    @abc.abstractmethod
    def delete(self, volume: StoredVolume) -> None:
        """Remove a volume and its bytes. One that is not there is a success.

        :raises BackendRefused: it is in use, or snapshots hang on it; they are never removed too
        """

    @abc.abstractmethod
    def extend(self, volume: StoredVolume, size_gb: int) -> None:
        """Make it larger, keeping its bytes; the new part reads as zeros. Never shrinks.

        :raises BackendFull: no room; it keeps its size
        :raises BackendRefused: it is not there, is larger already, or snapshots hang on it
        """

    @abc.abstractmethod
    def device(self, volume: StoredVolume) -> str:
        """The path under which the target finds the bytes.

        :raises BackendRefused: there is no such volume
        """

    @abc.abstractmethod
    def pools(self) -> tuple[PoolReport, ...]:
        """Each pool with what it offers, measured now.

        A pool that reports ``multiattach`` as False gets no multiattach volumes, even if the
        target supports them.
        """


class ExportTarget(abc.ABC):
    """Exports volumes to initiators, each with its own mode and credential.

    ``multiattach``: several initiators may have access to a volume at once. A target that sets
    the attribute to False refuses a second initiator of a volume, and its pools get no
    multiattach volumes. ``storage_protocol`` is a capability of its pools.
    """

    multiattach: bool = True
    storage_protocol: str = 'iSCSI'

    def check(self) -> None:  # noqa: B027, a driver may have nothing to look at
        """Make sure that the target can be used now.

        :raises ConfigurationError: it cannot; the text says what the operator must change
        """

    @abc.abstractmethod
    def export(self, export: connection.Export) -> None:
        """Export a volume, without granting access; leaves grants and sessions as they are."""

    @abc.abstractmethod
    def unexport(self, volume_id: str) -> None:
        """Remove the export: every grant and session of this volume ends, no others."""

    @abc.abstractmethod
    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        """Grant one initiator access, by name, with its credential and mode; exports the volume
        too.

        A repeat with another mode changes the mode live: sessions continue, and once this returns
        a read-only grant cannot write. It touches no other grant of the volume.

        Hosts log in with any name in ``grant.admitted``, since names are compared without case.
        """

    @abc.abstractmethod
    def revoke(self, volume_id: str, initiator: str) -> None:
        """Revoke one initiator's access: its sessions of this volume end, and it cannot log in
        again.

        Touches no other grant. A missing grant is a success. The name is compared without case.
        """

    @abc.abstractmethod
    def exports(self) -> tuple[ActualExport, ...]:
        """The actual state: each exported volume with its grants and their sessions.

        Read from the target itself, never from memory; never a credential. Volumes with another
        name prefix on that target are left out.
        """


@runtime_checkable
class Daemon(Protocol):
    """A target that runs in a process of its own, which the manager supervises."""

    def start(self) -> None:
        """Start the process, or find it running; returns when it answers.

        :raises ConfigurationError: it cannot be started; the text says why
        """

    def running(self) -> bool:
        """Return True if the target answers requests now."""

    def has_process(self) -> bool:
        """Return True if the process of the target exists, even if it does not answer."""

    def stop(self) -> None:
        """End it if this driver started it; exports and sessions end with it."""


@runtime_checkable
class HostReservations(Protocol):
    """SCSI-3 persistent reservations hold among hosts: all see one logical unit."""

    def reservations(self, volume_id: str) -> reservation.Reservations | None:
        """Holders of registrations and of the reservation; None: the volume is not exported."""


@runtime_checkable
class Unmap(Protocol):
    """A target that passes on what hosts discard (SCSI UNMAP), where the device can do it."""

    def unmaps(self, device: str) -> bool:
        """Return True if the device gives back space that a host discards.

        The call must be quick and must not leave the host.
        """


@runtime_checkable
class NativeBlocks(Protocol):
    """A target that shows hosts the block sizes of the device; others show 512 bytes always."""

    def block_sizes(self, device: str) -> connection.BlockSizes:
        """Those of this device. Quick, local."""


@runtime_checkable
class LiveResize(Protocol):
    """A target whose hosts see that a volume has become larger without a new login."""

    def resize(self, export: connection.Export) -> None:
        """Let hosts that ask for the size get that of the device from now on; I/O goes on.

        One that is not exported is a success.
        """


@runtime_checkable
class Discard(Protocol):
    """A store whose volumes give back the room that their user discards."""

    def allocated_bytes(self, volume: StoredVolume) -> int:
        """How much room the volume takes now, measured; what is discarded takes none.

        :raises BackendRefused: there is no such volume
        """


@runtime_checkable
class Disks(Protocol):
    """A store whose volumes are no devices of this machine: it gives their bytes by itself."""

    def disk(self, volume: StoredVolume, writes: bool) -> disks.Disk:
        """The bytes of a volume that is there.

        :param writes: they will be written
        :raises BackendRefused: there is no such volume
        """


@runtime_checkable
class Clone(Protocol):
    """A store that makes a volume from another one's bytes by itself."""

    def clone(self, source: StoredVolume, volume: StoredVolume,
              copied: Copied = unlimited) -> None:
        """Make ``volume`` with the bytes of ``source``; what is beyond them reads as zeros.

        If the source is larger, ``volume`` gets its first bytes, because the source may have been
        extended after the clone was accepted. A repeat keeps an existing ``volume``. Later writes
        affect only one of the two. The source may be in use.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the source does not exist
        """


@runtime_checkable
class Snapshots(Protocol):
    """A store that keeps volumes as they were at one moment."""

    def create_snapshot(self, snapshot: StoredSnapshot, copied: Copied = unlimited) -> None:
        """Keep the volume's bytes as they are now, whether it is in use or not.

        A repeat keeps what is there.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the volume is not there
        """

    def delete_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Remove a snapshot, and nothing else. One that is not there is a success.

        :raises BackendRefused: it is in use
        """


@runtime_checkable
class CloneSnapshot(Protocol):
    """A store that makes a volume from a snapshot by itself."""

    def clone_snapshot(self, snapshot: StoredSnapshot, volume: StoredVolume,
                       copied: Copied = unlimited) -> None:
        """Make ``volume`` with the bytes of the snapshot; what is beyond them reads as zeros.

        If the snapshot is larger, ``volume`` gets its first bytes, because the snapshotted volume
        may have been extended after the snapshot was requested. A repeat keeps an existing
        ``volume``.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the snapshot does not exist
        """


@runtime_checkable
class Revert(Protocol):
    """A store that reverts a volume to a snapshot."""

    def revert(self, snapshot: StoredSnapshot, copied: Copied = unlimited) -> None:
        """Give the volume the bytes of its snapshot, which stays; the volume keeps its size.

        What is beyond the snapshot's bytes reads as zeros. Interrupted, it is repeated to its end.

        :raises BackendFull: no room to do it; the volume is as it was
        :raises BackendRefused: either is not there, or the volume is in use
        """


@runtime_checkable
class Manage(Protocol):
    """A store that takes over volumes and snapshots which lie in its pool already."""

    def manageable(self) -> tuple[Manageable, ...]:
        """All that lies there, but for what is half made or deleted."""

    def manage(self, name: str, volume: StoredVolume) -> None:
        """Rename what is called ``name`` to ``volume``, keeping its bytes; it gets the volume's
        size, and what is beyond its bytes reads as zeros where the store can see to it.

        A repeat finds it done.

        :raises BackendFull: no room to make it larger; it keeps its name
        :raises BackendRefused: it is not there, is in use, larger, or no volume
        """

    def manage_snapshot(self, name: str, snapshot: StoredSnapshot) -> None:
        """Rename what is called ``name`` to ``snapshot``. A repeat finds it done.

        :raises BackendRefused: it is not there, in use, or no snapshot of that volume
        """


@runtime_checkable
class Wipe(Protocol):
    """A store that clears deleted volumes in the background, before it gives their room back."""

    def wipe(self) -> None:
        """Do a second's share of it. Called about once a second, by one thread at a time.

        What is left to wipe is found again after a restart. Logs what fails, and never raises.
        """


CAPABILITIES = {'clone': Clone, 'clone_snapshot': CloneSnapshot, 'daemon': Daemon,
                'discard': Discard, 'disks': Disks, 'host_reservations': HostReservations,
                'live_resize': LiveResize, 'manage': Manage, 'native_blocks': NativeBlocks,
                'revert': Revert, 'snapshots': Snapshots, 'unmap': Unmap, 'wipe': Wipe}


def declared(driver: object) -> frozenset[str]:
    """The names of the capabilities that a driver implements."""
    return frozenset(name for name, protocol in CAPABILITIES.items()
                     if isinstance(driver, protocol))
