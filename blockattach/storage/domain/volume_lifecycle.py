"""The lifecycle of a volume, and how its status follows from it and from its attachments.

A volume has two facts: ``own_status``, which moves only as `TRANSITIONS` says, and the lowest rank
of its live attachments. ``status`` and ``attach_status`` are a function of the two, stored in the
same transaction as whichever of them changed.
"""
import enum
from typing import NamedTuple

from blockattach.storage import errors


class OwnStatus(enum.StrEnum):
    """What is true of a volume itself, whatever its attachments say."""

    CREATING = 'creating'
    """A pool is being chosen, or the backend is making it."""
    AVAILABLE = 'available'
    """It exists on its backend and no work of its own is under way."""
    DOWNLOADING = 'downloading'
    """It exists and is being filled from an image."""
    UPLOADING = 'uploading'
    """It is being copied into an image."""
    EXTENDING = 'extending'
    """The backend is making it larger."""
    ERROR_EXTENDING = 'error_extending'
    """The backend refused finally to make it larger."""
    RETYPING = 'retyping'
    """It is being given another type."""
    MIGRATING = 'migrating'
    """It is being moved to another backend; clients see it as available."""
    MIGRATING_LOCKED = 'migrating-locked'
    """The same; clients see it in maintenance."""
    BACKING_UP = 'backing-up'
    """It is being copied into a backup."""
    REVERTING = 'reverting'
    """The backend is bringing it back to a snapshot."""
    AWAITING_TRANSFER = 'awaiting-transfer'
    """Its project offers it to another one, which has not accepted it yet."""
    MANAGING = 'managing'
    """It is being taken from storage that was made elsewhere."""
    ERROR_MANAGING = 'error_managing'
    """The backend refused finally to take it."""
    UNMANAGING = 'unmanaging'
    """It is being left to its backend, with its bytes."""
    ERROR = 'error'
    """It could not be made, or its bytes are not whole; a message says why."""
    DELETING = 'deleting'
    """The backend has been or will be asked to remove it."""
    MAINTENANCE = 'maintenance'
    """An administrator has blocked it: nothing may be done with it."""
    ERROR_DELETING = 'error_deleting'
    """The backend refused finally to remove it."""
    ERROR_RESTORING = 'error_restoring'
    """An administrator says that its bytes are not those of a backup."""
    ERROR_BACKING_UP = 'error_backing-up'
    """An administrator says that it could not be copied into a backup."""
    ATTACHING = 'attaching'
    """An administrator says so of a volume without attachments; so of the next two."""
    DETACHING = 'detaching'
    RESERVED = 'reserved'
    GONE = 'deleted'
    """Removed; the row is kept as history."""
    LEFT = 'unmanaged'
    """The same of one whose bytes were left to its backend: nobody removes them."""


