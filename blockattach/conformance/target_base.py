"""Base class of the parts of the conformance kit for targets, and protocols of its hosts."""
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
    """Session of a host that stays logged in."""

    def can_write(self, offset: int, length: int, pattern: int) -> bool:
        """Write a pattern.

        :param offset: in bytes
        :param length: in bytes
        :param pattern: value of each byte
        :returns: True if the write succeeds
        """

    def can_read(self, offset: int, length: int, pattern: int) -> bool:
        """Read and compare a pattern, with the parameters of `can_write`.

        :returns: True if the read succeeds and returns the pattern
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
        """Log in, and return the session, which stays logged in."""


class Answer(Protocol):
    """Answer of a target to a SCSI command."""

    @property
    def status(self) -> int:
        """SCSI status. 0 (GOOD) is success; any other status is a failure."""


class Capacity(Protocol):
    """Size of a volume and of its blocks, as a target reports them."""

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
    """Session over which a host sends SCSI commands unchanged."""

    def write(self, block: int, data: bytes) -> Answer:
        """Write whole blocks, starting at a block number."""

    def flush(self) -> Answer:
        """Flush written data to stable storage."""

    def unmap(self, block: int, count: int) -> Answer:
        """Discard ``count`` blocks, starting at a block number."""

    def capacity(self) -> Capacity:
        """Return the size that the target reports."""

    def register(self, key: int) -> Answer:
        """Register a key for persistent reservations."""

    def reserve(self, key: int) -> Answer:
        """Reserve the volume with a registered key, so that no other host may write."""

    def received(self, cdb: bytes, length: int, lun: int | None = None) -> bytes:
        """Return the data received for a command, whatever its status is.

        :param length: size in bytes of the buffer
        :param lun: logical unit; None for that of the session
        """

    def close(self) -> None:
        """Log out."""


class Commander(Protocol):
    """Host that can send any SCSI command, such as `blockattach.testing.scsi.KitScsi`."""

    def log_in(self, connection: connection.Connection, initiator: str,
               credential: connection.Credential) -> Commands:
        """Log in, and return the session, which stays logged in."""


class TargetBase(report.Reported, abc.ABC):
    """Base class of target tests, which creates exports and grants and reads the actual grants."""

    @abc.abstractmethod
    def make(self) -> base.ExportTarget:
        """Return a driver for a running target without exports.

        Called again within a test, return another driver for that target, like a restarted
        service.
        """

    def make_device(self, volume_id: str, size_gb: int) -> str:
        """Create a device for the target to export, and return its path."""
        return f'/dev/fake/volume-{volume_id}'

    def grow_device(self, device: str, size_gb: int) -> None:
        """Extend a device to ``size_gb``."""

    def allocated_bytes(self, device: str) -> int:
        """Return the number of bytes that a device occupies now.

        Override this method if the target implements `base.Unmap` and its devices are not regular
        files.
        """
        found = os.stat(device)
        if not stat.S_ISREG(found.st_mode):
            self.leaves_out('the space that a volume uses', 'allocated_bytes is not implemented')
        return found.st_blocks * 512

    def host(self) -> Host | None:
        """Return a real initiator for the target; None if there is none."""
        return None

    def commander(self) -> Commander | None:
        """Return a host that can send any SCSI command; None if there is none."""
        return None

    def setUp(self) -> None:
        super().setUp()
        self.target = self.make()
        self.declares(self.target)

    def an_export(self, size_gb: int = 1) -> connection.Export:
        """Return the description of an export of a new volume."""
        volume_id = str(uuid.uuid4())
        return connection.Export(volume_id, f'volume-{volume_id}',
                                 self.make_device(volume_id, size_gb), size_gb)

    def a_grant(self, export: connection.Export, number: int = 0,
                mode: connection.AccessMode = _RW) -> connection.Grant:
        """Return a grant for the n-th initiator of a volume. The first one (0) has no alias.

        The behaviour is skipped if it needs a second initiator and the target cannot share
        volumes, because its ``multiattach`` is False.
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
