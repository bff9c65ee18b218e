"""Snapshots: record, lifecycle, and checks of requests.

The statuses and texts of the checks are those of ``cinder.volume.api`` and
``cinder.api.contrib.snapshot_actions``.
"""
import dataclasses
import datetime
import enum
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.domain import records

WHOLE = 100
"""Progress of a complete snapshot in percent."""


class Status(enum.StrEnum):
    """Status of a snapshot."""

    CREATING = 'creating'
    """Snapshot being created; the call to the backend is pending or in progress."""
    AVAILABLE = 'available'
    """Snapshot present on its backend, without an operation in progress."""
    ERROR = 'error'
    """Snapshot that could not be created. A user message gives the reason."""
    DELETING = 'deleting'
    """Snapshot being deleted; the call to the backend is pending or in progress."""
    ERROR_DELETING = 'error_deleting'
    """Snapshot whose deletion was permanently refused by the backend."""
    GONE = 'deleted'
    """Snapshot deleted; the row is kept as history."""


class Event(enum.StrEnum):
    """Event that changes the status of a snapshot."""

    CREATED = 'created'
    CREATE_FAILED = 'create failed'
    """Failed or cancelled creation."""
    DELETE = 'delete'
    FORCE_DELETE = 'force delete'
    """Forced deletion by an administrator, regardless of the status."""
    DELETED = 'deleted'
    DELETE_FAILED = 'delete failed'
    DELETE_CANCELLED = 'delete cancelled'
    UNMANAGE = 'unmanage'
    """Removal of the snapshot from the service. Its data remains on the backend."""
    STATE = 'state'
    """Report of the status by a consumer (os-update_snapshot_status), as `STATED` allows."""
    RESET = 'reset'
    """Reset of the status by an administrator."""


class Move(NamedTuple):
    """Allowed transition of a snapshot.

    :ivar target: status after the event; None if the caller of `next_status` chooses the status
    """

    source: Status
    event: Event
    target: Status | None


_LIVE = tuple(status for status in Status if status is not Status.GONE)

TRANSITIONS = (
    Move(Status.CREATING, Event.CREATED, Status.AVAILABLE),
    Move(Status.CREATING, Event.CREATE_FAILED, Status.ERROR),
    Move(Status.AVAILABLE, Event.DELETE, Status.DELETING),
    Move(Status.ERROR, Event.DELETE, Status.DELETING),
    Move(Status.ERROR_DELETING, Event.DELETE, Status.DELETING),
    *(Move(status, Event.FORCE_DELETE, Status.DELETING) for status in _LIVE),
    Move(Status.DELETING, Event.DELETED, Status.GONE),
    Move(Status.DELETING, Event.DELETE_FAILED, Status.ERROR_DELETING),
    # The target is the status before the operation.
    Move(Status.DELETING, Event.DELETE_CANCELLED, None),
    # There is no status in between, because the backend keeps the data and is not called.
    Move(Status.AVAILABLE, Event.UNMANAGE, Status.GONE),
    Move(Status.ERROR, Event.UNMANAGE, Status.GONE),
    Move(Status.CREATING, Event.STATE, None),
    Move(Status.DELETING, Event.STATE, None),
    *(Move(status, Event.RESET, None) for status in _LIVE),
)
"""All allowed transitions of a snapshot."""

_MOVES = {(move.source, move.event): move.target for move in TRANSITIONS}

DELETABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.DELETE)
"""Statuses in which a snapshot may be deleted."""

UNMANAGEABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.UNMANAGE)
"""Statuses in which a snapshot may be unmanaged."""

# The statuses of os-update_snapshot_status, by which Nova reports snapshots that it makes itself.
STATED = {Status.CREATING: (Status.CREATING, Status.AVAILABLE, Status.ERROR),
          Status.DELETING: (Status.DELETING, Status.ERROR_DELETING)}
"""Statuses that a consumer may report while it creates or deletes a snapshot, by status so far."""

RESETTABLE = frozenset(_LIVE)
"""Statuses that an administrator may set."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of a volume.

    ``size_gb``, type, zone and pool are those of the volume when the snapshot was created.

    :ivar progress: progress of the creation in percent; 0 if no progress was ever reported
    :ivar status_reset: True if a request has set the status (os-reset_status or
        os-update_snapshot_status), so that no operation is in progress in spite of the status
    """

    id: str
    volume_id: str
    project_id: str
    user_id: str
    name: str | None
    description: str | None
    size_gb: int
    status: str
    progress: int
    volume_type_id: str
    availability_zone: str
    pool: str | None
    generation: int
    status_reset: bool
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    metadata: dict[str, str]

    @property
    def host(self) -> str | None:
        """``host@backend`` that manages the snapshot; None if the pool is not known."""
        return records.host_of(self.pool)


def next_status(status: str, event: Event, chosen: Status | None = None) -> Status:
    """Return the status of a snapshot after an event.

    :param chosen: status to return if the transition has no target
    :raises InvalidSnapshot: if the event is not allowed in the status of the snapshot
    """
    move = Status(status), event
    if move not in _MOVES:
        raise errors.InvalidSnapshot(reason=f'Cannot {event} a snapshot in status {status}.')
    target = _MOVES[move] or chosen
    assert target is not None
    return target


def settled(status: str) -> Status:
    """Return the status of a snapshot after its operation was abandoned.

    An abandoned creation gives error, and an abandoned deletion error_deleting. Any other status
    remains.
    """
    interrupted = {Status.CREATING: Status.ERROR, Status.DELETING: Status.ERROR_DELETING}
    return interrupted.get(Status(status), Status(status))


def check_stated(now: str, stated: str) -> Status:
    """Validate the status that a consumer reports for a snapshot.

    :param now: current status of the snapshot
    :param stated: reported status
    :returns: the reported status
    :raises InvalidInput: if `STATED` does not allow the reported status
    """
    if now not in STATED:
        raise errors.InvalidInput(
            f'Snapshot status {now} not allowed for update_snapshot_status')
    if stated not in STATED[Status(now)]:
        raise errors.InvalidInput(
            f'Provided snapshot status {errors.shortened(stated)} not allowed for snapshot with '
            f'status {now}.')
    return Status(stated)


def check_source(volume_id: str, own_status: str, shown: str, pool: str | None,
                 in_use: bool) -> None:
    """Check that a snapshot of a volume may be created.

    :param own_status: status of the volume without regard to its attachments
    :param shown: status of the volume in the API
    :param pool: pool of the volume; None if the volume is not scheduled yet
    :param in_use: True to allow a snapshot of a volume in status in-use
    :raises InvalidVolume: if the volume has no pool, or its status does not allow a snapshot
    """
    allowed = ('available', 'in-use') if in_use else ('available',)
    if pool is None:
        reason = ('The snapshot cannot be created because volume has not been scheduled to any '
                  'host.')
    elif own_status == 'maintenance':
        reason = 'The snapshot cannot be created when the volume is in maintenance mode.'
    elif own_status == 'error':
        reason = 'The snapshot cannot be created when the volume is in error status.'
    elif own_status == 'migrating':
        reason = 'Snapshot cannot be created while volume is migrating.'
    elif shown not in allowed:
        reason = (f'Volume {volume_id} status must be {", ".join(allowed)}, but current status '
                  f'is: {shown}.')
    else:
        return
    raise errors.InvalidVolume(reason=reason)