class Event(enum.StrEnum):
    """What can happen to a volume itself."""

    CREATED = 'created'
    UNCLAIM = 'unclaim'
    """A pool could not make it: it waits for another one."""
    CREATE_FAILED = 'create failed'
    """No pool could make it."""
    DELETE = 'delete'
    FORCE_DELETE = 'force delete'
    """An administrator deletes it, whatever it is."""
    DISCARD = 'discard'
    """It is deleted where no backend has it: there is nothing to wait for."""
    DELETED = 'deleted'
    DELETE_FAILED = 'delete failed'
    DELETE_CANCELLED = 'delete cancelled'
    DOWNLOAD = 'download'
    DOWNLOADED = 'downloaded'
    DOWNLOAD_FAILED = 'download failed'
    UPLOAD = 'upload'
    UPLOADED = 'uploaded'
    """Also: it failed, which leaves the volume as it was."""
    EXTEND = 'extend'
    EXTEND_CLAIMED = 'extend claimed'
    """Its pool has given the room."""
    EXTENDED = 'extended'
    EXTEND_FAILED = 'extend failed'
    EXTEND_REFUSED = 'extend refused'
    """Nothing was asked of its backend: its pool has no room for it."""
    RETYPE = 'retype'
    RETYPED = 'retyped'
    """Also: it failed, which leaves the volume as it was."""
    MIGRATE = 'migrate'
    MIGRATE_LOCKED = 'migrate locked'
    MIGRATED = 'migrated'
    """Also: it failed, which leaves the volume where it was."""
    MOVE_CLAIMED = 'move claimed'
    """A pool of another backend has given the room, for a migration or a new type."""
    MOVE_UNCLAIMED = 'move unclaimed'
    """That backend could not take it: it waits for another pool."""
    BACK_UP = 'back up'
    BACKED_UP = 'backed up'
    """Also: it failed, which leaves the volume as it was."""
    REVERT = 'revert'
    REVERTED = 'reverted'
    REVERT_FAILED = 'revert failed'
    OFFER = 'offer'
    """A transfer is made."""
    WITHDRAW = 'withdraw'
    """The transfer is deleted."""
    ACCEPT = 'accept'
    """Another project takes it."""
    MANAGE_CLAIMED = 'manage claimed'
    """Its pool will do."""
    MANAGED = 'managed'
    MANAGE_FAILED = 'manage failed'
    UNMANAGE = 'unmanage'
    UNMANAGED = 'unmanaged'
    UNMANAGE_FAILED = 'unmanage failed'
    """Also: it was cancelled."""
    RESET = 'reset'
    """An administrator says what it is, as `blockattach.storage.domain.reset_rule` allows."""


class Move(NamedTuple):
    """One legal move of a volume itself. ``target`` None: it depends on more than the source; the
    caller says which.
    """

    source: OwnStatus
    event: Event
    target: OwnStatus | None


_LIVE = tuple(status for status in OwnStatus
              if status not in (OwnStatus.GONE, OwnStatus.LEFT))

_MIGRATING = (OwnStatus.MIGRATING, OwnStatus.MIGRATING_LOCKED)

