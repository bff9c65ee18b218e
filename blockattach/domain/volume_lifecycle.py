"""The life of a volume, and how its status follows from its own life and its attachments.

A volume has two facts: ``own_status``, written only by its own lifecycle, and the lowest rank of
its live attachments. ``status`` and ``attach_status`` are a function of the two, stored in the
same transaction as whichever of them changed.
"""
import enum
from typing import NamedTuple


class OwnStatus(enum.StrEnum):
    """What is true of a volume's own life."""

    CREATING = 'creating'
    """A pool is being chosen or the backend is making it (owner, deadline)."""
    AVAILABLE = 'available'
    """It exists on its backend and no work of its own is under way."""
    DOWNLOADING = 'downloading'
    """It exists and is being filled from an image."""
    ERROR = 'error'
    """It could not be made; a message says why."""
    DELETING = 'deleting'
    """The backend has been or will be told to remove it (owner, deadline)."""
    MAINTENANCE = 'maintenance'
    """An administrator holds it: nothing may be done with it until he lets go."""
    ERROR_DELETING = 'error_deleting'
    """The backend refused for good to remove it."""
    GONE = 'deleted'
    """Removed; the row is kept as history."""


DELETABLE = frozenset({OwnStatus.AVAILABLE, OwnStatus.ERROR, OwnStatus.ERROR_DELETING})
"""A volume may be told to go only from these, and only without attachments."""

RESERVABLE = frozenset({OwnStatus.AVAILABLE, OwnStatus.DOWNLOADING})
"""An attachment may be made only on a volume whose own life is in one of these."""


class RankWord(NamedTuple):
    """What one rank means on the volume."""

    rank: int
    status: str
    attach_status: str


RANK_WORDS = (
    RankWord(1, 'in-use', 'attached'),
    RankWord(2, 'attaching', 'attaching'),
    RankWord(3, 'detaching', 'detaching'),
    RankWord(4, 'reserved', 'reserved'),
    # A failed attachment holds the volume, but neither breaks it nor refuses others.
    RankWord(5, 'reserved', 'reserved'),
)

ATTACHED_RANK = 1
DETACHING = 'detaching'

_WORDS = {word.rank: word for word in RANK_WORDS}
_NO_ATTACHMENTS = RankWord(0, 'available', 'detached')


class Derived(NamedTuple):
    """The two words that the API shows."""

    status: str
    attach_status: str


def derive_status(own_status: str, lowest_rank: int | None,
                  announced: bool = False) -> Derived:
    """The volume's words from its own status and the lowest rank of its live attachments.

    :param announced: os-begin_detaching was called and no detach has begun since: the status says
        so, for clients that wait for it, though nothing has happened to any attachment
    """
    word = _NO_ATTACHMENTS if lowest_rank is None else _WORDS[lowest_rank]
    if own_status != OwnStatus.AVAILABLE:
        return Derived(own_status, word.attach_status)
    if announced and lowest_rank == ATTACHED_RANK:
        return Derived(DETACHING, word.attach_status)
    return Derived(word.status, word.attach_status)

