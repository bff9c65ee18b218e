"""Snapshots: what a volume was at one moment. Their lifecycle, and what may be said of them."""
import dataclasses
import datetime
import enum
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.domain import records

WHOLE = 100
"""The progress of one that is there, in percent."""


class Status(enum.StrEnum):
    """What is true of a snapshot."""

    CREATING = 'creating'
    """The backend has been or will be asked to make it."""
    AVAILABLE = 'available'
    """The backend has it, and no work on it is under way."""
    ERROR = 'error'
    """It could not be made; a message says why."""
    DELETING = 'deleting'
    """The backend has been or will be asked to remove it."""
    ERROR_DELETING = 'error_deleting'
    """The backend refused finally to remove it."""
    GONE = 'deleted'
    """Removed; the row is kept as history."""


class Event(enum.StrEnum):
    """What can happen to a snapshot."""

    CREATED = 'created'
    CREATE_FAILED = 'create failed'
    """Also: its making was cancelled."""
    DELETE = 'delete'
    FORCE_DELETE = 'force delete'
    """An administrator deletes it, whatever it is."""
    DELETED = 'deleted'
    DELETE_FAILED = 'delete failed'
    DELETE_CANCELLED = 'delete cancelled'
    UNMANAGE = 'unmanage'
    """It is left to its backend, which keeps its bytes."""
    STATE = 'state'
    """A consumer says how far it is, as `STATED` allows."""
    RESET = 'reset'
    """An administrator says what it is."""


class Move(NamedTuple):
    """One legal move. ``target`` None: the caller says which."""

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
    # Where it was before.
    Move(Status.DELETING, Event.DELETE_CANCELLED, None),
    Move(Status.AVAILABLE, Event.UNMANAGE, Status.GONE),
    Move(Status.ERROR, Event.UNMANAGE, Status.GONE),
    Move(Status.CREATING, Event.STATE, None),
    Move(Status.DELETING, Event.STATE, None),
    *(Move(status, Event.RESET, None) for status in _LIVE),
)
"""Every move of a snapshot."""

_MOVES = {(move.source, move.event): move.target for move in TRANSITIONS}

DELETABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.DELETE)
"""A snapshot may be deleted only from these."""

UNMANAGEABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.UNMANAGE)
"""A snapshot may be left to its backend only from these."""

STATED = {Status.CREATING: (Status.CREATING, Status.AVAILABLE, Status.ERROR),
          Status.DELETING: (Status.DELETING, Status.ERROR_DELETING)}
"""What a consumer that makes or removes a snapshot by itself may say of it, by what it is."""

RESETTABLE = frozenset(_LIVE)
"""What an administrator may say."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot. ``size_gb``, type, zone and pool are those of its volume at that moment.

    :ivar progress: in percent; 0: nobody has ever said that any of it is there
    :ivar status_reset: an administrator has said its status: no work stands behind it
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
        """``host@backend``: its manager."""
        return records.host_of(self.pool)


def next_status(status: str, event: Event, chosen: Status | None = None) -> Status:
    """Where an event leads.

    :param chosen: the target, where the table has none
    :raises InvalidSnapshot: the snapshot is not where that can happen
    """
    move = Status(status), event
    if move not in _MOVES:
        raise errors.InvalidSnapshot(reason=f'Cannot {event} a snapshot in status {status}.')
    target = _MOVES[move] or chosen
    assert target is not None
    return target


def settled(status: str) -> Status:
    """What a snapshot is of whose work nothing is left: what it was, or in error."""
    interrupted = {Status.CREATING: Status.ERROR, Status.DELETING: Status.ERROR_DELETING}
    return interrupted.get(Status(status), Status(status))


def check_stated(now: str, stated: str) -> Status:
    """Return what a consumer says of a snapshot that is ``now``, if it may.

    :raises InvalidInput: it may not
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
    """Return if a snapshot may be made of a volume.

    :param shown: its status as clients see it
    :param in_use: whether one in use may be taken, as it is at that moment
    :raises InvalidVolume: it may not
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
