"""What a kind of host must promise: it runs servers, and reaches their volumes.

Every method may be repeated: a second call with the same arguments finds the work done. A host
keeps nothing in memory that it cannot find again, because an agent may be started anew at any
moment, while its servers go on. Errors:

==========================================  =======================================================
condition                                   raise
==========================================  =======================================================
proved: nothing has changed                 `errors.HostRefused`
the guest does not release a disk in time   `errors.DeviceBusy`: the disk stays
anything else                               any other exception: it may have happened; a repeat,
                                            or what undoes it, finds out. A programming error
                                            (`errors.is_defect`) is not repeated: it ends the act
==========================================  =======================================================

`blockattach.conformance.hosts` proves an implementation.
"""
import abc
import dataclasses
import enum
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.storage.domain import connection


class Power(enum.StrEnum):
    """What a server's guest does."""

    RUNNING = 'running'
    STOPPED = 'stopped'


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """A volume as a server has it.

    :ivar device: what clients call it, as ``/dev/vdb``
    :ivar shared: other servers may have the volume too
    :ivar info: the connection information of its attachment; it has a password, and is not printed
    """

    volume_id: str
    device: str
    mode: connection.AccessMode
    shared: bool
    info: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A server as a host runs it. ``disks`` in the order of their devices, the root disk first."""

    server_id: str
    name: str
    vcpus: int
    memory_mb: int
    disks: Sequence[Disk]


class Host(abc.ABC):
    """One host; its servers are known by their ids."""

    @abc.abstractmethod
    def check(self) -> None:
        """Return if servers can run here.

        :raises ConfigurationError: something is missing, which its text names
        """

    @abc.abstractmethod
    def connector(self, server_id: str) -> dict[str, Any]:
        """What block storage is to know of this host, for a server: ``host``, ``initiator`` and
        what else os-brick would say. Where each server logs in by itself, it has an initiator of
        its own.
        """

    @abc.abstractmethod
    def spawn(self, guest: Guest) -> None:
        """Make the server and run it with its disks; one that is there already runs on.

        :raises HostRefused: nothing is left of it
        """

    @abc.abstractmethod
    def define(self, guest: Guest) -> None:
        """Make the server as one that is stopped: its guest runs once it is started.

        :raises HostRefused: nothing is left of it
        """

    @abc.abstractmethod
    def stop(self, server_id: str) -> None:
        """Stop its guest; its disks stay connected."""

    @abc.abstractmethod
    def start(self, guest: Guest) -> None:
        """Run it again, with these disks."""

    @abc.abstractmethod
    def reboot(self, guest: Guest) -> None:
        """Stop and start it, with these disks."""

    @abc.abstractmethod
    def destroy(self, server_id: str) -> None:
        """Stop it, disconnect its disks and forget it; one that is not there is no error."""

    @abc.abstractmethod
    def plug(self, server_id: str, disk: Disk) -> None:
        """Connect a disk, and give it to the guest, which may run.

        :raises HostRefused: the server is as it was
        """

    @abc.abstractmethod
    def unplug(self, server_id: str, volume_id: str) -> None:
        """Take a disk from the guest, and disconnect it; one that is not there is no error.

        :raises DeviceBusy: the guest does not release it
        """

    @abc.abstractmethod
    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """Let the guest see that a disk has become larger."""

    @abc.abstractmethod
    def swap(self, server_id: str, volume_id: str, disk: Disk) -> None:
        """Copy a disk to another one, which takes its place and its device name.

        The old one is disconnected then.

        :raises HostRefused: the server has the old one, and the new one is not connected
        """

    @abc.abstractmethod
    def servers(self) -> dict[str, Power]:
        """Those that are here, by id."""

    @abc.abstractmethod
    def disks(self, server_id: str) -> dict[str, connection.AccessMode]:
        """The volumes that a server's guest has, by id, and how it may use them."""

    @abc.abstractmethod
    def receive(self, guest: Guest) -> str:
        """Wait for a server that runs elsewhere, with its disks connected here.

        :returns: where it is to be sent; what it means is the kind's own matter
        :raises HostRefused: nothing is left of it
        """

    @abc.abstractmethod
    def send(self, server_id: str, address: str) -> None:
        """Move a server that runs here to where it is received; it runs there then, and here it is
        destroyed.

        :raises HostRefused: it runs here as before; what was to receive it is to be destroyed
        """
