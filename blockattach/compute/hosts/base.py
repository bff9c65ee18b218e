"""Interface of a host driver, which runs servers and connects their volumes.

Every method is idempotent. A repeated call completes what an interrupted call left undone. A
driver keeps no state in memory that it cannot recover, because an agent may restart at any time
while its servers keep running. Errors:

==========================================  =======================================================
condition                                   raise
==========================================  =======================================================
certainly nothing has changed               `errors.HostRefused`
the guest does not release a disk in time   `errors.DeviceBusy`; the disk stays attached
any other failure                           any other exception. The change may have happened, so
                                            the caller repeats the call or calls the inverse
                                            method. A programming error (`errors.is_defect`) is
                                            not repeated and ends the act
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
    :ivar info: connection information of the attachment, omitted from the repr because it
        contains a password
    """

    volume_id: str
    device: str
    mode: connection.AccessMode
    shared: bool
    info: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """Server as a host runs it. ``disks`` are ordered by device name, the root disk first."""

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

        :raises ConfigurationError: a requirement is missing; the error text names it
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
        """Create and run the server with its disks. An existing server keeps running.

        :raises HostRefused: the server was not created, and nothing of it remains
        """

    @abc.abstractmethod
    def define(self, guest: Guest) -> None:
        """Create the server in the stopped state. Its guest runs after `start`.

        :raises HostRefused: the server was not created, and nothing of it remains
        """

    @abc.abstractmethod
    def stop(self, server_id: str) -> None:
        """Stop the guest of the server. Its disks stay connected."""

    @abc.abstractmethod
    def start(self, guest: Guest) -> None:
        """Start the guest of the server with the given disks."""

    @abc.abstractmethod
    def reboot(self, guest: Guest) -> None:
        """Stop the guest of the server and start it with the given disks."""

    @abc.abstractmethod
    def destroy(self, server_id: str) -> None:
        """Stop the server, disconnect its disks and delete it. A missing server is not an error.
        """

    @abc.abstractmethod
    def plug(self, server_id: str, disk: Disk) -> None:
        """Connect a disk and attach it to the guest, which may be running.

        :raises HostRefused: the disk was not attached, and the server is unchanged
        """

    @abc.abstractmethod
    def unplug(self, server_id: str, volume_id: str) -> None:
        """Detach a disk from the guest and disconnect it. A missing disk is not an error.

        :raises DeviceBusy: the guest does not release the disk
        """

    @abc.abstractmethod
    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """Make the new size of a disk, in GiB, visible to the guest."""

    @abc.abstractmethod
    def swap(self, server_id: str, volume_id: str, disk: Disk) -> None:
        """Replace a disk with a copy on another disk, under the same device name.

        The old disk is disconnected after the copy.

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
        """Prepare to receive a running server from another host, with its disks connected here.

        :returns: address to pass to `send` on the other host; its format depends on the driver
        :raises HostRefused: nothing of the server remains on this host
        """

    @abc.abstractmethod
    def send(self, server_id: str, address: str) -> None:
        """Live-migrate a running server to the address returned by `receive`.

        After the migration the server runs on the other host and is destroyed on this host.

        :raises HostRefused: the server still runs here, and the caller must destroy the
            receiving one
        """
