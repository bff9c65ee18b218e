"""Explanation of an attachment for users: its row, the state of its target, and the next steps.

The caller of `explain` reads the row and the target. `MEANINGS` and `DIFFERENCES` contain the
sentences. The first item of `DIFFERENCES` that holds is reported.
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
    """State of the target of the volume with regard to the host of the attachment.

    :ivar backend: ``host@backend`` that was queried; None if no backend was queried
    :ivar reason: reason why the state is unknown; None if the target was queried, or if no query
        was necessary
    :ivar exported: True if the target exports the volume, even if no host has access; None if
        unknown
    :ivar mode: access mode of the host; None if the host has no access, or if unknown
    :ivar sessions: number of iSCSI sessions of the host
    :ivar intact: False if the grant is partial or was modified (`connection.ActualGrant`)
    """

    backend: str | None = None
    reason: str | None = None
    exported: bool | None = None
    mode: connection.AccessMode | None = None
    sessions: int = 0
    intact: bool = True


class Meaning(NamedTuple):
    """Meaning of an attachment state for users.

    :ivar next: sentences about the next operation
    :ivar advice: sentences about possible actions of the user
    """

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
    """Difference between the row of an attachment and the target.

    :ivar holds: function ``(attachment, should_have_access, target)`` that returns True if the
        difference exists
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
"""Differences in the order in which they are checked."""


class Explanation(NamedTuple):
    """Result of `explain`.

    :ivar difference: name of the difference between row and target; None if there is none
    :ivar found: sentence about the difference
    """

    difference: str | None
    found: str
    next: str
    advice: tuple[str, ...]


def explain(row: records.Attachment, others: Sequence[records.PairAttachment],
            said: AtTarget) -> Explanation:
    """Compare the row of an attachment with the state of its target and explain the result.

    :param others: other live attachments of the volume to the same host, which share its session
    :param said: state of the target
    """
    # The host needs access as long as any of the attachments that share its session does.
    wanted = row.initiator is not None and (
        row.state in attachment_lifecycle.GRANTED or bool(others))
    meaning = MEANINGS[row.state]
    for one in DIFFERENCES:
        if one.holds(row, wanted, said):
            return Explanation(one.name, one.sentence, meaning.next,
                               tuple(filter(None, (one.advice, *meaning.advice))))
    return Explanation(None, 'Record and target agree.', meaning.next, meaning.advice)
