"""Reset rule: the decision table of os-reset_status.

A reset must not hide an attachment, make a volume without data attachable, or allow the deletion
of a volume that is in use. A reset is not needed to end an operation: after the deadline, another
process resumes the operation. In Cinder, a reset may set nearly any status, so a volume with
attachments can become available.
"""
import dataclasses
import enum
import functools
from collections.abc import Mapping

from blockattach.storage.domain import decisions
from blockattach.storage.domain import volume_lifecycle

_Own = volume_lifecycle.OwnStatus

OWN_STATUSES = {
    'available': _Own.AVAILABLE, 'error': _Own.ERROR, 'creating': _Own.CREATING,
    'downloading': _Own.DOWNLOADING, 'error_deleting': _Own.ERROR_DELETING,
    'maintenance': _Own.MAINTENANCE, 'error_extending': _Own.ERROR_EXTENDING,
    'error_managing': _Own.ERROR_MANAGING, 'error_restoring': _Own.ERROR_RESTORING,
    'error_backing-up': _Own.ERROR_BACKING_UP,
}
"""Statuses that an administrator may set, mapped to the own status that the volume gets."""

DERIVED_STATUSES: Mapping[str, volume_lifecycle.OwnStatus | None] = {
    'in-use': None, 'attaching': _Own.ATTACHING, 'detaching': _Own.DETACHING,
    'reserved': _Own.RESERVED}
"""Statuses derived from attachments, mapped to own statuses for volumes without attachments.

An administrator may set such a status on a volume with attachments only if the attachments imply
the status, or if it is the current status. On a volume without attachments, the volume gets the
own status. None means that the status cannot be set without attachments.
"""

MIGRATION_STATUSES = frozenset(
    {'none', 'migrating', 'error', 'success', 'completing', 'starting'})
# Stored as NULL, as in Cinder.
NO_MIGRATION = 'none'

ATTACHED = 'attached'
DETACHED = 'detached'

_NEED_BYTES = frozenset({_Own.AVAILABLE, _Own.DOWNLOADING, _Own.MAINTENANCE})


class Outcome(enum.StrEnum):
    """Outcome of a reset request. The value of a refusal is its error text."""

    ALLOWED = 'allowed'
    UNKNOWN = ('Invalid status: {status!r} cannot be set, because no operation would end the '
               'status.')
    NOT_ATTACHED = ('Invalid volume: Volume {id} is not attached, so attach_status cannot be '
                    'reset to attached.')
    CONTRADICTS_ITSELF = ('Invalid status: Status {status} requires attachments, but '
                          'attach_status detached removes all attachments.')
    AT_WORK = 'at work'
    """The volume is being created or deleted, and its manager finishes the operation."""
    NEVER_MADE = ('Invalid volume: Volume {id} was never created on a backend, so the status '
                  'cannot be reset to {status}.')
    UNTRUE = ('Invalid volume: Status {status} is derived from the attachments of volume {id}, '
              'which imply status {now}.')
    IN_USE = ('Invalid volume: Volume {id} has attachments. Detach the volume, or reset '
              'attach_status to detached to remove the attachments.')


@dataclasses.dataclass(frozen=True, slots=True)
class Requested:
    """Statuses in a reset request. A status is None if the request does not change it."""

    status: str | None
    attach_status: str | None
    migration_status: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Input of the rule, read at one moment.

    :ivar at_work: True if the volume has a creation or deletion in progress with a deadline
    :ivar made: True if a backend has ever created the volume completely
    :ivar shown: status of the volume in the API before the reset
    """

    requested: Requested
    own_status: str
    at_work: bool
    made: bool
    lowest_rank: int | None
    shown: str

    @property
    def from_attachments(self) -> str:
        """Status that the attachments imply, regardless of own status and announced detaches."""
        return volume_lifecycle.derive_status(_Own.AVAILABLE, self.lowest_rank).status

    @property
    def own_status_then(self) -> volume_lifecycle.OwnStatus:
        """Own status of the volume after the reset.

        If the volume has attachments and a derived status is requested, the own status becomes
        available.
        """
        assert self.requested.status is not None
        found = OWN_STATUSES.get(self.requested.status)
        if found is None and self.lowest_rank is None:
            found = DERIVED_STATUSES[self.requested.status]
        return found or _Own.AVAILABLE

    @property
    def is_true(self) -> bool:
        """True if the requested derived status is consistent with the attachments.

        If the volume has attachments, the requested status must be the status that they imply, or
        the current status. Without attachments, every derived status except in-use is consistent.
        """
        if self.lowest_rank is None:
            return DERIVED_STATUSES[str(self.requested.status)] is not None
        return self.requested.status in (self.from_attachments, self.shown)

    @property
    def is_known(self) -> bool:
        """True if no status is requested, or if the requested status can ever be set."""
        return (self.requested.status is None or self.requested.status in OWN_STATUSES
                or self.requested.status in DERIVED_STATUSES)

    @property
    def is_derived(self) -> bool:
        """True if the requested status is derived from attachments."""
        return self.requested.status in DERIVED_STATUSES

    @property
    def empties(self) -> bool:
        """True if the request removes the attachments (attach_status detached)."""
        return self.requested.attach_status == DETACHED


TABLE: tuple[decisions.Row[Facts, Outcome], ...] = (
    decisions.Row(1, lambda facts: facts.requested.attach_status == ATTACHED
        and facts.lowest_rank != volume_lifecycle.ATTACHED_RANK, Outcome.NOT_ATTACHED),
    decisions.Row(2, lambda facts: not facts.is_known, Outcome.UNKNOWN),
    decisions.Row(3, lambda facts: facts.empties and facts.is_derived, Outcome.CONTRADICTS_ITSELF),
    decisions.Row(4, lambda facts: facts.requested.status is None, Outcome.ALLOWED),
    # The only reset that is allowed during an operation. It ends the creation, so that the volume
    # can be deleted.
    decisions.Row(5, lambda facts: facts.at_work and facts.own_status == _Own.CREATING
        and facts.requested.status == _Own.ERROR, Outcome.ALLOWED),
    decisions.Row(6, lambda facts: facts.at_work, Outcome.AT_WORK),
    decisions.Row(7, lambda facts: not facts.made and facts.own_status_then in _NEED_BYTES,
        Outcome.NEVER_MADE),
    decisions.Row(8, lambda facts: facts.is_derived and not facts.is_true, Outcome.UNTRUE),
    decisions.Row(9, lambda facts: facts.requested.status == _Own.AVAILABLE
        and facts.lowest_rank is not None and not facts.empties, Outcome.IN_USE),
    decisions.Row(10, lambda facts: True, Outcome.ALLOWED),
)
decide = functools.partial(decisions.decide, TABLE)
"""Return the row of the table that decides on the given facts."""
