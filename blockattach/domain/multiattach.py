"""When a volume may be attached once more, and in which mode: the access-mode tables.

It decides on rows as they were at one moment; the row is written only if that precondition still
holds.
"""
import dataclasses
from collections.abc import Sequence

from blockattach import errors
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.domain import volume_lifecycle


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """A live attachment of the volume, as far as the rule needs it."""

    instance_uuid: str | None
    mode: connection.AccessMode | None
    slot: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """The volume as the rule sees it, at one moment.

    ``holders`` are the live rows of a plain volume; a multiattach one may have thousands, of which
    only ``another_writes`` matters, and that only where a single host may write.
    """

    volume: records.VolumeFacts
    holders: Sequence[Holder]
    another_writes: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Admission:
    """What the new row gets. ``slot`` is None on a multiattach volume: any number may hold it."""

    slot: int | None
    mode: connection.AccessMode | None


HOLDER_SLOT = 0
PAIR_SLOT = 1
"""A plain volume has two slots: the holder's, and its pair's (the same instance moving)."""
SLOTS = (HOLDER_SLOT, PAIR_SLOT)

_RO = connection.AccessMode.RO
_RW = connection.AccessMode.RW


def admit(held: Held, instance_uuid: str | None, mode: connection.AccessMode | None,
          forbidden_by: str | None = None) -> Admission:
    """Admit a new attachment, or refuse it.

    :param forbidden_by: the policy rule that forbids the caller a further attachment of a bootable
        volume; None: allowed

    ============  ==================  =====================================  ==================
    volume        its live rows       the new one                            outcome
    ============  ==================  =====================================  ==================
    own status    any                 any                                    refused
    forbids it
    multiattach,  one or more         joining is forbidden                   forbidden
    bootable
    multiattach   any number          any                                    its own slot
    plain         none                any                                    the holder's slot
    plain         one                 same instance (a move between hosts)   the pair's slot,
                                                                             the first's mode
    plain         one                 other instance, or none named          refused
    plain         two                 any                                    refused
    ============  ==================  =====================================  ==================

    :raises InvalidVolume: refused; nothing was changed
    :raises NotAuthorized: forbidden; nothing was changed
    """
    volume = held.volume
    if 'error' in volume.own_status:
        raise errors.InvalidVolume(
            reason=f'Volume attachments can not be created if the volume is in an error state. '
                   f'The Volume {volume.id} currently has a status of: {volume.own_status} ')
    taken = volume.lowest_rank is not None
    if volume.multiattach and volume.bootable and taken and forbidden_by is not None:
        raise errors.NotAuthorized(rule=forbidden_by)
    if volume.own_status not in volume_lifecycle.RESERVABLE:
        raise _not_reservable(volume)
    if volume.multiattach:
        return Admission(None, mode_of(held, mode))
    if not held.holders:
        return Admission(HOLDER_SLOT, mode_of(held, mode))
    first = held.holders[0]
    if len(held.holders) > 1 or instance_uuid is None or first.instance_uuid != instance_uuid:
        raise _not_reservable(volume)
    free = PAIR_SLOT if first.slot == HOLDER_SLOT else HOLDER_SLOT
    return Admission(free, first.mode if first.mode is not None else mode_of(held, mode))


def mode_of(held: Held, asked: connection.AccessMode | None) -> connection.AccessMode | None:
    """The mode of a new row; None: not known yet, the connector may set it.

    =====================================  ==========  ==================
    volume                                 asked       outcome
    =====================================  ==========  ==================
    read-only                              any         ro
    one writer, another instance writes    rw          refused
    one writer, another instance writes    ro or none  ro
    one writer, none or the same instance  none        rw
    anything else                          any         as asked
    =====================================  ==========  ==================

    :raises InvalidVolume: refused; nothing was changed
    """
    if held.volume.readonly:
        return _RO
    if not held.volume.single_writer:
        return asked
    if not held.another_writes:
        return asked or _RW
    if asked is _RW:
        raise errors.InvalidVolume(
            reason=f'Volume {held.volume.id} is written by another server already, and its type '
                   f'allows one writer: attach it with mode ro.')
    return _RO


def _not_reservable(volume: records.VolumeFacts) -> errors.InvalidVolume:
    allowed = ('available or in-use or downloading' if volume.multiattach
               else 'available or downloading')
    return errors.InvalidVolume(
        reason=f'Volume {volume.id} status must be {allowed} to reserve, but the current '
               f'status is {volume.status}.')
