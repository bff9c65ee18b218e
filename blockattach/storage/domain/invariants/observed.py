"""Input and output of the invariants: facts read from rows and targets, and violations.

`blockattach.storage.db.facts` reads the facts from the rows. For a new kind of resource, add
fields to `VolumeFact`, or a class to this module.
"""
import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Iterable
from typing import NamedTuple

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots
from blockattach.storage.domain import volume_lifecycle

_Own = volume_lifecycle.OwnStatus
_RO = connection.AccessMode.RO
_RW = connection.AccessMode.RW
# Own statuses with a work record. A downloading volume may have none (`work._MAY_BE_AT_WORK`).
_AT_WORK = frozenset({_Own.CREATING, _Own.DELETING, _Own.EXTENDING, _Own.REVERTING,
                      _Own.UPLOADING, _Own.MIGRATING, _Own.MIGRATING_LOCKED, _Own.RETYPING,
                      _Own.MANAGING, _Own.UNMANAGING})

RECONCILE = 'blockattach-manage reconcile'
DERIVE = 'blockattach-manage attachments derive {volume_id}'
COUNT = 'blockattach-manage attachments derive --counts'
END = 'openstack volume attachment delete {attachment_id}'
RESET = 'openstack volume set --state available {volume_id}'
ASK = 'blockattach-manage attachments check --volume-id {volume_id} --format json'


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeFact:
    """Row of a volume."""

    id: str
    own_status: str
    lowest_rank: int | None
    status: str
    attach_status: str
    multiattach: bool
    single_writer: bool
    detach_announced: int
    size_gb: int
    pool: str | None
    deleted: bool
    made: bool = False
    """True if a backend has ever created the volume completely."""
    offered: bool = False
    """True while the volume is offered to another project."""
    claimed_pool: str | None = None
    claimed_gb: int | None = None
    """Space in GiB that an operation in progress has claimed on ``claimed_pool``."""
    is_copy: bool = False
    """True if the volume is being created from a source."""
    source_pool: str | None = None
    """Pool of the source; None without a source, or if the source is deleted or being deleted."""
    project_id: str | None = None

    @property
    def at_work(self) -> bool:
        """True if the own status of the volume requires a work record."""
        # An administrator may reset a volume that exists on its backend to creating.
        return self.own_status in _AT_WORK and not (
            self.own_status == _Own.CREATING and self.made)

    @property
    def host(self) -> str | None:
        """``host@backend`` of the volume; None until the volume is scheduled."""
        return records.host_of(self.pool)


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotFact:
    """Row of a live snapshot.

    :ivar status_reset: True if a request has set the status, so that no work record exists for
        the status
    """

    id: str
    volume_id: str
    status: str
    status_reset: bool
    pool: str | None

    @property
    def at_work(self) -> bool:
        """True if the status requires a work record for the snapshot or for its volume."""
        return self.status in snapshots.STATED and not self.status_reset


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentFact:
    """Row of an attachment.

    :ivar overdue: seconds since the deadline in database time; None without a deadline
    """

    id: str
    volume_id: str
    project_id: str
    instance_uuid: str | None
    state: str
    legacy_reservation: bool
    rank: int | None
    slot: int | None
    mode: str | None
    initiator: str | None
    previous_initiator: str | None
    connected: bool
    """True if a connection is stored."""
    deleted: bool
    overdue: float | None = None

    @property
    def initiators(self) -> frozenset[str]:
        """Initiators whose grants the attachment needs."""
        return frozenset(filter(None, (self.initiator, self.previous_initiator)))


@dataclasses.dataclass(frozen=True, slots=True)
class GrantFact:
    """Stored credential of one (volume, initiator) pair. ``account`` is the CHAP user name."""

    volume_id: str
    initiator: str
    alias: str
    account: str


@dataclasses.dataclass(frozen=True, slots=True)
class PoolFact:
    """Allocation of a pool in GiB. ``limit_gb`` is None for a pool without limit."""

    name: str
    allocated_gb: int
    limit_gb: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class TargetFact:
    """Exports and grants listed by one target. ``host`` is the ``host@backend`` of the target."""

    host: str
    exported: frozenset[str]
    grants: tuple[connection.ActualGrant, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkFact:
    """Operation in progress.

    :ivar verb: name of the operation, or the state of an attachment that is being connected or
        disconnected
    :ivar overdue: seconds since the deadline in database time
    """

    noun: str
    resource_id: str
    verb: str
    overdue: float


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Input of all invariants. The targets are queried just before the rows are read.

    :ivar busy: (volume, initiator) pairs whose grants at the target are being changed now
    :ivar grace: seconds after a deadline before an overdue operation is a violation
    """

    volumes: tuple[VolumeFact, ...]
    attachments: tuple[AttachmentFact, ...]
    grants: tuple[GrantFact, ...] = ()
    pools: tuple[PoolFact, ...] = ()
    targets: tuple[TargetFact, ...] = ()
    busy: frozenset[tuple[str, str]] = frozenset()
    work: tuple[WorkFact, ...] = ()
    snapshots: tuple[SnapshotFact, ...] = ()
    grace: float = 10.0

    def live(self) -> dict[str, list[AttachmentFact]]:
        """Return the live attachments by volume id."""
        found: dict[str, list[AttachmentFact]] = {}
        for row in self.attachments:
            if not row.deleted:
                found.setdefault(row.volume_id, []).append(row)
        return found

    def wanted(self) -> dict[tuple[str, str], connection.AccessMode]:
        """Return the desired access mode by (volume, initiator) pair.

        The mode is the widest one of the attachments that need a grant for the pair.
        """
        modes: dict[tuple[str, str], list[connection.AccessMode]] = {}
        for row in self.attachments:
            if not row.deleted and row.state in attachment_lifecycle.GRANTED:
                for name in row.initiators:
                    modes.setdefault((row.volume_id, name), []).append(
                        connection.AccessMode(row.mode or _RW))
        return {pair: _RW if _RW in asked else _RO for pair, asked in modes.items()}


class Severity(enum.StrEnum):
    """Effect of a violation on users."""

    DATA = 'data'
    """A host may read or write without permission."""
    SERVICE = 'service'
    """A user cannot access their data, or an operation never ends."""
    ACCOUNT = 'account'
    """A count or a status is wrong, but no user is affected yet."""


class Found(NamedTuple):
    """Violation found by an invariant.

    :ivar said: description, with the volume or the attachment as its subject
    """

    volume_id: str | None
    attachment_id: str | None
    said: str


class Row(NamedTuple):
    """Invariant with the function that finds its violations.

    :ivar promise: promise to users that the invariant checks, ``P2`` to ``P9``
        (doc/source/contributor/robustness.rst)
    :ivar meaning: the invariant as a sentence for operators
    :ivar settled: True if the invariant may be violated for a moment during an operation. The
        invariant is then checked only while no operation is in progress
    :ivar repair: command that repairs a violation, formatted with ``{volume_id}`` and
        ``{attachment_id}``
    """

    name: str
    promise: str
    meaning: str
    severity: Severity
    settled: bool
    repair: str
    judge: Callable[[Facts], Iterable[Found]]


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Violation of an invariant, with the command that repairs the violation."""

    invariant: str
    promise: str
    severity: Severity
    volume_id: str | None
    attachment_id: str | None
    said: str
    repair: str
