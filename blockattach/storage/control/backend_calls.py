"""State changes of attachments, RPC calls to volume services, and the handling of failed calls.

An intent is a planned change of access. It is stored in the attachment before the volume service
is called. A failure is final or uncertain (``BlockattachError.final``). After a final failure, the
access has not changed. The intent is then undone by the volume service, or here if the volume
service was not reached. After an uncertain failure, the attachment keeps its intent and its
deadline.

The volume service stores the result before it responds. If the response is lost, the result is
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
    """State changes of attachments with their notifications, and calls to volume services."""

    def __init__(self, database: storage_db.Database,
                 notify: attachment_notices.AttachmentNotifications,
                 volume_services: volume_rpc.VolumeClients, seconds: float,
                 telemetry: acts.Telemetry, admission: admission.AdmissionController) -> None:
        """
        :param seconds: maximum duration of a backend call, in database time
        """
        self.database = database
        self.notify = notify
        self._volume_services = volume_services
        self.seconds = seconds
        self.telemetry = telemetry
        self.slot = admission.backend_slot
        """Function that returns a context manager, which holds a slot for calls to a backend.

        The argument is ``host@backend``, or None if no backend will be called. The slot is
        acquired before the intent is stored. If there is no slot, the context manager raises
        Overloaded.
        """

    def reserve(self, caller: context.RequestContext, wish: attachments.Wish,
                within: Callable[[Any, str], None] | None = None) -> records.Attachment:
        """Create an attachment by `attachments.reserve`, and send its notifications."""
        made = attachments.reserve(self.database, wish, self.seconds, within, caller)
        self.notify.moved(caller, None, made)
        return made

    def move(self, caller: context.RequestContext, row: records.Attachment,
             event: attachment_lifecycle.Event, facts: attachments.Facts | None = None,
             generation: int | None = None) -> records.Attachment:
        """Apply an event to an attachment by `attachments.move`, and send its notifications.

        :param row: attachment as read before
        :param generation: required generation of the attachment; None for any
        :returns: changed attachment
        """
        return self._moved(caller, row, event, facts, generation).new

    def release(self, caller: context.RequestContext, row: records.Attachment) -> bool:
        """Delete an attachment without an initiator, for which the backend has no grant.

        :returns: True if this was the last attachment of its volume
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
        """Connect the initiator of an attachment, and return the connected attachment.

        :param row: attachment with a stored intent
        :param sentence: error message for the client if the call fails
        """
        try:
            with self.telemetry.attaching('call'):
                return self._call_connect(caller, row)
        except errors.BlockattachError as exc:
            # After a lost response, or if an earlier copy of the call has changed the attachment,
            # the outcome is read from the database.
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
        """Build the error for the client, with the error message of Cinder.

        :param sentence: error message
        :param failure: error of the call to the volume service
        :param detailed: True to add the text of an error of the backend
        :returns: error that is final if ``failure`` is final. InvalidInput, NotFound, Conflict and
            DeadlinePassed are returned unchanged
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

        :param row: attachment with a stored intent
        :param force: True to delete the attachment even if the backend fails. The next repair pass
            removes the grant that then remains at the target
        :returns: True if this was the last attachment of its volume; False also if this is unknown
        """
        try:
            with self.telemetry.detaching('call'):
                manager = self._volume_services.on(_served_by(row))
                # If the access is moving to another initiator, both initiators may have access.
                return manager.disconnect(caller, row.volume_id, sorted(
                    {*filter(None, (row.initiator, row.previous_initiator))}), row.id,
                    row.generation)
        except errors.AttachmentNotFound:
            # Another call has deleted the attachment.
            return False
        except errors.BlockattachError as exc:
            if force:
                LOG.warning('Deleting attachment by force%s', log.fields(
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
        """Start to delete a new attachment whose connection has failed with an unknown outcome.

        The client does not receive the ID of the attachment, and so cannot delete the attachment.
        After a final failure, `connect` has already deleted the attachment.

        :param failure: error of the connection
        :returns: the attachment if an earlier copy of the call has connected its host, else None
        """
        if isinstance(failure, errors.BlockattachError) and failure.final:
            # `connect` has undone the intent, which deletes a new attachment.
            return None
        try:
            # The deadline is now, so that the next pass of the volume service revokes the access.
            self.move(caller, new, _Event.DISCONNECT, attachments.Facts(
                lease_seconds=0, error=str(failure)), new.generation)
        except errors.AttachmentNotFound:
            return None
        except errors.StaleGeneration:
            # A copy of the call has connected the host, or another client has changed the
            # attachment.
            now = self._now(new)
            return now if self._is_connected(new, now) else None
        LOG.warning('Rolling back attachment%s', log.fields(
            attachment_id=new.id, volume_id=new.volume_id, reason=failure))
        return None

    def _earlier_outcome(self, row: records.Attachment,
                         now: records.Attachment | None) -> errors.BlockattachError:
        """Return the error with which an earlier copy of the call, or its repair, has ended.

        :param row: attachment with the intent of the call
        :param now: attachment as read now; None if it is deleted
        :returns: AttachmentBusy if the outcome is unknown
        """
        if (now is not None and now.generation == row.generation + 1
                and now.state not in attachment_lifecycle.TRANSITIONAL
                and now.last_error is not None):
            # Only one event has followed the intent, so the error belongs to this call. After more
            # events, the error may be that of another call.
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
            # The intent is stored again, because it may have been undone after a final failure.
            self.move(caller, row, _Event.DISCONNECT, facts)
            self.move(caller, row, _Event.DISCONNECTED)
        except errors.AttachmentNotFound:
            return

    def _undo(self, caller: context.RequestContext, row: records.Attachment,
              failure: errors.BlockattachError) -> None:
        """Undo an intent after a final failure, unless the volume service has undone the intent.

        After an uncertain failure, nothing changes.
        """
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

