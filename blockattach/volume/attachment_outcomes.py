"""How an act on an attachment ended: the row, who is told of it, the user's message."""
from collections.abc import Iterable

from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.db import attachments
from blockattach.db import engine
from blockattach.db import leases
from blockattach.db import messages
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import messages as domain_messages
from blockattach.domain import records
from blockattach.rpc import notifications

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_TEXTS = {_State.CONNECTING: domain_messages.ATTACH_FAILED,
          _State.DISCONNECTING: domain_messages.DETACH_FAILED}
_UNKNOWN = 'the request that made this attachment was cut off: nobody knows of it'


class AttachmentOutcomes:
    """Records how an act on an attachment ended; one that has moved on is left alone."""

    def __init__(self, database: engine.Database,
                 notify: notifications.AttachmentNotifications) -> None:
        self._database = database
        self._notify = notify

    def taken_on(self, caller: context.RequestContext, row: records.Attachment,
                 event: attachment_lifecycle.Event, host: str, seconds: float) -> int:
        """What was interrupted is gone on with: by whom, and for how long at most.

        :returns: the row's new generation
        :raises StaleGeneration: somebody else does so
        :raises AttachmentNotFound: it is gone
        """
        # Whoever asked for it knows by the reason that it was never his.
        error = _UNKNOWN if event is _Event.DISCONNECT and row.state is _State.CONNECTING else None
        return self._move(caller, row, event, attachments.Facts(
            connector=row.connector, lease=attachments.Lease(host, seconds),
            error=error)).generation

    def abandoned(self, caller: context.RequestContext, row: records.Attachment,
                  event: attachment_lifecycle.Event, host: str, seconds: float) -> int:
        """Its consumer never came back: it goes; arguments, result and errors as of `taken_on`."""
        new = self._move(caller, row, event,
                         attachments.Facts(lease=attachments.Lease(host, seconds)))
        self._notify.abandoned(caller, new)
        return new.generation

    def connected(self, caller: context.RequestContext, row: records.Attachment,
                  made: connection.Connection,
                  ending: Iterable[leases.Lease] = ()) -> records.Attachment:
        """The backend has let it in; returns it as it is then, raises as `taken_on`.

        :param ending: the leases under which it did, given back in the same transaction
        :raises BackendUncertain: they were lost meanwhile
        """
        return self._move(caller, row, _Event.CONNECTED,
                          attachments.Facts(connection=made.to_dict()), ending)

    def disconnected(self, caller: context.RequestContext, row: records.Attachment,
                     ending: Iterable[leases.Lease] = ()) -> None:
        """The backend has shut it out; as `connected`."""
        self._move(caller, row, _Event.DISCONNECTED, attachments.Facts(), ending)

    def stays(self, row: records.Attachment, awaited: bool) -> bool:
        """Whether a row that is refused to go says again that its host is let in; as `refused`."""
        return row.state is _State.DISCONNECTING and attachment_lifecycle.next_state(
            row.state, _refusal(row, awaited), row.previous_state) in attachment_lifecycle.GRANTED

    def refused(self, caller: context.RequestContext, row: records.Attachment,
                failure: errors.BackendRefused, awaited: bool) -> None:
        """The backend refused finally to connect or disconnect it: the user is told.

        :param awaited: as `attachment_lifecycle.refusal` takes it
        """
        event = _refusal(row, awaited)
        fields = log.fields(attachment_id=row.id, volume_id=row.volume_id,
                            initiator=row.initiator, generation=row.generation)
        LOG.warning('Cannot serve an attachment: the backend refused%s', fields)
        try:
            self._move(caller, row, event, attachments.Facts(error=str(failure)))
        except (errors.StaleGeneration, errors.AttachmentNotFound):
            LOG.info('Attachment has moved on by itself%s', fields)
            return
        messages.create(self._database, row.project_id, caller.request_id, _TEXTS[row.state],
                        row.volume_id, str(failure))

    def _move(self, caller: context.RequestContext, row: records.Attachment,
              event: attachment_lifecycle.Event, facts: attachments.Facts,
              ending: Iterable[leases.Lease] = ()) -> records.Attachment:
        moved = attachments.move(self._database, row.volume_id, row.id, event, facts,
                                 row.generation,
                                 leases.giving_back(ending), row)
        self._notify.moved(caller, moved.old, moved.new)
        return moved.new


def _refusal(row: records.Attachment, awaited: bool) -> attachment_lifecycle.Event:
    # Of what is only held nobody would see that it has failed: it stays held.
    return attachment_lifecycle.refusal(row.state, row.previous_state,
                                        awaited or row.legacy_reservation)
