"""How an act on an attachment ended: the row, who is told of it, the user's message."""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.db import attachments
from blockattach.db import engine
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


class AttachmentOutcomes:
    """Records how an act on an attachment ended; one that has moved on is left alone."""

    def __init__(self, database: engine.Database,
                 tell: notifications.AttachmentNotifications) -> None:
        self._database = database
        self._tell = tell

    def taken_on(self, caller: context.RequestContext, row: records.Attachment,
                 event: attachment_lifecycle.Event, host: str, seconds: float) -> int:
        """What was interrupted is gone on with: by whom, and for how long at most.

        :returns: the row's new generation
        :raises StaleGeneration: somebody else does so
        :raises AttachmentNotFound: it is gone
        """
        return self._move(caller, row, event, attachments.Facts(
            connector=row.connector, lease=attachments.Lease(host, seconds))).generation

    def connected(self, caller: context.RequestContext, row: records.Attachment,
                  made: connection.Connection) -> None:
        """The backend has let it in; raises as `taken_on`."""
        self._move(caller, row, _Event.CONNECTED, attachments.Facts(connection=made.to_dict()))

    def disconnected(self, caller: context.RequestContext, row: records.Attachment) -> None:
        """The backend has shut it out; raises as `taken_on`."""
        self._move(caller, row, _Event.DISCONNECTED, attachments.Facts())

    def refused(self, caller: context.RequestContext, row: records.Attachment,
                failure: errors.BackendRefused, awaited: bool) -> None:
        """The backend refused finally to connect or disconnect it: the user is told.

        :param awaited: as `attachment_lifecycle.refusal` takes it
        """
        # Of what is only held nobody would see that it has failed: it stays held.
        event = attachment_lifecycle.refusal(row.state, row.previous_state, awaited or row.hidden)
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
              event: attachment_lifecycle.Event, facts: attachments.Facts) -> records.Attachment:
        moved = attachments.move(self._database, row.volume_id, row.id, event, facts,
                                 row.generation)
        self._tell.moved(caller, moved.old, moved.new)
        return moved.new