TRANSITIONS = (
    Move(OwnStatus.CREATING, Event.CREATED, OwnStatus.AVAILABLE),
    Move(OwnStatus.CREATING, Event.UNCLAIM, OwnStatus.CREATING),
    Move(OwnStatus.CREATING, Event.CREATE_FAILED, OwnStatus.ERROR),
    Move(OwnStatus.AVAILABLE, Event.DELETE, OwnStatus.DELETING),
    Move(OwnStatus.ERROR, Event.DELETE, OwnStatus.DELETING),
    Move(OwnStatus.ERROR_DELETING, Event.DELETE, OwnStatus.DELETING),
    Move(OwnStatus.ERROR_EXTENDING, Event.DELETE, OwnStatus.DELETING),
    Move(OwnStatus.ERROR_RESTORING, Event.DELETE, OwnStatus.DELETING),
    Move(OwnStatus.ERROR_MANAGING, Event.DELETE, OwnStatus.DELETING),
    # What is taken from others, or left to them, is not removed meanwhile.
    *(Move(status, Event.FORCE_DELETE, OwnStatus.DELETING) for status in _LIVE
      if status not in (OwnStatus.MANAGING, OwnStatus.UNMANAGING)),
    *(Move(status, Event.DISCARD, OwnStatus.GONE) for status in _LIVE),
    Move(OwnStatus.DELETING, Event.DELETED, OwnStatus.GONE),
    Move(OwnStatus.DELETING, Event.DELETE_FAILED, OwnStatus.ERROR_DELETING),
    # Where it was before.
    Move(OwnStatus.DELETING, Event.DELETE_CANCELLED, None),
    Move(OwnStatus.CREATING, Event.DOWNLOAD, OwnStatus.DOWNLOADING),
    # Anew, from another image.
    Move(OwnStatus.AVAILABLE, Event.DOWNLOAD, OwnStatus.DOWNLOADING),
    Move(OwnStatus.ERROR, Event.DOWNLOAD, OwnStatus.DOWNLOADING),
    Move(OwnStatus.DOWNLOADING, Event.DOWNLOADED, OwnStatus.AVAILABLE),
    Move(OwnStatus.DOWNLOADING, Event.DOWNLOAD_FAILED, OwnStatus.ERROR),
    Move(OwnStatus.AVAILABLE, Event.UPLOAD, OwnStatus.UPLOADING),
    Move(OwnStatus.UPLOADING, Event.UPLOADED, OwnStatus.AVAILABLE),
    Move(OwnStatus.AVAILABLE, Event.EXTEND, OwnStatus.EXTENDING),
    Move(OwnStatus.EXTENDING, Event.EXTEND_CLAIMED, OwnStatus.EXTENDING),
    Move(OwnStatus.EXTENDING, Event.EXTENDED, OwnStatus.AVAILABLE),
    Move(OwnStatus.EXTENDING, Event.EXTEND_FAILED, OwnStatus.ERROR_EXTENDING),
    Move(OwnStatus.EXTENDING, Event.EXTEND_REFUSED, OwnStatus.AVAILABLE),
    Move(OwnStatus.AVAILABLE, Event.RETYPE, OwnStatus.RETYPING),
    Move(OwnStatus.RETYPING, Event.RETYPED, OwnStatus.AVAILABLE),
    Move(OwnStatus.AVAILABLE, Event.MIGRATE, OwnStatus.MIGRATING),
    Move(OwnStatus.AVAILABLE, Event.MIGRATE_LOCKED, OwnStatus.MIGRATING_LOCKED),
    *(Move(status, Event.MIGRATED, OwnStatus.AVAILABLE) for status in _MIGRATING),
    *(Move(status, event, status) for status in (*_MIGRATING, OwnStatus.RETYPING)
      for event in (Event.MOVE_CLAIMED, Event.MOVE_UNCLAIMED)),
    Move(OwnStatus.AVAILABLE, Event.BACK_UP, OwnStatus.BACKING_UP),
    Move(OwnStatus.BACKING_UP, Event.BACKED_UP, OwnStatus.AVAILABLE),
    Move(OwnStatus.AVAILABLE, Event.REVERT, OwnStatus.REVERTING),
    Move(OwnStatus.REVERTING, Event.REVERTED, OwnStatus.AVAILABLE),
    Move(OwnStatus.REVERTING, Event.REVERT_FAILED, OwnStatus.ERROR),
    Move(OwnStatus.AVAILABLE, Event.OFFER, OwnStatus.AWAITING_TRANSFER),
    Move(OwnStatus.AWAITING_TRANSFER, Event.WITHDRAW, OwnStatus.AVAILABLE),
    Move(OwnStatus.AWAITING_TRANSFER, Event.ACCEPT, OwnStatus.AVAILABLE),
    Move(OwnStatus.MANAGING, Event.MANAGE_CLAIMED, OwnStatus.MANAGING),
    Move(OwnStatus.MANAGING, Event.MANAGED, OwnStatus.AVAILABLE),
    Move(OwnStatus.MANAGING, Event.MANAGE_FAILED, OwnStatus.ERROR_MANAGING),
    Move(OwnStatus.AVAILABLE, Event.UNMANAGE, OwnStatus.UNMANAGING),
    Move(OwnStatus.ERROR, Event.UNMANAGE, OwnStatus.UNMANAGING),
    Move(OwnStatus.ERROR_EXTENDING, Event.UNMANAGE, OwnStatus.UNMANAGING),
    Move(OwnStatus.ERROR_RESTORING, Event.UNMANAGE, OwnStatus.UNMANAGING),
    Move(OwnStatus.ERROR_MANAGING, Event.UNMANAGE, OwnStatus.UNMANAGING),
    Move(OwnStatus.UNMANAGING, Event.UNMANAGED, OwnStatus.LEFT),
    # Where it was before.
    Move(OwnStatus.UNMANAGING, Event.UNMANAGE_FAILED, None),
    *(Move(status, Event.RESET, None) for status in _LIVE),
)
"""Every move of a volume itself."""

_MOVES = {(move.source, move.event): move.target for move in TRANSITIONS}

DELETABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.DELETE)
"""A volume may be deleted only from these, and only without attachments."""

UNMANAGEABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.UNMANAGE)
"""A volume may be left to its backend only from these."""

MOVING = frozenset({'starting', 'migrating', 'completing'})
"""Migration statuses of a volume that must not be deleted."""

RESERVABLE = frozenset({OwnStatus.AVAILABLE, OwnStatus.DOWNLOADING})
"""An attachment may be made only on a volume with one of these."""

WITHOUT_WORK = {OwnStatus.CREATING: OwnStatus.ERROR, OwnStatus.DELETING: OwnStatus.ERROR_DELETING,
                OwnStatus.EXTENDING: OwnStatus.ERROR_EXTENDING,
                OwnStatus.REVERTING: OwnStatus.ERROR,
                OwnStatus.UNMANAGING: OwnStatus.ERROR,
                OwnStatus.RETYPING: OwnStatus.AVAILABLE, OwnStatus.MIGRATING: OwnStatus.AVAILABLE,
                OwnStatus.MIGRATING_LOCKED: OwnStatus.AVAILABLE}
"""What a volume in the middle of work is where that work is given up."""

CLEARED_BY_FORCE = frozenset({
    OwnStatus.ERROR, OwnStatus.ERROR_DELETING, OwnStatus.ERROR_EXTENDING,
    OwnStatus.ERROR_RESTORING, OwnStatus.ERROR_MANAGING, OwnStatus.ERROR_BACKING_UP,
    OwnStatus.CREATING, OwnStatus.DOWNLOADING, OwnStatus.ATTACHING, OwnStatus.DETACHING,
    OwnStatus.RESERVED})
"""Own statuses that a forced detach clears, unless an operation on the volume is in progress. The
volume then has the status that its remaining attachments imply."""

CLAIMING = frozenset({OwnStatus.EXTENDING, OwnStatus.RETYPING, OwnStatus.MIGRATING,
                      OwnStatus.MIGRATING_LOCKED, OwnStatus.MANAGING})
"""Work that may have claimed room besides what the volume has."""

_SHOWN_AS_AVAILABLE = frozenset({OwnStatus.AVAILABLE, OwnStatus.MIGRATING})
_SHOWN: dict[str, str] = {OwnStatus.MIGRATING_LOCKED: OwnStatus.MAINTENANCE.value}
"""Others that are not shown by their own words."""


def next_status(own_status: str, event: Event, chosen: OwnStatus | None = None) -> OwnStatus:
    """Where an event leads.

    :param chosen: the target, where the table has none
    :raises InvalidVolume: the volume is not where that can happen
    """
    move = OwnStatus(own_status), event
    if move not in _MOVES:
        raise errors.InvalidVolume(reason=f'Cannot {event} a volume in status {own_status}.')
    target = _MOVES[move] or chosen
    assert target is not None
    return target


class Derived(NamedTuple):
    """The two statuses that the API shows."""

    status: str
    attach_status: str


RANK_STATUSES = {
    1: Derived('in-use', 'attached'),
    2: Derived('attaching', 'attaching'),
    3: Derived('detaching', 'detaching'),
    4: Derived('reserved', 'reserved'),
    # A failed attachment holds the volume, but neither breaks it nor refuses others.
    5: Derived('reserved', 'reserved'),
    None: Derived('available', 'detached'),
}
"""What the lowest rank means on the volume; None: it has no attachments."""

ATTACHED_RANK = 1
DETACHING = 'detaching'


def derive_status(own_status: str, lowest_rank: int | None,
                  announced: bool = False) -> Derived:
    """The volume's statuses from its own status and the lowest rank of its live attachments.

    :param announced: os-begin_detaching was called and no detach has begun since: the status says
        so, for clients that wait for it, though nothing has happened to any attachment
    """
    status = RANK_STATUSES[lowest_rank]
    if own_status not in _SHOWN_AS_AVAILABLE:
        return Derived(_SHOWN.get(own_status, own_status), status.attach_status)
    if announced and lowest_rank == ATTACHED_RANK:
        return Derived(DETACHING, status.attach_status)
    return status

