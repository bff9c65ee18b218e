"""How an act on an attachment ended: the row, its notification, the user's message.

Apart from `blockattach.volume.converge`, since what begins is recorded by the same two: an
interrupted row is taken on, an abandoned one ended.
"""
import dataclasses
from collections.abc import Mapping
from typing import Any

from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach.db import attachments
from blockattach.db import engine
from blockattach.db import leases
from blockattach.db import messages
from blockattach.domain import attachment_lifecycle
from blockattach.domain import messages as domain_messages
from blockattach.domain import records
from blockattach.rpc import notifications

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_TEXTS = {_State.CONNECTING: domain_messages.ATTACH_FAILED,
          _State.DISCONNECTING: domain_messages.DETACH_FAILED}
_UNKNOWN = 'the request that made this attachment was cut off: no client knows of it'


@dataclasses.dataclass(frozen=True, slots=True)
class Intent:
    """What a row says that it wants done: in ``state``, as of ``generation``.

    :ivar awaited: the caller waits for the answer; see `attachment_lifecycle.refusal`
    """

    caller: context.RequestContext
    attachment_id: str
    generation: int
    state: attachment_lifecycle.State
    awaited: bool = True


class AttachmentOutcomes:
    """Records how an act on an attachment ended; one that has moved on is left alone."""

    def __init__(self, database: engine.Database,
                 notify: notifications.AttachmentNotifications) -> None:
        self._database = database
        self._notify = notify

    def taken_on(self, caller: context.RequestContext, row: records.Attachment,
                 event: attachment_lifecycle.Event, host: str, seconds: float) -> int:
        """An interrupted row is taken over by ``host``, for so many seconds at most.

        :returns: the row's new generation
        :raises StaleGeneration: another process has taken it over
        :raises AttachmentNotFound: it is gone
        """
        # Its caller sees by the reason that it never had the connection.
        error = _UNKNOWN if event is _Event.DISCONNECT and row.state is _State.CONNECTING else None
        return self._move(caller, row, event, attachments.Facts(
            connector=row.connector, lease=attachments.Lease(host, seconds),
            error=error)).new.generation

    def abandoned(self, caller: context.RequestContext, row: records.Attachment,
                  event: attachment_lifecycle.Event, host: str, seconds: float) -> int:
        """Its consumer never came back: it goes; arguments, result and errors as of `taken_on`."""
        new = self._move(caller, row, event,
                         attachments.Facts(lease=attachments.Lease(host, seconds))).new
        self._notify.abandoned(caller, new)
        return new.generation

    def done(self, intent: Intent, row: records.Attachment, connection: Mapping[str, Any] | None,
             held: leases.Lease | None = None) -> attachments.Moved:
        """The backend has granted or revoked; what it reported of a grant is stored.

        :param held: the lease under which it did, given back in the same transaction
        :raises StaleGeneration: the row has moved on
        :raises AttachmentNotFound: it is gone
        :raises BackendUncertain: the lease was lost meanwhile
        """
        if row.state is _State.DISCONNECTING:
            failpoints.point('volume.attachments.after_revoke')
            return self._move(intent.caller, row, _Event.DISCONNECTED, attachments.Facts(), held)
        failpoints.point('volume.attachments.after_grant')
        if connection is None:
            raise errors.StaleGeneration(noun='attachment', id=row.id, generation=row.generation)
        return self._move(intent.caller, row, _Event.CONNECTED,
                          attachments.Facts(connection=connection), held)

    def stays(self, intent: Intent, row: records.Attachment) -> bool:
        """Whether a row that is refused to go will say again that its host is granted."""
        return row.state is _State.DISCONNECTING and attachment_lifecycle.next_state(
            row.state, _refusal(intent, row), row.previous_state) in attachment_lifecycle.GRANTED

    def refused(self, intent: Intent, row: records.Attachment,
                failure: errors.BackendRefused) -> None:
        """The backend refused finally to connect or disconnect it: the user gets a message."""
        fields = log.fields(attachment_id=row.id, volume_id=row.volume_id,
                            initiator=row.initiator, generation=row.generation)
        LOG.warning('Cannot serve an attachment: the backend refused%s', fields)
        try:
            self._move(intent.caller, row, _refusal(intent, row),
                       attachments.Facts(error=str(failure)))
        except (errors.StaleGeneration, errors.AttachmentNotFound):
            LOG.info('Attachment has moved on by itself%s', fields)
            return
        messages.create(self._database, row.project_id, intent.caller.request_id,
                        _TEXTS[row.state], row.volume_id, str(failure))

    def _move(self, caller: context.RequestContext, row: records.Attachment,
              event: attachment_lifecycle.Event, facts: attachments.Facts,
              held: leases.Lease | None = None) -> attachments.Moved:
        moved = attachments.move(self._database, row.volume_id, row.id, event, facts,
                                 row.generation,
                                 None if held is None else leases.giving_back(held), row)
        self._notify.moved(caller, moved.old, moved.new)
        return moved


def _refusal(intent: Intent, row: records.Attachment) -> attachment_lifecycle.Event:
    # Nothing would show that a reservation has failed: it stays as it is.
    return attachment_lifecycle.refusal(row.state, row.previous_state,
                                        intent.awaited or row.legacy_reservation)
