"""Multiattach rules: whether a volume may have another attachment, and in which access mode.

The rules decide on rows that were read at one moment. The caller writes the new row only if these
rows are still unchanged.

The statuses and texts are those of `_attachment_reserve` in ``cinder.volume.api``. A multiattach
volume can also be attached while another attachment is reserved or attaching, which Cinder refuses
(Launchpad 1747985).
"""
import dataclasses
from collections.abc import Sequence

from blockattach.storage import errors
from blockattach.storage.domain import connection
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Live attachment of a volume, with only the columns that the rules need."""

    instance_uuid: str | None
    mode: connection.AccessMode | None
    slot: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Admission:
    """Slot and access mode of a new attachment.

    :ivar slot: value of the column ``attachments.slot``; None on a multiattach volume, whose
        attachments are not limited
    :ivar mode: None if the connector may still set the access mode
    """

    slot: int | None
    mode: connection.AccessMode | None


HOLDER_SLOT = 0
PAIR_SLOT = 1
"""Values of ``attachments.slot`` on a volume without multiattach.

The first attachment gets `HOLDER_SLOT`. A second attachment of the same instance during a
migration gets the free slot, so the remaining attachment may have either slot. A unique index
allows each slot of a volume only once.
"""
SLOTS = (HOLDER_SLOT, PAIR_SLOT)

_RO = connection.AccessMode.RO
_RW = connection.AccessMode.RW


def admit(volume: records.VolumeFacts, holders: Sequence[Holder], another_writes: bool,
          instance_uuid: str | None, mode: connection.AccessMode | None,
          forbidden_by: str | None = None) -> Admission:
    """Return the slot and the access mode of a new attachment, or raise if it is not allowed.

    ============  ==================  =====================================  ==================
    volume        live attachments    new attachment                         result
    ============  ==================  =====================================  ==================
    own status    any                 any                                    refused
    forbids it
    multiattach,  one or more         ``forbidden_by`` is given              forbidden
    bootable
    multiattach   any number          any                                    no slot
    other         none                any                                    `HOLDER_SLOT`
    other         one                 same instance (a move between hosts)   the free slot, mode
                                                                             of the first one
    other         one                 other instance, or none named          refused
    other         two                 any                                    refused
    ============  ==================  =====================================  ==================

    :param holders: live attachments of the volume; ignored for a multiattach volume
    :param another_writes: True if another instance has write access; only used if the volume type
        allows a single writer
    :param forbidden_by: policy rule that forbids the caller another attachment of a bootable
        multiattach volume; None if the policy allows one
    :raises InvalidVolume: if the result in the table is "refused", or if `mode_of` refuses the
        requested mode
    :raises NotAuthorized: if the result in the table is "forbidden"
    """
    # Cinder compares the text in the same way, and its error ends with a blank.
    if 'error' in volume.own_status:
        raise errors.InvalidVolume(
            reason=f'Volume attachments can not be created if the volume is in an error state. '
                   f'The Volume {volume.id} currently has a status of: {volume.own_status} ')
    if (volume.multiattach and volume.bootable and volume.lowest_rank is not None
            and forbidden_by is not None):
        raise errors.NotAuthorized(rule=forbidden_by)
    if volume.own_status not in volume_lifecycle.RESERVABLE:
        raise _not_reservable(volume)
    if volume.multiattach:
        return Admission(None, mode_of(volume, another_writes, mode))
    if not holders:
        return Admission(HOLDER_SLOT, mode_of(volume, another_writes, mode))
    # Nova needs a second attachment to move a server between hosts (Launchpad 1694530).
    first = holders[0]
    if len(holders) > 1 or instance_uuid is None or first.instance_uuid != instance_uuid:
        raise _not_reservable(volume)
    # After a move the remaining attachment may have either slot.
    free = PAIR_SLOT if first.slot == HOLDER_SLOT else HOLDER_SLOT
    return Admission(free, first.mode or mode_of(volume, another_writes, mode))


def mode_of(volume: records.VolumeFacts, another_writes: bool,
            requested: connection.AccessMode | None) -> connection.AccessMode | None:
    """Return the access mode of a new attachment; None if the connector may still set it.

    =====================================  ==========  ============
    volume                                 requested   result
    =====================================  ==========  ============
    read-only                              any         ro
    one writer, another instance writes    rw          refused
    one writer, another instance writes    ro or none  ro
    one writer, no other instance writes   none        rw
    otherwise                              any         as requested
    =====================================  ==========  ============

    :raises InvalidVolume: if the result in the table is "refused"
    """
    if volume.readonly:
        return _RO
    if not volume.single_writer:
        return requested
    if not another_writes:
        return requested or _RW
    if requested is _RW:
        raise errors.InvalidVolume(
            reason=f'Volume {volume.id} is already attached read-write to another server, and '
                   f'the volume type allows one writer. Attach the volume with mode ro.')
    return _RO


def _not_reservable(volume: records.VolumeFacts) -> errors.InvalidVolume:
    # The text of Cinder, which names in-use for every multiattach volume.
    allowed = ('available or in-use or downloading' if volume.multiattach
               else 'available or downloading')
    status = volume.status
    if volume.own_status == volume_lifecycle.OwnStatus.MIGRATING:
        # ``status`` shows such a volume as available.
        status = volume.own_status
    return errors.InvalidVolume(
        reason=f'Volume {volume.id} status must be {allowed} to reserve, but the current '
               f'status is {status}.')
