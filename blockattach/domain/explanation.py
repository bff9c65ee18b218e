"""Why an attachment is as it is: what its record says and what the target says, in words.

Rules only: `explain` is given what was read. The sentences are the tables below; the first row of
`DIFFERENCES` that holds decides.
"""
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import records

_State = attachment_lifecycle.State


class AtTarget(NamedTuple):
    """What the target of the volume says now of the attachment's host.

    :ivar backend: ``host@backend`` that was asked; None: none
    :ivar reason: why it says nothing; None: it was asked, or need not be
    :ivar exported: whether it offers the volume to any host; None: unknown
    :ivar mode: of the host's access; None: it has none, or unknown
    """

    backend: str | None = None
    reason: str | None = None
    exported: bool | None = None
    mode: connection.AccessMode | None = None
    sessions: int = 0
    intact: bool = True


class Meaning(NamedTuple):
    """What will happen next in a state, and what a person can do."""

    next: str
    advice: tuple[str, ...]


_DELETE = 'If its consumer is gone for good, delete the attachment.'
_FORCE = ('If its backend cannot be repaired, an administrator may delete it by force; the next '
          'reconciliation takes away what is left at the target.')

MEANINGS: Mapping[_State, Meaning] = {
    _State.RESERVED: Meaning(
        'The volume is held. The consumer gives the connector of its host (update), or deletes '
        'the attachment; it expires where a limit is configured.', (_DELETE,)),
    _State.CONNECTING: Meaning(
        'The backend grants the host access. If that is interrupted, it is repeated or undone '
        'once its deadline has passed.',
        ('Wait: the service finishes it by itself.', 'Deleting it is possible at any time.')),
    _State.CONNECTED: Meaning(
        'The host may use the volume. The consumer completes the attachment (os-complete), or '
        'deletes it; it expires where a limit is configured.', (_DELETE,)),
    _State.ATTACHED: Meaning(
        'It stays so until it is deleted.',
        ('To end it, detach the volume from its server (openstack server remove volume), so that '
         'the guest gives it back first.',
         'If its host is dead, fence the host before the attachment is deleted.')),
    _State.DISCONNECTING: Meaning(
        "The backend revokes the host's access, and then the attachment is gone. If that is "
        'interrupted, it is repeated once its deadline has passed.',
        ('Wait: the service finishes it by itself.', _FORCE)),
    _State.ERROR_ATTACHING: Meaning(
        'Nothing, by itself: the backend has refused for good, and the reason is last_error.',
        ('Repair what the reason names, and give the connector again (update).', _DELETE)),
    _State.ERROR_DETACHING: Meaning(
        'Nothing, by itself: the backend has refused for good, and the reason is last_error.',
        ('Repair what the reason names, and delete it again.', _FORCE)),
    _State.GONE: Meaning('Nothing: it is kept as history only.', ()),
}


class Difference(NamedTuple):
    """Something that is not as the record says.

    :ivar holds: whether it is so, by the attachment, whether it is to have access, and the target
    """

    name: str
    holds: Callable[[records.Attachment, bool, AtTarget], bool]
    sentence: str
    advice: str


_RECONCILE = ('The next reconciliation corrects it; blockattach-manage reconcile does so at once.')
DIFFERENCES = (
    Difference('unknown', lambda row, wanted, said: said.reason is not None,
               'The target could not be asked, so only the record is shown.',
               'Look whether the volume service of the backend runs (openstack volume service '
               'list).'),
    Difference('at_work', lambda row, wanted, said: row.state in attachment_lifecycle.TRANSITIONAL,
               'The service is at work, so record and target may differ at this moment.', ''),
    Difference('missing', lambda row, wanted, said: wanted and said.mode is None,
               'The record grants the host access, but the target does not.', _RECONCILE),
    Difference('left', lambda row, wanted, said: not wanted and said.mode is not None,
               'The target grants the host access, but no record does.', _RECONCILE),
    Difference('damaged', lambda row, wanted, said: wanted and not said.intact,
               'The access at the target was made in part, or was tampered with.', _RECONCILE),
    Difference('idle', lambda row, wanted, said: (
        row.state is _State.ATTACHED and row.initiator is not None and said.sessions == 0),
        'The host may use the volume, but has no session.',
        'Look whether the host runs, and whether it is logged in (iscsiadm -m session).'),
)
"""In the order in which they are looked for."""


class Explanation(NamedTuple):
    """The answer: which difference holds (None: record and target agree), and the sentences."""

    difference: str | None
    found: str
    next: str
    advice: tuple[str, ...]


def explain(row: records.Attachment, others: Sequence[records.PairAttachment],
            said: AtTarget) -> Explanation:
    """Compare record and target.

    :param others: the other live attachments of the same host on the volume, which share its
        session
    """
    wanted = row.initiator is not None and (
        row.state in attachment_lifecycle.GRANTED or bool(others))
    meaning = MEANINGS[row.state]
    for one in DIFFERENCES:
        if one.holds(row, wanted, said):
            return Explanation(one.name, one.sentence, meaning.next,
                               tuple(filter(None, (one.advice, *meaning.advice))))
    return Explanation(None, 'Record and target agree.', meaning.next, meaning.advice)
