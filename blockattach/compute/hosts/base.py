"""Interface of a host driver, which runs servers and connects their volumes.

Every method is idempotent. A repeated call completes an interrupted call. A driver can recover all
state that it keeps in memory, because an agent may restart at any time while its servers keep
running. The table lists the errors that methods raise.

==========================================  =======================================================
condition                                   raise
==========================================  =======================================================
nothing has changed on the host             `errors.HostRefused`
the guest does not release a disk in time   `errors.DeviceBusy`; the disk stays attached
any other failure                           any other exception. The change may have happened, so
                                            the caller repeats the call or calls the inverse
                                            method. After a programming error
                                            (`errors.is_defect`), the call is not repeated, and the
                                            server action ends
==========================================  =======================================================

`blockattach.conformance.hosts` tests an implementation.
"""
import abc
import dataclasses
import enum
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.storage.domain import connection


class Power(enum.StrEnum):
    """Power state of a server's guest."""

    RUNNING = 'running'
    STOPPED = 'stopped'


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """Volume attached to a server.

    :ivar device: device name that clients see, such as ``/dev/vdb``
    :ivar shared: True if other servers may have the volume attached too
    :ivar info: connection information of the attachment, which contains a password and is
        therefore omitted from the repr
    """

    volume_id: str
    device: str
    mode: connection.AccessMode
    shared: bool
    info: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """Definition of a server for its host.

    ``disks`` starts with the root disk. The other disks follow in the order of their device names.
    """

    server_id: str
    name: str
    vcpus: int
    memory_mb: int
    disks: Sequence[Disk]


class Host(abc.ABC):
    """Interface of a host driver. Servers are identified by their ids."""

    @abc.abstractmethod
    def check(self) -> None:
        """Check that the host can run servers.

        :raises ConfigurationError: a requirement is missing; the error text names the requirement
        """

    @abc.abstractmethod
    def connector(self, server_id: str) -> dict[str, Any]:
        """Return the connector properties of this host for a server.

        The result has ``host``, ``initiator`` and the other properties that os-brick would
        report. If each server logs in to targets on its own, each server has its own initiator
        name.
        """

    @abc.abstractmethod
    def spawn(self, guest: Guest) -> None:
        """Create and start the server with its disks. A guest that is running keeps running.

        :raises HostRefused: the server was not created, and nothing of it remains
        """

    @abc.abstractmethod
    def define(self, guest: Guest) -> None:
        """Create the server in the stopped state. `start` starts its guest.

        :raises HostRefused: the server was not created, and nothing of it remains
        """

    @abc.abstractmethod
    def stop(self, server_id: str) -> None:
        """Stop the guest of the server. The disks remain attached to the server."""

    @abc.abstractmethod
    def start(self, guest: Guest) -> None:
        """Start the guest of the server with the given disks."""

    @abc.abstractmethod
    def reboot(self, guest: Guest) -> None:
        """Stop the guest of the server and start it with the given disks."""

    @abc.abstractmethod
    def destroy(self, server_id: str) -> None:
        """Stop and delete the server, and disconnect its disks. A missing server is not an error.
        """

    @abc.abstractmethod
    def plug(self, server_id: str, disk: Disk) -> None:
        """Connect a disk and attach it to the guest, which may be running.

        :raises HostRefused: the disk was not attached, and the server is unchanged
        """

    @abc.abstractmethod
    def unplug(self, server_id: str, volume_id: str) -> None:
        """Detach a disk from the guest, and disconnect the disk from the host.

        A missing disk is not an error.

        :raises DeviceBusy: the guest does not release the disk
        """

    @abc.abstractmethod
    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """Make the new size of a disk, in GiB, visible to the guest."""

    @abc.abstractmethod
    def swap(self, server_id: str, volume_id: str, disk: Disk) -> None:
        """Copy a disk of the server to a new disk, which gets the device name of the old disk.

        The old disk is disconnected after the copy.

        :param volume_id: volume of the old disk
        :param disk: new disk
        :raises HostRefused: the server still has the old disk, and the new disk is not connected
        """

    @abc.abstractmethod
    def servers(self) -> dict[str, Power]:
        """Return the power state of each server on this host, by server id."""

    @abc.abstractmethod
    def disks(self, server_id: str) -> dict[str, connection.AccessMode]:
        """Return the access mode of each volume attached to the guest of a server, by volume id.
        """

    @abc.abstractmethod
    def receive(self, guest: Guest) -> str:
        """Connect the disks of a server, and prepare to receive its guest from another host.

        :returns: address to pass to `send` on the other host; its format depends on the driver
        :raises HostRefused: nothing of the server remains on this host
        """

    @abc.abstractmethod
    def send(self, server_id: str, address: str) -> None:
        """Live-migrate a running server to the address that `receive` returned on another host.

        After the migration, the server runs on the other host and is destroyed on this host.

        :raises HostRefused: the server still runs on this host, and the caller must destroy it on
            the other host
        """
