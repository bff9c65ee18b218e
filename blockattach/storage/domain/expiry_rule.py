"""Expiry rule: decides which attachments are ended because their consumer has not returned.

A reserved attachment waits for a connector, and a connected attachment waits for its completion.
The rule applies to attachments that have waited longer than the operator allows. A Nova server may
have a reason to wait: it is being built or moved, or it is shelved and keeps its volumes reserved
for months. Nova is therefore asked first. If the deployment has a Nova that cannot be asked, an
attachment that names a server is kept. An attachment that names no server is kept while its host
has a session.
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
    """Event that ends an expired attachment, and the text of the user message about it."""

    event: attachment_lifecycle.Event
    text: messages.Text


ENDINGS = {
    _State.RESERVED: Ending(_Event.RELEASE, messages.RESERVATION_ABANDONED),
    _State.CONNECTED: Ending(_Event.DISCONNECT, messages.CONNECTION_ABANDONED),
}
"""Ending by the state in which an attachment waits. The events are those of a delete request."""


class Outcome(enum.StrEnum):
    """Decision about an attachment that has waited too long."""

    ASK_NOVA = 'ask Nova'
    """Nova must be asked. The rule is then evaluated again with the answer of Nova."""
    STAYS = 'stays'
    """The attachment is kept. The rule is evaluated again later."""
    ABANDONED = 'abandoned'
    """The attachment is ended as in `ENDINGS`."""


class Nova(enum.Enum):
    """Availability of Nova for questions about servers."""

    ASKED = 'asked'
    """Nova can be asked."""
    UNKNOWN = 'unknown'
    """Nova may use the volumes, but access to Nova is not configured."""
    NONE = 'none'
    """The deployment has no Nova."""


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """Nova's answer about one server and one volume.

    :ivar busy: True if the server is being built, moved, shelved or deleted, so that its
        attachments may change
    :ivar attachment_id: id of the attachment by which the server uses the volume; None if the
        server does not use the volume
    """

    exists: bool
    busy: bool = False
    attachment_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Input of the rule.

    :ivar server_id: server that the attachment names; None or empty if it names none
    :ivar server: answer of Nova about this server; None if Nova was not asked
    :ivar has_session: True if the host of the attachment is logged in at the target
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
    # A consumer other than Nova may use the volume without having completed the attachment.
    decisions.Row(1, lambda facts: not facts.server_id and facts.has_session, Outcome.STAYS),
    decisions.Row(2, lambda facts: not facts.server_id, Outcome.ABANDONED),
    decisions.Row(3, lambda facts: facts.nova is Nova.NONE, Outcome.ABANDONED),
    decisions.Row(4, lambda facts: facts.nova is Nova.UNKNOWN, Outcome.STAYS),
    decisions.Row(5, lambda facts: facts.server is None, Outcome.ASK_NOVA),
    decisions.Row(6, lambda facts: not _server_of(facts).exists, Outcome.ABANDONED),
    decisions.Row(7, lambda facts: _server_of(facts).attachment_id == facts.attachment_id,
                  Outcome.STAYS),
    # During a resize, a shelve or a live migration, Nova creates a second attachment, and may not
    # show its id yet.
    decisions.Row(8, lambda facts: _server_of(facts).busy, Outcome.STAYS),
    decisions.Row(9, lambda facts: True, Outcome.ABANDONED),
)
decide = functools.partial(decisions.decide, TABLE)
"""Return the row of the table that decides on the given facts."""
