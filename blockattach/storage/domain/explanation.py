"""Why an attachment is as it is: what its record says and what the target says, in words.

Rules only: `explain` is given what was read. The sentences are the tables below; the first row of
`DIFFERENCES` that holds decides.
"""
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import records

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


_DELETE = 'If the consumer no longer exists, delete the attachment.'
_FORCE = ('If the backend cannot be repaired, an administrator can force-delete the attachment. '
          'The next reconciliation removes the remaining access at the target.')
_WAIT = 'Wait until the service has finished the operation.'

MEANINGS: Mapping[_State, Meaning] = {
    _State.RESERVED: Meaning(
        'The volume is reserved. The consumer provides the connector of its host (attachment '
        'update) or deletes the attachment. The reservation expires if a limit is configured.',
        (_DELETE,)),
    _State.CONNECTING: Meaning(
        'The backend grants the host access. An interrupted operation is retried or rolled back '
        'after its deadline.',
        (_WAIT, 'The attachment can be deleted at any time.')),
    _State.CONNECTED: Meaning(
        'The host can use the volume. The consumer completes the attachment (os-complete) or '
        'deletes the attachment. The attachment expires if a limit is configured.', (_DELETE,)),
    _State.ATTACHED: Meaning(
        'The volume remains attached until the attachment is deleted.',
        ('Detach the volume from the server (openstack server remove volume), so that the guest '
         'releases the device first.',
         'If the host is dead, fence the host before deleting the attachment.')),
    _State.DISCONNECTING: Meaning(
        "The backend revokes the host's access, then the attachment is deleted. An interrupted "
        'operation is retried after its deadline.',
        (_WAIT, _FORCE)),
    _State.ERROR_ATTACHING: Meaning(
        'No automatic action: the backend refused the operation permanently. See last_error for '
        'the reason.',
        ('Fix the cause given in last_error, then update the attachment with the connector again.',
         _DELETE)),
    _State.ERROR_DETACHING: Meaning(
        'No automatic action: the backend refused the operation permanently. See last_error for '
        'the reason.',
        ('Fix the cause given in last_error, then delete the attachment again.', _FORCE)),
    _State.GONE: Meaning('No further action: the attachment is kept as history only.', ()),
}


class Difference(NamedTuple):
    """Something that is not as the record says.

    :ivar holds: whether it is so, by the attachment, whether it is to have access, and the target
    """

    name: str
    holds: Callable[[records.Attachment, bool, AtTarget], bool]
    sentence: str
    advice: str


_RECONCILE = ('The next reconciliation repairs the difference. To repair the difference now, run '
              'blockattach-manage reconcile.')
DIFFERENCES = (
    Difference('unknown', lambda row, wanted, said: said.reason is not None,
               'The target could not be queried, so only the record is shown.',
               'Check whether the volume service of the backend is running (openstack volume '
               'service list).'),
    Difference('at_work', lambda row, wanted, said: row.state in attachment_lifecycle.TRANSITIONAL,
               'An operation is in progress, so record and target may differ temporarily.', ''),
    Difference('missing', lambda row, wanted, said: wanted and said.mode is None,
               'The record grants the host access, but the target does not.', _RECONCILE),
    Difference('left', lambda row, wanted, said: not wanted and said.mode is not None,
               'The target grants the host access, but no record does.', _RECONCILE),
    Difference('damaged', lambda row, wanted, said: wanted and not said.intact,
               'The access at the target is incomplete or was modified.', _RECONCILE),
    Difference('idle', lambda row, wanted, said: (
        row.state is _State.ATTACHED and row.initiator is not None and said.sessions == 0),
        'The host has access to the volume, but no session.',
        'Check whether the host is running and logged in (iscsiadm -m session).'),
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
