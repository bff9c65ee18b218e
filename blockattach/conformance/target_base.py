"""Base class of the conformance kit for targets, and protocols of the hosts in its tests."""
import abc
import os
import secrets
import stat
import uuid
from typing import Protocol

from blockattach.conformance import report
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base

_RW = connection.AccessMode.RW


class Held(Protocol):
    """Session of an initiator, open until `close`."""

    def can_write(self, offset: int, length: int, pattern: int) -> bool:
        """Write ``length`` bytes, and return True if the write succeeds.

        :param offset: offset of the first byte
        :param length: number of bytes
        :param pattern: value of each byte
        """

    def can_read(self, offset: int, length: int, pattern: int) -> bool:
        """Return True if a read succeeds and each byte has the value ``pattern``.

        The parameters are those of `can_write`.
        """

    def close(self) -> None:
        """Log out."""


class Host(Protocol):
    """Real initiator, such as `blockattach.testing.initiator.KitInitiator`."""

    def can_log_in(self, connection: connection.Connection, initiator: str,
                   credential: connection.Credential | None) -> bool:
        """Return True if the initiator can log in with the credential.

        :param credential: None to log in without CHAP
        """

    def hold(self, connection: connection.Connection, initiator: str,
             credential: connection.Credential, read_only: bool = False) -> Held:
        """Log in, and return the open session.

        :param read_only: True to open the disk for reading only
        """


class Answer(Protocol):
    """Response of a target to a SCSI command."""

    @property
    def status(self) -> int:
        """SCSI status. The value 0 (GOOD) means success."""


class Capacity(Protocol):
    """Sizes of a volume and of its blocks, as reported by READ CAPACITY (16)."""

    @property
    def blocks(self) -> int:
        """Number of logical blocks."""

    @property
    def block_size(self) -> int:
        """Size of a logical block in bytes."""

    @property
    def physical_block_size(self) -> int:
        """Size of a physical block in bytes."""


class Commands(Protocol):
    """Session of an initiator that sends any SCSI command, open until `close`."""

    def write(self, block: int, data: bytes) -> Answer:
        """Write whole blocks, starting at a block number."""

    def flush(self) -> Answer:
        """Flush written data to stable storage."""

    def unmap(self, block: int, count: int) -> Answer:
        """Discard ``count`` blocks, starting at a block number."""

    def capacity(self) -> Capacity:
        """Return the capacity and the block sizes that the target reports."""

    def register(self, key: int) -> Answer:
        """Register a key for persistent reservations."""

    def reserve(self, key: int) -> Answer:
        """Reserve the volume with a registered key, so that no other host may write."""

    def received(self, cdb: bytes, length: int, lun: int | None = None) -> bytes:
        """Return the data that the target sends for a command, whatever the status is.

        :param length: size of the receive buffer in bytes
        :param lun: number of the logical unit; None for the unit of the session
        """

    def close(self) -> None:
        """Log out."""


class Commander(Protocol):
    """Host that can send any SCSI command, such as `blockattach.testing.scsi.KitScsi`."""

    def log_in(self, connection: connection.Connection, initiator: str,
               credential: connection.Credential) -> Commands:
        """Log in, and return the open session."""


class TargetBase(report.Reported, abc.ABC):
    """Base class of target tests, with methods that create exports and grants."""

    @abc.abstractmethod
    def make(self) -> base.ExportTarget:
        """Return a driver for a running target without exports.

        A second call within a test must return another driver for the same target, as after a
        restart of the service.
        """

    def make_device(self, volume_id: str, size_gb: int) -> str:
        """Create a device for the target to export, and return its path.

        The base class only returns a path. A target that opens devices needs an override.
        """
        return f'/dev/fake/volume-{volume_id}'

    def grow_device(self, device: str, size_gb: int) -> None:
        """Extend a device to ``size_gb`` GiB.

        The base class does nothing. A target that opens devices needs an override.
        """

    def allocated_bytes(self, device: str) -> int:
        """Return the space in bytes that a device occupies now.

        A subclass must override this method if the target implements `base.Unmap` and exports
        devices that are not regular files.
        """
        found = os.stat(device)
        if not stat.S_ISREG(found.st_mode):
            self.leaves_out('the space that a volume uses', 'allocated_bytes is not implemented')
        return found.st_blocks * 512

    def host(self) -> Host | None:
        """Return a real initiator, or None if no initiator is available for the target."""
        return None

    def commander(self) -> Commander | None:
        """Return a host that can send any SCSI command, or None if no such host is available."""
        return None

    def setUp(self) -> None:
        super().setUp()
        self.target = self.make()
        self.declares(self.target)

    def an_export(self, size_gb: int = 1) -> connection.Export:
        """Return the description of the export of a new volume, with a device for it."""
        volume_id = str(uuid.uuid4())
        return connection.Export(volume_id, f'volume-{volume_id}',
                                 self.make_device(volume_id, size_gb), size_gb)

    def a_grant(self, export: connection.Export, number: int = 0,
                mode: connection.AccessMode = _RW) -> connection.Grant:
        """Return a grant of access to an exported volume for one of several initiators.

        The test is skipped if it needs a second initiator and ``multiattach`` of the target is
        False.

        :param number: number of the initiator; the grant of initiator 0 has no alias
        """
        if number and not self.target.multiattach:
            self.leaves_out('several initiators of a volume',
                            'the target does not support multiattach')
        return connection.Grant(
            export.volume_id, f'iqn.2026-01.org.example:host-{number}', mode,
            connection.Credential(f'user{secrets.token_hex(8)}', secrets.token_hex(8)),
            f'-{number:08x}' if number else '')

    def granted(self, export: connection.Export) -> dict[str, connection.AccessMode]:
        """Return the access mode of each initiator that the target reports for a volume."""
        return {grant.initiator: grant.mode for found in self.target.exports()
                if found.volume_id == export.volume_id for grant in found.grants}
