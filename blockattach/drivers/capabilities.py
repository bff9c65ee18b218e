"""What a driver may do beyond its contract: one small Protocol each. Declared is implemented.

A capability is never announced by a flag: the list is derived from the class, so that a driver
cannot claim what it has no method for.
"""
from typing import Protocol
from typing import runtime_checkable

from blockattach.domain import connection
from blockattach.domain import reservation
from blockattach.drivers import base


@runtime_checkable
class Daemon(Protocol):
    """A target that runs in a process of its own, which the manager supervises."""

    def start(self) -> None:
        """Start the process, or find it running; returns when it answers.

        :raises ConfigurationError: it cannot be started; the text says why
        """

    def running(self) -> bool:
        """Whether it answers now."""

    def has_process(self) -> bool:
        """Whether there is a process at all; one that hangs exists and does not answer."""

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
        """Whether the room that a host discards on this device is given back. Quick, local."""


@runtime_checkable
class NativeBlocks(Protocol):
    """A target that shows hosts the block sizes of the device; others show 512 bytes always."""

    def block_sizes(self, device: str) -> connection.BlockSizes:
        """Those of this device. Quick, local."""


@runtime_checkable
class Discard(Protocol):
    """A store whose volumes give back the room that their user discards."""

    def allocated_bytes(self, volume: base.StoredVolume) -> int:
        """How much room the volume takes now, measured; what is discarded takes none.

        :raises BackendRefused: there is no such volume
        """


@runtime_checkable
class Clone(Protocol):
    """A store that makes a volume from another one's bytes by itself."""

    def clone(self, source: base.StoredVolume, volume: base.StoredVolume) -> None:
        """Make ``volume`` with the bytes of ``source``; what is beyond them reads as zeros.

        A repeat keeps what is there. The two share no later write.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the source is not there, or larger
        """


@runtime_checkable
class Snapshots(Protocol):
    """A store that keeps volumes as they were at one moment."""

    def create_snapshot(self, snapshot: base.StoredSnapshot) -> None:
        """Keep the volume's bytes as they are now, whether it is in use or not.

        A repeat keeps what is there.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the volume is not there
        """

    def delete_snapshot(self, snapshot: base.StoredSnapshot) -> None:
        """Remove a snapshot, and nothing else. One that is not there is a success.

        :raises BackendRefused: it is in use
        """


@runtime_checkable
class CloneSnapshot(Protocol):
    """A store that makes a volume from a snapshot by itself."""

    def clone_snapshot(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume) -> None:
        """Make ``volume`` with the bytes of the snapshot; what is beyond them reads as zeros.

        A repeat keeps what is there.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the snapshot is not there, or larger
        """


@runtime_checkable
class Revert(Protocol):
    """A store that reverts a volume to a snapshot."""

    def revert(self, snapshot: base.StoredSnapshot) -> None:
        """Give the volume the bytes of its snapshot, which stays; the volume keeps its size.

        What is beyond the snapshot's bytes reads as zeros. Interrupted, it is repeated to its end.

        :raises BackendFull: no room to do it; the volume is as it was
        :raises BackendRefused: either is not there, or the volume is in use
        """


@runtime_checkable
class Wipe(Protocol):
    """A store that clears deleted volumes in the background, before it gives their room back."""

    def wipe(self) -> None:
        """Do a second's share of it. Called about once a second, by one thread at a time.

        What is left to wipe is found again after a restart. Logs what fails, and never raises.
        """


CAPABILITIES = {'clone': Clone, 'clone_snapshot': CloneSnapshot, 'daemon': Daemon,
                'discard': Discard, 'host_reservations': HostReservations,
                'native_blocks': NativeBlocks, 'revert': Revert, 'snapshots': Snapshots,
                'unmap': Unmap, 'wipe': Wipe}


def declared(driver: object) -> frozenset[str]:
    """The names of the capabilities that a driver implements."""
    return frozenset(name for name, protocol in CAPABILITIES.items()
                     if isinstance(driver, protocol))
