"""Volume lifecycle: own statuses, events, transitions and the derived status.

``own_status`` of a volume changes only as `TRANSITIONS` allows. ``status`` and ``attach_status``
are derived from ``own_status`` and from the lowest rank of the live attachments
(`attachment_lifecycle.RANKS`). Each transaction that changes ``own_status`` or the lowest rank
also stores the derived values.
"""
import enum
from typing import NamedTuple

from blockattach.storage import errors


class OwnStatus(enum.StrEnum):
    """Status of a volume independent of its attachments."""

    CREATING = 'creating'
    """Volume being scheduled, or being created by the backend."""
    AVAILABLE = 'available'
    """Volume present on its backend, without an operation in progress."""
    DOWNLOADING = 'downloading'
    """Volume being filled from an image."""
    UPLOADING = 'uploading'
    """Volume being copied to an image."""
    EXTENDING = 'extending'
    """Volume being extended by the backend."""
    ERROR_EXTENDING = 'error_extending'
    """Volume whose extend was permanently refused by the backend."""
    RETYPING = 'retyping'
    """Volume being retyped."""
    MIGRATING = 'migrating'
    """Volume being migrated to another backend, shown to clients as available."""
    MIGRATING_LOCKED = 'migrating-locked'
    """Volume being migrated to another backend, shown to clients as in maintenance."""
    BACKING_UP = 'backing-up'
    """Volume being copied to a backup."""
    REVERTING = 'reverting'
    """Volume being reverted to a snapshot by the backend."""
    AWAITING_TRANSFER = 'awaiting-transfer'
    """Volume offered to another project by a transfer that was not accepted yet."""
    MANAGING = 'managing'
    """Volume being managed: existing storage on the backend becomes the volume."""
    ERROR_MANAGING = 'error_managing'
    """Volume whose manage request was permanently refused by the backend."""
    UNMANAGING = 'unmanaging'
    """Volume being removed from the service. Its data remains on the backend."""
    ERROR = 'error'
    """Volume that could not be created, or has incomplete data."""
    DELETING = 'deleting'
    """Volume being deleted; the call to the backend is pending or in progress."""
    MAINTENANCE = 'maintenance'
    """Volume on which an administrator has blocked all operations."""
    ERROR_DELETING = 'error_deleting'
    """Volume whose deletion was permanently refused by the backend."""
    ERROR_RESTORING = 'error_restoring'
    """Volume marked by an administrator as not restored from its backup."""
    ERROR_BACKING_UP = 'error_backing-up'
    """Volume marked by an administrator as not copied to a backup."""
    ATTACHING = 'attaching'
    """Status that an administrator has set on a volume without attachments."""
    DETACHING = 'detaching'
    """Status that an administrator has set on a volume without attachments."""
    RESERVED = 'reserved'
    """Status that an administrator has set on a volume without attachments."""
    GONE = 'deleted'
    """Volume deleted; the row is kept as history."""
    LEFT = 'unmanaged'
    """Volume unmanaged; its data remains on the backend, and the row is kept as history."""


