"""Expiry of reservations: the rule by which an attachment without a consumer is ended.

Two states wait for a consumer, not for the service: reserved (for a connector) and connected (for
completion). The rule decides on those that have waited for longer than the operator allows. A
server of Nova's may take its time for good reasons: it is being built or moved, or it is shelved
and holds its volumes by reservations for months. So Nova is asked first, and where it cannot be
asked, what names a server stays. What names none stays as long as a host is logged in by it.
"""
import dataclasses
import enum
import functools
from typing import NamedTuple

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import decisions
from blockattach.storage.domain import messages

_State = attachment_lifecycle.State
_Event = attachment_lifecycle.Event


class Ending(NamedTuple):
    """How an expired one ends: by which event, and with which user message."""

    event: attachment_lifecycle.Event
    text: messages.Text


ENDINGS = {
    _State.RESERVED: Ending(_Event.RELEASE, messages.RESERVATION_ABANDONED),
    _State.CONNECTED: Ending(_Event.DISCONNECT, messages.CONNECTION_ABANDONED),
}
"""The states that wait for a consumer. Both verbs are those of a delete."""


class Outcome(enum.StrEnum):
    """What becomes of an attachment that has waited for too long."""

    ASK_NOVA = 'ask Nova'
    """Decide again with its answer."""
    STAYS = 'stays'
    ABANDONED = 'abandoned'


class Nova(enum.Enum):
    """Whether Nova can say if a server needs an attachment."""

    ASKED = 'asked'
    UNKNOWN = 'unknown'
    """One may use the volumes, and it is not configured how to ask it."""
    NONE = 'none'


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """What Nova says of a server and a volume.

    :ivar busy: the server is being built, moved, shelved, deleted: what it uses may change
    :ivar attachment_id: by which attachment it uses the volume; None: it does not
    """

    exists: bool
    busy: bool = False
    attachment_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The input of the rule.

    :ivar server: Nova's answer, if it was asked
    :ivar has_session: its host is logged in at the target
    """

    attachment_id: str
    server_id: str | None
    nova: Nova
    server: Server | None = None
    has_session: bool = False


def _server_of(facts: Facts) -> Server:
    assert facts.server is not None
    return facts.server


TABLE: tuple[decisions.Row[Facts, Outcome], ...] = (
    decisions.Row(1, lambda facts: not facts.server_id and facts.has_session, Outcome.STAYS),
    decisions.Row(2, lambda facts: not facts.server_id, Outcome.ABANDONED),
    decisions.Row(3, lambda facts: facts.nova is Nova.NONE, Outcome.ABANDONED),
    decisions.Row(4, lambda facts: facts.nova is Nova.UNKNOWN, Outcome.STAYS),
    decisions.Row(5, lambda facts: facts.server is None, Outcome.ASK_NOVA),
    decisions.Row(6, lambda facts: not _server_of(facts).exists, Outcome.ABANDONED),
    decisions.Row(7, lambda facts: _server_of(facts).attachment_id == facts.attachment_id,
                  Outcome.STAYS),
    decisions.Row(8, lambda facts: _server_of(facts).busy, Outcome.STAYS),
    decisions.Row(9, lambda facts: True, Outcome.ABANDONED),
)
decide = functools.partial(decisions.decide, TABLE)
"""The row of the table that decides about facts."""
