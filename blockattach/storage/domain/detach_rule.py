"""Detach rule against CVE-2023-2088: decides whether the access of a server may be ended or moved.

Detaching without Nova leaves a device on the server's host, and that device may later refer to
another project's volume. Every caller except a service, administrators included, must therefore
detach through Nova while the server uses the volume. The rule and its order are those of
`attachment_deletion_allowed` in ``cinder.volume.api`` (Launchpad 2004555).
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
    """Condition under which the rule applies to a verb."""

    ALWAYS = 'always'
    WHERE_MOVED = 'where another initiator replaces the connected one'
    WHERE_KNOWN = 'always, but allowed if Nova gives no clear answer'
    NEVER = 'never'


class Verb(enum.StrEnum):
    """API request that ends, moves or takes over an attachment."""

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
    # The last resort of an administrator while Nova is down. If Nova answers, the rule applies.
    Verb.FORCED_DELETE: Asked.WHERE_KNOWN,
    Verb.UPDATE: Asked.WHERE_MOVED,
    Verb.DETACH: Asked.ALWAYS,
    Verb.FORCE_DETACH: Asked.ALWAYS,
    Verb.TERMINATE: Asked.ALWAYS,
    # The rule is checked for all attachments before the first one is deleted.
    Verb.RESET: Asked.ALWAYS,
    # The action connects an attachment without an initiator, or repeats the response to the
    # connected initiator.
    Verb.INITIALIZE: Asked.NEVER,
    # The action adopts a legacy reservation, which has no server, and connects its host.
    Verb.ATTACH: Asked.NEVER,
    # A legacy reservation has no server.
    Verb.UNRESERVE: Asked.NEVER,
}


class Outcome(enum.StrEnum):
    """Decision about a request."""

    ALLOWED = 'allowed'
    ASK_NOVA = 'ask Nova'
    """Nova must be asked. The rule is then evaluated again with the answer of Nova."""
    NOT_NAMED = 'not named'
    """The attachment cannot be determined from the request. Cinder answers with a conflict."""
    MISMATCHED = 'mismatched'
    """The attachment belongs to another volume than the one in the request."""
    IN_USE = 'in use'
    """According to Nova, the server uses the volume by this attachment."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Answer of Nova to the question by which attachment a server uses a volume."""

    attachment_id: str | None
    """Id of the attachment; None if the server does not use the volume."""


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Input of the rule.

    :ivar by_service: True if the request has a service token with an accepted role
    :ivar volume_id: id of the volume in the request
    :ivar given_id: id of the attachment in the request; None if the request names no attachment
    :ivar count: number of live attachments of the volume
    :ivar record: attachment that the request refers to (see `meant`); None if there is none
    :ivar answer: answer of Nova; None if Nova was not asked
    :ivar verb: requested action
    :ivar initiator: initiator in the request, which replaces the connected one; None if the
        request has no initiator
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


# The numbers are those in doc/source/admin/detach_rule.rst. Row 3 of that table is the function
# `meant`. Row 10 is an error that the code that asks Nova raises. If Nova gives no clear answer,
# only verbs with `Asked.WHERE_KNOWN` are allowed.
TABLE: tuple[decisions.Row[Facts, Outcome], ...] = (
    decisions.Row(1, lambda facts: facts.by_service, Outcome.ALLOWED),
    decisions.Row(2, lambda facts: facts.given_id is None and facts.count == 0, Outcome.ALLOWED),
    decisions.Row(4, lambda facts: facts.record is None, Outcome.NOT_NAMED),
    decisions.Row(5, lambda facts: _meant(facts).volume_id != facts.volume_id,
                  Outcome.MISMATCHED),
    # The attachment has no server, or the host of the server was never connected.
    decisions.Row(6, lambda facts: not (_meant(facts).instance_uuid and _meant(facts).connection),
                  Outcome.ALLOWED),
    # The same initiator keeps its access, so no device is left without access on its host.
    decisions.Row(6, lambda facts: ASKED[facts.verb] is Asked.WHERE_MOVED
                  and connection.is_same_node(_meant(facts).initiator, facts.initiator),
                  Outcome.ALLOWED),
    decisions.Row(7, lambda facts: facts.answer is None, Outcome.ASK_NOVA),
    decisions.Row(7, lambda facts: facts.answer == Answer(None), Outcome.ALLOWED),
    # The server uses the volume by another attachment, as after a move between hosts.
    decisions.Row(8, lambda facts: facts.answer != Answer(_meant(facts).id), Outcome.ALLOWED),
    decisions.Row(9, lambda facts: True, Outcome.IN_USE),
)
decide = functools.partial(decisions.decide, TABLE)
"""Return the row of the table that decides on the given facts."""


def meant(rows: Sequence[records.Attachment],
          given_id: str | None) -> records.Attachment | None:
    """Return the attachment that a request refers to.

    A request may omit the id if the volume has exactly one attachment.

    :param rows: live attachments of the volume
    :param given_id: id of the attachment in the request; None if the request names no attachment
    :returns: None if ``rows`` does not contain the attachment, or if the request names no
        attachment and the volume does not have exactly one
    """
    if given_id is None:
        return rows[0] if len(rows) == 1 else None
    return next((row for row in rows if row.id == given_id), None)