class Event(enum.StrEnum):
    """Event that changes the own status of a volume."""

    CREATED = 'created'
    UNCLAIM = 'unclaim'
    """Creation failed on one pool; the volume waits for another pool."""
    CREATE_FAILED = 'create failed'
    """Creation failed on every pool, or was cancelled."""
    DELETE = 'delete'
    FORCE_DELETE = 'force delete'
    """Forced deletion by an administrator, regardless of the status."""
    DISCARD = 'discard'
    """Deletion or unmanage of a volume that has no pool. The event takes effect at once."""
    DELETED = 'deleted'
    DELETE_FAILED = 'delete failed'
    DELETE_CANCELLED = 'delete cancelled'
    DOWNLOAD = 'download'
    DOWNLOADED = 'downloaded'
    DOWNLOAD_FAILED = 'download failed'
    UPLOAD = 'upload'
    UPLOADED = 'uploaded'
    """End of the upload. A failed or cancelled upload also leaves the volume unchanged."""
    EXTEND = 'extend'
    EXTEND_CLAIMED = 'extend claimed'
    """Space claimed on the pool of the volume."""
    EXTENDED = 'extended'
    EXTEND_FAILED = 'extend failed'
    EXTEND_REFUSED = 'extend refused'
    """Extend cancelled, or rejected for lack of space, without a call to the backend."""
    RETYPE = 'retype'
    RETYPED = 'retyped'
    """End of the retype. A failed or cancelled retype leaves the volume unchanged."""
    MIGRATE = 'migrate'
    MIGRATE_LOCKED = 'migrate locked'
    MIGRATED = 'migrated'
    """End of the migration. A failed or cancelled migration leaves the volume on its pool."""
    MOVE_CLAIMED = 'move claimed'
    """Space claimed on a pool of another backend, for a migration or a retype."""
    MOVE_UNCLAIMED = 'move unclaimed'
    """Migration or retype failed on the claimed pool; the volume waits for another pool."""
    BACK_UP = 'back up'
    BACKED_UP = 'backed up'
    """End of the backup. A failed backup leaves the volume unchanged."""
    REVERT = 'revert'
    REVERTED = 'reverted'
    REVERT_FAILED = 'revert failed'
    OFFER = 'offer'
    """Creation of a transfer."""
    WITHDRAW = 'withdraw'
    """Deletion of the transfer."""
    ACCEPT = 'accept'
    """Acceptance of the transfer by another project."""
    MANAGE_CLAIMED = 'manage claimed'
    """Pool accepted by the scheduler for the managed volume."""
    MANAGED = 'managed'
    MANAGE_FAILED = 'manage failed'
    UNMANAGE = 'unmanage'
    UNMANAGED = 'unmanaged'
    UNMANAGE_FAILED = 'unmanage failed'
    """Failed or cancelled unmanage."""
    RESET = 'reset'
    """Reset of the status by an administrator, as `blockattach.storage.domain.reset_rule` allows.
    """


class Move(NamedTuple):
    """Allowed transition of the own status of a volume.

    :ivar target: own status after the event; None if the caller of `next_status` chooses it
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
    # A volume being managed or unmanaged keeps its data, so it must not be deleted meanwhile.
    *(Move(status, Event.FORCE_DELETE, OwnStatus.DELETING) for status in _LIVE
      if status not in (OwnStatus.MANAGING, OwnStatus.UNMANAGING)),
    *(Move(status, Event.DISCARD, OwnStatus.GONE) for status in _LIVE),
    Move(OwnStatus.DELETING, Event.DELETED, OwnStatus.GONE),
    Move(OwnStatus.DELETING, Event.DELETE_FAILED, OwnStatus.ERROR_DELETING),
    # The target is the status before the deletion, which the work record of the deletion contains.
    Move(OwnStatus.DELETING, Event.DELETE_CANCELLED, None),
    Move(OwnStatus.CREATING, Event.DOWNLOAD, OwnStatus.DOWNLOADING),
    # As in Cinder, os-reimage is also allowed for a volume in error.
    Move(OwnStatus.AVAILABLE, Event.DOWNLOAD, OwnStatus.DOWNLOADING),
    Move(OwnStatus.ERROR, Event.DOWNLOAD, OwnStatus.DOWNLOADING),
    Move(OwnStatus.DOWNLOADING, Event.DOWNLOADED, OwnStatus.AVAILABLE),
    Move(OwnStatus.DOWNLOADING, Event.DOWNLOAD_FAILED, OwnStatus.ERROR),
    Move(OwnStatus.AVAILABLE, Event.UPLOAD, OwnStatus.UPLOADING),
    Move(OwnStatus.UPLOADING, Event.UPLOADED, OwnStatus.AVAILABLE),
    Move(OwnStatus.AVAILABLE, Event.EXTEND, OwnStatus.EXTENDING),
    # An event that keeps the status still increments the generation, so that a process with an
    # older claim on the volume fails.
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
    # The target is the status before the operation.
    Move(OwnStatus.UNMANAGING, Event.UNMANAGE_FAILED, None),
    *(Move(status, Event.RESET, None) for status in _LIVE),
)
"""All allowed transitions of the own status of a volume."""

_MOVES = {(move.source, move.event): move.target for move in TRANSITIONS}

DELETABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.DELETE)
"""Own statuses in which a volume without attachments may be deleted.

In addition to the statuses that `delete` of ``cinder.volume.api`` allows, error_deleting is
allowed. Cinder requires a forced deletion for it.
"""

UNMANAGEABLE = frozenset(move.source for move in TRANSITIONS if move.event is Event.UNMANAGE)
"""Own statuses in which a volume may be unmanaged."""

MOVING = frozenset({'starting', 'migrating', 'completing'})
"""Migration statuses in which a volume must not be deleted, retyped, migrated or unmanaged."""

RESERVABLE = frozenset({OwnStatus.AVAILABLE, OwnStatus.DOWNLOADING})
"""Own statuses in which a volume may be reserved for an attachment.

