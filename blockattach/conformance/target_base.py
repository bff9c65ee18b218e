"""What the parts of the kit for targets share: making exports and grants, and looking at them."""
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
    """A session that stays logged in."""

    def can_write(self, offset: int, length: int, pattern: int) -> bool:
        """Whether a write goes through."""

    def can_read(self, offset: int, length: int, pattern: int) -> bool:
        """Whether this pattern is read there."""

    def close(self) -> None:
        """Log out."""


class Host(Protocol):
    """A real initiator; `blockattach.testing.initiator.KitInitiator` is one."""

    def can_log_in(self, connection: connection.Connection, initiator: str,
                   credential: connection.Credential | None) -> bool:
        """Whether this name with this credential gets in."""

    def hold(self, connection: connection.Connection, initiator: str,
             credential: connection.Credential, read_only: bool = False) -> Held:
        """Log in and stay."""


class Answer(Protocol):
    """A target's status of a command: 0 is good, anything else is not."""

    @property
    def status(self) -> int:
        """The SCSI status."""


class Capacity(Protocol):
    """What a target says of the size of a volume, and of its blocks."""

    @property
    def blocks(self) -> int:
        """How many there are."""

    @property
    def block_size(self) -> int:
        """Bytes of a logical block."""

    @property
    def physical_block_size(self) -> int:
        """Bytes of a physical block."""


class Commands(Protocol):
    """A session over which commands go as they are."""

    def write(self, block: int, data: bytes) -> Answer:
        """Write whole blocks."""

    def flush(self) -> Answer:
        """Make what was written durable."""

    def unmap(self, block: int, count: int) -> Answer:
        """Discard blocks."""

    def capacity(self) -> Capacity:
        """Ask for the size."""

    def register(self, key: int) -> Answer:
        """Register with a key for persistent reservations."""

    def reserve(self, key: int) -> Answer:
        """Reserve the volume: no other host may write."""

    def received(self, cdb: bytes, length: int, lun: int | None = None) -> bytes:
        """The bytes that come back for a command, whatever its status is."""

    def close(self) -> None:
        """Log out."""


class Commander(Protocol):
    """A host that sends commands of its own; `blockattach.testing.scsi.KitScsi` is one."""

    def log_in(self, connection: connection.Connection, initiator: str,
               credential: connection.Credential) -> Commands:
        """Log in and stay."""


class TargetBase(report.Reported, abc.ABC):
    """What the parts of the kit share: making exports and grants, and looking at them."""

    @abc.abstractmethod
    def make(self) -> base.ExportTarget:
        """A target that serves and offers nothing; also called to play a restart of the service.

        Called again within one test, it gives a driver on that backend.
        """

    def make_device(self, volume_id: str, size_gb: int) -> str:
        """Bytes for the target to offer."""
        return f'/dev/fake/volume-{volume_id}'

    def grow_device(self, device: str, size_gb: int) -> None:
        """Make them more."""

    def allocated_bytes(self, device: str) -> int:
        """How much room the bytes take now, where a target can offer what gives room back."""
        found = os.stat(device)
        if not stat.S_ISREG(found.st_mode):
            self.leaves_out('the space that a volume uses', 'allocated_bytes is not implemented')
        return found.st_blocks * 512

    def host(self) -> Host | None:
        """A real initiator, if there is one for this target."""
        return None

    def commander(self) -> Commander | None:
        """A host that sends SCSI commands of its own making, if there is one."""
        return None

    def setUp(self) -> None:
        super().setUp()
        self.target = self.make()
        self.declares(self.target)

    def an_export(self, size_gb: int = 1) -> connection.Export:
        """A volume to offer."""
        volume_id = str(uuid.uuid4())
        return connection.Export(volume_id, f'volume-{volume_id}',
                                 self.make_device(volume_id, size_gb), size_gb)

    def a_grant(self, export: connection.Export, number: int = 0,
                mode: connection.AccessMode = _RW) -> connection.Grant:
        """Return the n-th initiator of a volume; the first one has no alias.

        The behaviour is left out if it needs a second initiator and the target cannot share
        volumes.
        """
        if number and not self.target.multiattach:
            self.leaves_out('several initiators of a volume',
                            'the target does not support multiattach')
        return connection.Grant(
            export.volume_id, f'iqn.2026-01.org.example:host-{number}', mode,
            connection.Credential(f'user{secrets.token_hex(8)}', secrets.token_hex(8)),
            f'-{number:08x}' if number else '')

    def granted(self, export: connection.Export) -> dict[str, connection.AccessMode]:
        """The actual grants of a volume."""
        return {grant.initiator: grant.mode for found in self.target.exports()
                if found.volume_id == export.volume_id for grant in found.grants}
