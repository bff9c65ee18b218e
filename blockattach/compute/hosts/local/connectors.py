"""Interface of a connector, which attaches volumes as block devices of this host.

Every method is idempotent, and handles connections that remain from an earlier process of the
agent. The files of a connector contain no secrets.
"""
import abc
import hashlib
import os
from typing import Any

from blockattach.compute.hosts import base


class Connector(abc.ABC):
    """Interface of a connector, which connects volumes for servers of this host."""

    @abc.abstractmethod
    def check(self) -> None:
        """Check that the host meets the requirements of the connector.

        :raises ConfigurationError: a requirement is missing; the error text names the requirement
        """

    @abc.abstractmethod
    def properties(self, server_id: str) -> dict[str, Any]:
        """Return the connector properties for a server, at least its ``initiator``."""

    @abc.abstractmethod
    def connect(self, server_id: str, disk: base.Disk) -> str:
        """Log in to the target of a disk, and return the path of the block device.

        A broken connection of an earlier agent process is repaired or replaced.

        :raises HostRefused: the volume was not connected, and nothing of the connection remains
        :raises DeviceBusy: a broken connection is still in use
        """

    @abc.abstractmethod
    def path(self, server_id: str, volume_id: str) -> str | None:
        """Return the device path of a fully connected volume, or None."""

    @abc.abstractmethod
    def disconnect(self, server_id: str, volume_id: str) -> None:
        """Flush and disconnect the device of a volume.

        A volume that is not connected is not an error.

        :raises DeviceBusy: a process on this host uses the device, which stays connected
        """

    @abc.abstractmethod
    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """Update the size of a volume's device after an extend. The device path may change.

        :param size_gb: new size in GiB
        :raises HostRefused: the volume is not connected, or the storage does not report the new
            size and the device keeps the old size
        :raises DeviceBusy: a process on this host uses the device, so that it cannot grow
        """


def folder(state_dir: str, server_id: str, volume_id: str) -> str:
    """Return the path of the record or directory of a connection.

    The path is short enough for the address of a Unix socket in the directory.
    """
    digest = hashlib.sha256(f'{server_id}/{volume_id}'.encode()).hexdigest()
    return os.path.join(state_dir, digest[:16])
