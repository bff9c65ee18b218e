"""Whether the access of a server that may still use it may be ended or moved: CVE-2023-2088.

An attachment that is ended without Nova leaves a device on the server's host, which may later
reach another project's volume. So every caller but a service, administrators included, has to
detach in Nova while the server has the volume. The rows and their numbers are those of Cinder's
rule (Launchpad 2004555).
"""
import dataclasses
import enum
import functools
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach.storage.domain import connection
from blockattach.storage.domain import decisions
from blockattach.storage.domain import records


class Asked(enum.StrEnum):
    """When a verb is held to the rule."""

    ALWAYS = 'always'
    WHERE_MOVED = 'where another initiator replaces the connected one'
    WHERE_KNOWN = 'always, but allowed if Nova gives no clear answer'
    NEVER = 'never'


class Verb(enum.StrEnum):
    """Each verb that ends, moves or takes over a row, as the API has it."""

    DELETE = 'DELETE /attachments/{id}'
    FORCED_DELETE = 'DELETE /attachments/{id}?force=true'
    UPDATE = 'PUT /attachments/{id}'
    DETACH = 'os-detach'
    FORCE_DETACH = 'os-force_detach'
    TERMINATE = 'os-terminate_connection'
    RESET = 'os-reset_status'
    INITIALIZE = 'os-initialize_connection'
    ATTACH = 'os-attach'
    UNRESERVE = 'os-unreserve'


ASKED: Mapping[Verb, Asked] = {
    Verb.DELETE: Asked.ALWAYS,
    # The last resort of an administrator whose Nova is down; an answer of Nova counts.
    Verb.FORCED_DELETE: Asked.WHERE_KNOWN,
    Verb.UPDATE: Asked.WHERE_MOVED,
    Verb.DETACH: Asked.ALWAYS,
    Verb.FORCE_DETACH: Asked.ALWAYS,
    Verb.TERMINATE: Asked.ALWAYS,
    # Of each attachment, before the first one goes.
    Verb.RESET: Asked.ALWAYS,
    # It connects what no initiator has, and answers again what this one has.
    Verb.INITIALIZE: Asked.NEVER,
    # It takes over a legacy reservation, which has no server, and connects its host.
    Verb.ATTACH: Asked.NEVER,
    # What is held has no server.
    Verb.UNRESERVE: Asked.NEVER,
}


class Outcome(enum.StrEnum):
    """What becomes of the request."""

    ALLOWED = 'allowed'
    ASK_NOVA = 'ask Nova'
    """The row depends on Nova: decide again with its answer."""
    NOT_NAMED = 'not named'
    """It is not known which attachment is meant."""
    MISMATCHED = 'mismatched'
    """The attachment belongs to another volume."""
    IN_USE = 'in use'


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What Nova says: by which attachment the server uses the volume; None: it does not."""

    attachment_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The input of the rule.

    :ivar by_service: a service token with an accepted role came along
    :ivar volume_id: the volume that the request is about
    :ivar given_id: the attachment that the request names, if it does
    :ivar count: how many live attachments the volume has
    :ivar record: the attachment that is meant (see `meant`), if there is one
    :ivar answer: Nova's answer, if it was asked
    :ivar verb: what is asked for
    :ivar initiator: the one that gets the access, where the verb moves it
    """

    by_service: bool
    volume_id: str
    given_id: str | None
    count: int
    record: records.Attachment | None
    answer: Answer | None = None
    verb: Verb = Verb.DELETE
    initiator: str | None = None


def _meant(facts: Facts) -> records.Attachment:
    assert facts.record is not None
    return facts.record


# Row 3 is `meant`: of a volume's only attachment nobody needs to say the id. Row 10 is an error of
# what asks Nova: without its answer nothing is allowed but what is asked `WHERE_KNOWN`.
TABLE: tuple[decisions.Row[Facts, Outcome], ...] = (
    decisions.Row(1, lambda facts: facts.by_service, Outcome.ALLOWED),
    decisions.Row(2, lambda facts: facts.given_id is None and facts.count == 0, Outcome.ALLOWED),
    decisions.Row(4, lambda facts: facts.record is None, Outcome.NOT_NAMED),
    decisions.Row(5, lambda facts: _meant(facts).volume_id != facts.volume_id,
                  Outcome.MISMATCHED),
    # No server is named, or none has ever had a connection.
    decisions.Row(6, lambda facts: not (_meant(facts).instance_uuid and _meant(facts).connection),
                  Outcome.ALLOWED),
    # The initiator that has access keeps it.
    decisions.Row(6, lambda facts: ASKED[facts.verb] is Asked.WHERE_MOVED
                  and connection.is_same_node(_meant(facts).initiator, facts.initiator),
                  Outcome.ALLOWED),
    decisions.Row(7, lambda facts: facts.answer is None, Outcome.ASK_NOVA),
    decisions.Row(7, lambda facts: facts.answer == Answer(None), Outcome.ALLOWED),
    decisions.Row(8, lambda facts: facts.answer != Answer(_meant(facts).id), Outcome.ALLOWED),
    decisions.Row(9, lambda facts: True, Outcome.IN_USE),
)
decide = functools.partial(decisions.decide, TABLE)
"""The row of the table that decides about facts."""


def meant(rows: Sequence[records.Attachment],
          given_id: str | None) -> records.Attachment | None:
    """Which of a volume's attachments is meant: the named one, or the only one (row 3)."""
    if given_id is None:
        return rows[0] if len(rows) == 1 else None
    return next((row for row in rows if row.id == given_id), None)
