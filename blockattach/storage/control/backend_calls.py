"""State changes of attachments, the calls to volume services, and their failures.

After a final failure nothing has happened. The intent is undone by the volume service, or here if
the volume service was not reached. After an uncertain failure the attachment keeps its intent and
its deadline.

The volume service stores its result before it responds. If the response is lost, the result is
read from the database.
"""
import datetime
from collections.abc import Callable
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import admission
from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.telemetry import acts
from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records
from blockattach.storage.rpc import attachment_notices
from blockattach.storage.rpc import volume as volume_rpc

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State


class BackendCalls:
    """State changes of attachments, their notifications, and calls to volume services."""

    def __init__(self, database: storage_db.Database,
                 notify: attachment_notices.AttachmentNotifications,
                 volume_services: volume_rpc.VolumeClients, seconds: float,
                 telemetry: acts.Telemetry, admission: admission.AdmissionController) -> None:
        """Create the calls of one process.

        :param seconds: maximum duration of a backend call, by the clock of the database
        """
        self.database = database
        self.notify = notify
        self._volume_services = volume_services
        self.seconds = seconds
        self.telemetry = telemetry
        self.slot = admission.backend_slot
        """Context manager that holds a slot of a ``host@backend``.

        The slot is taken before the intent is stored. The argument None means that no backend
        will be called. Raises Overloaded before anything is stored.
        """

    def reserve(self, caller: context.RequestContext, wish: attachments.Wish,
                within: Callable[[Any, str], None] | None = None) -> records.Attachment:
        """Reserve the volume for a new attachment, see `attachments.reserve`."""
        made = attachments.reserve(self.database, wish, self.seconds, within, caller)
        self.notify.moved(caller, None, made)
        return made

    def move(self, caller: context.RequestContext, row: records.Attachment,
             event: attachment_lifecycle.Event, facts: attachments.Facts | None = None,
             generation: int | None = None) -> records.Attachment:
        """Apply an event to an attachment and return the new state, see `attachments.move`."""
        return self._moved(caller, row, event, facts, generation).new

    def release(self, caller: context.RequestContext, row: records.Attachment) -> bool:
        """Delete an attachment that the backend does not know.

        :returns: True if it was the last attachment of its volume
        """
        return self._moved(caller, row, _Event.RELEASE, None, row.generation).was_last

    def _moved(self, caller: context.RequestContext, row: records.Attachment,
               event: attachment_lifecycle.Event, facts: attachments.Facts | None,
               generation: int | None) -> attachments.Moved:
        moved = attachments.move(self.database, row.volume_id, row.id, event,
                                 facts or attachments.Facts(), generation, expected=row,
                                 caller=caller)
        self.notify.moved(caller, moved.old, moved.new)
        return moved

    def connect(self, caller: context.RequestContext, row: records.Attachment,
                sentence: str) -> records.Attachment:
        """Connect the initiator of an attachment and return the new state of the attachment.

        :param sentence: error message for the client
        """
        try:
            with self.telemetry.attaching('call'):
                return self._call_connect(caller, row)
        except errors.BlockattachError as exc:
            # After a lost response, or if an earlier copy of the call has changed the attachment,
            # the database shows the outcome.
            has_moved = isinstance(exc, errors.StaleGeneration)
            now = self._now(row) if has_moved or not exc.final else None
            if now is not None and self._is_connected(row, now):
                return now
            if has_moved:
                raise self.client_error(sentence, self._earlier_outcome(row, now)) from exc
            self._undo(caller, row, exc)
            raise self.client_error(sentence, exc) from exc

    @staticmethod
    def client_error(sentence: str, failure: errors.BlockattachError,
                     detailed: bool = True) -> errors.BlockattachError:
        """Return a failure with the error message that clients of Cinder know.

        A final failure stays final.

        :param detailed: include the reason of the backend
        """
        if isinstance(failure, errors.InvalidInput | errors.NotFound | errors.Conflict
                      | errors.DeadlinePassed):
            return failure
        kind = errors.BackendRefused if failure.final else errors.BackendUncertain
        detailed = detailed and isinstance(failure, errors.BackendError)
        return kind(reason=f'{sentence} ({failure}).' if detailed else f'{sentence}.')

    def _call_connect(self, caller: context.RequestContext,
                      row: records.Attachment) -> records.Attachment:
        manager = self._volume_services.on(_served_by(row))
        assert row.initiator is not None
        made = manager.connect(caller, row.volume_id, row.initiator, row.id, row.generation)
        return attachments.connected(row, made['connection'],
                                     datetime.datetime.fromisoformat(made['at']))

    def disconnect(self, caller: context.RequestContext, row: records.Attachment,
                   force: bool = False) -> bool:
        """Disconnect the initiator of an attachment, and delete the attachment.

        :param force: delete regardless of backend errors; the next repair pass removes the grant
            that remains at the target
        :returns: True if the attachment is known to be the last one of its volume
        """
        try:
            with self.telemetry.detaching('call'):
                manager = self._volume_services.on(_served_by(row))
                # While access moves to another initiator, both initiators may have access.
                return manager.disconnect(caller, row.volume_id, sorted(
                    {*filter(None, (row.initiator, row.previous_initiator))}), row.id,
                    row.generation)
        except errors.AttachmentNotFound:
            # Another call has deleted the attachment.
            return False
        except errors.BlockattachError as exc:
            if force:
                LOG.warning('Deleting attachment by force, backend call failed%s', log.fields(
                    attachment_id=row.id, volume_id=row.volume_id, reason=exc))
                self._end(caller, row)
                return False
            if not exc.final and self._now(row) is None:
                # The volume service has finished, but its response was lost.
                return False
            self._undo(caller, row, exc)
            raise self.client_error('Unable to delete attachment for volume', exc) from exc

    def roll_back(self, caller: context.RequestContext, new: records.Attachment,
                  failure: Exception) -> records.Attachment | None:
        """Undo a new attachment whose ID the client never receives.

        :returns: the attachment if its host was connected after all, else None
        """
        if isinstance(failure, errors.BlockattachError) and failure.final:
            # `connect` has undone the intent, which deletes a new attachment.
            return None
        try:
            # Due at once, so that the next repair pass of the volume service revokes the access.
            self.move(caller, new, _Event.DISCONNECT, attachments.Facts(
                lease_seconds=0, error=str(failure)), new.generation)
        except errors.AttachmentNotFound:
            return None
        except errors.StaleGeneration:
            # A copy of the call has connected the host, or another client knows the row's id.
            now = self._now(new)
            return now if self._is_connected(new, now) else None
        LOG.warning('Attachment rolled back after an uncertain failure%s',
                    log.fields(attachment_id=new.id, volume_id=new.volume_id))
        return None

    def _earlier_outcome(self, row: records.Attachment,
                         now: records.Attachment | None) -> errors.BlockattachError:
        """Return the failure of an earlier copy of the call, or of its repair."""
        if (now is not None and now.generation == row.generation + 1
                and now.state not in attachment_lifecycle.TRANSITIONAL
                and now.last_error is not None):
            # After another event the row may have the error of an earlier attempt.
            return errors.BackendRefused(reason=now.last_error)
        return errors.AttachmentBusy(attachment_id=row.id)

    @staticmethod
    def _is_connected(row: records.Attachment, now: records.Attachment | None) -> bool:
        return (now is not None and now.generation > row.generation
                and now.state is _State.CONNECTED and now.initiator == row.initiator)

    def _now(self, row: records.Attachment) -> records.Attachment | None:
        try:
            return attachment_queries.get(self.database, row.id)
        except errors.AttachmentNotFound:
            return None

    def _end(self, caller: context.RequestContext, row: records.Attachment) -> None:
        facts = attachments.Facts(lease_seconds=0)
        try:
            # A final failure may have undone the intent, so the intent is stored again.
            self.move(caller, row, _Event.DISCONNECT, facts)
            self.move(caller, row, _Event.DISCONNECTED)
        except errors.AttachmentNotFound:
            return

    def _undo(self, caller: context.RequestContext, row: records.Attachment,
              failure: errors.BlockattachError) -> None:
        """Undo the intent after a final failure, unless the volume service has undone it."""
        if not failure.final:
            return
        try:
            self.move(caller, row, _Event.REFUSED,
                             attachments.Facts(error=str(failure)), row.generation)
        except (errors.StaleGeneration, errors.AttachmentNotFound):
            return


def _served_by(row: records.Attachment) -> str:
    if row.owner is None:
        raise errors.BackendRefused(reason=f'volume {row.volume_id} has no backend yet')
    return row.owner

