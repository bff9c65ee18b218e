"""What a way to volumes must promise: a volume becomes a block device of this host.

Every method may be repeated, and finds what an earlier agent has left. What is kept in files has
no secrets.
"""
import abc
import hashlib
import os
from typing import Any

from blockattach.compute.hosts import base


class Connector(abc.ABC):
    """Connects volumes for servers, which it knows by their ids."""

    @abc.abstractmethod
    def check(self) -> None:
        """Return if volumes can be connected.

        :raises ConfigurationError: something is missing, which its text names
        """

    @abc.abstractmethod
    def properties(self, server_id: str) -> dict[str, Any]:
        """What block storage is to know, for this server: its ``initiator`` at least."""

    @abc.abstractmethod
    def connect(self, server_id: str, disk: base.Disk) -> str:
        """Log in; the path of the device. What an earlier one has left is repaired or replaced.

        :raises HostRefused: nothing is left of it
        :raises DeviceBusy: what is broken is still in use
        """

    @abc.abstractmethod
    def path(self, server_id: str, volume_id: str) -> str | None:
        """The device of a volume that is connected as a whole; None: it is not."""

    @abc.abstractmethod
    def disconnect(self, server_id: str, volume_id: str) -> None:
        """Flush, and leave nothing of it; one that is not connected is no error.

        :raises DeviceBusy: something on this host uses the device, which stays
        """

    @abc.abstractmethod
    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """Let the volume have a device of its new size; its path may be another one.

        :raises HostRefused: the storage does not show it; the size is as it was
        :raises DeviceBusy: something on this host uses the device, which cannot grow meanwhile
        """


def folder(state_dir: str, server_id: str, volume_id: str) -> str:
    """Where a connection has its files: a short name, since a socket's path must be short."""
    digest = hashlib.sha256(f'{server_id}/{volume_id}'.encode()).hexdigest()
    return os.path.join(state_dir, digest[:16])
