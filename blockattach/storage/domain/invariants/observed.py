"""The input of all invariants, what rows and targets said at one moment; and a row of their table.

A noun adds a field of `VolumeFact`, or a fact of its own; `blockattach.storage.db.facts` reads it.
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
    """A volume's row. ``deleted`` ones are included only where something still refers to them."""

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
    """Whether a backend has ever had it complete."""
    offered: bool = False
    """Whether its project offers it to others."""
    claimed_pool: str | None = None
    claimed_gb: int | None = None
    """What its work has claimed besides, and where."""
    is_copy: bool = False
    """Whether it is being made of another one."""
    source_pool: str | None = None
    """Where that is; None: it is gone, or on its way out."""
    project_id: str | None = None

    @property
    def at_work(self) -> bool:
        """Whether it is in a state that must have work."""
        return self.own_status in _AT_WORK and not (
            self.own_status == _Own.CREATING and self.made)

    @property
    def host(self) -> str | None:
        """``host@backend``; None until a pool was chosen."""
        return records.host_of(self.pool)


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotFact:
    """A live snapshot's row. ``status_reset``: no work stands behind its status."""

    id: str
    volume_id: str
    status: str
    status_reset: bool
    pool: str | None

    @property
    def at_work(self) -> bool:
        """Whether it is in a status that must have work, its own or that of its volume."""
        return self.status in snapshots.STATED and not self.status_reset


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentFact:
    """An attachment's row. ``overdue``: seconds since its deadline in database time; None: it has
    none.
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
    """Whether a connection is stored."""
    deleted: bool
    overdue: float | None = None

    @property
    def initiators(self) -> frozenset[str]:
        """The initiators whose grants the row needs."""
        return frozenset(filter(None, (self.initiator, self.previous_initiator)))


@dataclasses.dataclass(frozen=True, slots=True)
class GrantFact:
    """A credential of one (volume, initiator). ``account``: its name at the target."""

    volume_id: str
    initiator: str
    alias: str
    account: str


@dataclasses.dataclass(frozen=True, slots=True)
class PoolFact:
    """What has been given away of a pool; ``limit_gb`` None: any amount may be."""

    name: str
    allocated_gb: int
    limit_gb: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class TargetFact:
    """One target's own list. ``host`` is the ``host@backend`` that it belongs to."""

    host: str
    exported: frozenset[str]
    grants: tuple[connection.ActualGrant, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkFact:
    """An act that is under way; of an attachment, its own row says so, and ``verb`` is its state.

    ``overdue``: seconds since its deadline in database time.
    """

    noun: str
    resource_id: str
    verb: str
    overdue: float


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The input of all invariants, as it was at one moment.

    ``busy`` are the pairs of volume and initiator that somebody works on at this moment: there the
    target is about to change.
    ``grace`` is by how many seconds something may be overdue before that is a violation.
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
        """Live attachments by volume."""
        found: dict[str, list[AttachmentFact]] = {}
        for row in self.attachments:
            if not row.deleted:
                found.setdefault(row.volume_id, []).append(row)
        return found

    def wanted(self) -> dict[tuple[str, str], connection.AccessMode]:
        """The desired grants: the widest mode of the rows by (volume, initiator)."""
        modes: dict[tuple[str, str], list[connection.AccessMode]] = {}
        for row in self.attachments:
            if not row.deleted and row.state in attachment_lifecycle.GRANTED:
                for name in row.initiators:
                    modes.setdefault((row.volume_id, name), []).append(
                        connection.AccessMode(row.mode or _RW))
        return {pair: _RW if _RW in asked else _RO for pair, asked in modes.items()}


class Severity(enum.StrEnum):
    """What a violation means for the owner of the data."""

    DATA = 'data'
    """A host may read or write without permission."""
    SERVICE = 'service'
    """A user cannot reach the own data, or work never ends."""
    ACCOUNT = 'account'
    """A count or a status is wrong, without any harm yet."""


class Found(NamedTuple):
    """What breaks an invariant: of which thing, and how."""

    volume_id: str | None
    attachment_id: str | None
    said: str


class Row(NamedTuple):
    """One invariant.

    ``settled``: it may be untrue for a moment while somebody works, so it is asked of what nobody
    works on. ``repair`` is a command, with ``{volume_id}`` and ``{attachment_id}`` to fill in.
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
    """One that was found."""

    invariant: str
    promise: str
    severity: Severity
    volume_id: str | None
    attachment_id: str | None
    said: str
    repair: str