As in Cinder, Nova may reserve a volume before the download of its image has ended.
"""

WITHOUT_WORK = {OwnStatus.CREATING: OwnStatus.ERROR, OwnStatus.DELETING: OwnStatus.ERROR_DELETING,
                OwnStatus.EXTENDING: OwnStatus.ERROR_EXTENDING,
                OwnStatus.REVERTING: OwnStatus.ERROR,
                OwnStatus.UNMANAGING: OwnStatus.ERROR,
                OwnStatus.RETYPING: OwnStatus.AVAILABLE, OwnStatus.MIGRATING: OwnStatus.AVAILABLE,
                OwnStatus.MIGRATING_LOCKED: OwnStatus.AVAILABLE}
"""Own status after an operation is abandoned, by the own status during the operation."""

CLEARED_BY_FORCE = frozenset({
    OwnStatus.ERROR, OwnStatus.ERROR_DELETING, OwnStatus.ERROR_EXTENDING,
    OwnStatus.ERROR_RESTORING, OwnStatus.ERROR_MANAGING, OwnStatus.ERROR_BACKING_UP,
    OwnStatus.CREATING, OwnStatus.DOWNLOADING, OwnStatus.ATTACHING, OwnStatus.DETACHING,
    OwnStatus.RESERVED})
"""Own statuses that a forced detach sets to available, if no operation is in progress.

The status of the volume then depends only on its remaining attachments.
"""

CLAIMING = frozenset({OwnStatus.EXTENDING, OwnStatus.RETYPING, OwnStatus.MIGRATING,
                      OwnStatus.MIGRATING_LOCKED, OwnStatus.MANAGING})
"""Own statuses of operations that may claim space in addition to the size of the volume."""

_SHOWN_AS_AVAILABLE = frozenset({OwnStatus.AVAILABLE, OwnStatus.MIGRATING})
# Cinder sets a volume to maintenance during a migration with `lock_volume`.
_SHOWN: dict[str, str] = {OwnStatus.MIGRATING_LOCKED: OwnStatus.MAINTENANCE.value}
"""Status in the API by own status, where the two differ, except for `_SHOWN_AS_AVAILABLE`."""


def next_status(own_status: str, event: Event, chosen: OwnStatus | None = None) -> OwnStatus:
    """Return the own status of a volume after an event.

    :param chosen: own status to return if the transition has no target
    :raises InvalidVolume: if the event is not allowed in the own status of the volume
    """
    move = OwnStatus(own_status), event
    if move not in _MOVES:
        raise errors.InvalidVolume(reason=f'Cannot {event} a volume in status {own_status}.')
    target = _MOVES[move] or chosen
    assert target is not None
    return target


class Derived(NamedTuple):
    """Statuses of a volume that the API shows."""

    status: str
    attach_status: str


RANK_STATUSES = {
    1: Derived('in-use', 'attached'),
    2: Derived('attaching', 'attaching'),
    3: Derived('detaching', 'detaching'),
    4: Derived('reserved', 'reserved'),
    # A failed attachment holds the volume, but neither puts the volume into error nor prevents
    # other attachments. Cinder ignores failed attachments, and shows such a volume as available.
    5: Derived('reserved', 'reserved'),
    None: Derived('available', 'detached'),
}
"""Statuses of an available volume by its lowest rank; None for a volume without attachments."""

ATTACHED_RANK = 1
DETACHING = 'detaching'


def derive_status(own_status: str, lowest_rank: int | None,
                  announced: bool = False) -> Derived:
    """Return the statuses of a volume, given its own status and lowest attachment rank.

    :param lowest_rank: None for a volume without live attachments
    :param announced: True if os-begin_detaching has announced a detach that has not begun yet. The
        status of an attached volume is then detaching, because clients wait for this status.
    """
    status = RANK_STATUSES[lowest_rank]
    if own_status not in _SHOWN_AS_AVAILABLE:
        return Derived(_SHOWN.get(own_status, own_status), status.attach_status)
    if announced and lowest_rank == ATTACHED_RANK:
        return Derived(DETACHING, status.attach_status)
    return status

