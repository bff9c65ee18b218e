"""The moves of a row, the calls of a volume service on its account, and what a failure means.

Final: nothing happened, and the intent is undone, by the volume service or, where it was never
reached, here. Uncertain: the row keeps its intent and its deadline. The volume service writes what
it did before it answers, so a lost answer is no failure: the row is read.
"""
import datetime
from collections.abc import Callable
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.admission import controller
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
    """Moves rows, each move first committed and then notified; connects and disconnects."""

    def __init__(self, database: storage_db.Database,
                 notify: attachment_notices.AttachmentNotifications,
                 volume_services: volume_rpc.VolumeClients, seconds: float,
                 telemetry: acts.Telemetry, admission: controller.AdmissionController) -> None:
        """
        :param seconds: how long a backend may take, by the database's clock
        """
        self.database = database
        self.notify = notify
        self._volume_services = volume_services
        self.seconds = seconds
        self.telemetry = telemetry
        self.slot = admission.backend_slot
        """Holds a slot of a ``host@backend``, from before the intent is written; of None where no
        backend will be called. It raises Overloaded: nothing was begun."""

    def reserve(self, caller: context.RequestContext, wish: attachments.Wish,
                within: Callable[[Any, str], None] | None = None) -> records.Attachment:
        """Reserve the volume for a new attachment; see `attachments.reserve`."""
        made = attachments.reserve(self.database, wish, self.seconds, within, caller)
        self.notify.moved(caller, None, made)
        return made

    def move(self, caller: context.RequestContext, row: records.Attachment,
             event: attachment_lifecycle.Event, facts: attachments.Facts | None = None,
             generation: int | None = None) -> records.Attachment:
        """Apply an event; returns the new row. See `attachments.move`."""
        return self._moved(caller, row, event, facts, generation).new

    def release(self, caller: context.RequestContext, row: records.Attachment) -> bool:
        """End a row of which the backend knows nothing; whether it was the volume's last one."""
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
        """Connect the row's initiator; returns the new row.

        :param sentence: the client's error message
        """
        try:
            with self.telemetry.attaching('call'):
                return self._call_connect(caller, row)
        except errors.BlockattachError as exc:
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
        """A failure with the sentence that Cinder's clients know; final stays final.

        :param detailed: with the backend's reason
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
        """Disconnect the row's initiator, and end the row.

        :param force: it ends whatever the backend says; what stays at the target is found by the
            next comparison of target and rows
        :returns: whether it was the last one of its volume; False: perhaps not
        """
        try:
            with self.telemetry.detaching('call'):
                manager = self._volume_services.on(_served_by(row))
                return manager.disconnect(caller, row.volume_id, sorted(
                    {*filter(None, (row.initiator, row.previous_initiator))}), row.id,
                    row.generation)
        except errors.AttachmentNotFound:
            # Another call has removed it.
            return False
        except errors.BlockattachError as exc:
            if force:
                LOG.warning('Deleting attachment by force, backend call failed%s', log.fields(
                    attachment_id=row.id, volume_id=row.volume_id, reason=exc))
                self._end(caller, row)
                return False
            if not exc.final and self._now(row) is None:
                return False
            self._undo(caller, row, exc)
            raise self.client_error('Unable to delete attachment for volume', exc) from exc

    def roll_back(self, caller: context.RequestContext, made: records.Attachment,
                  failure: Exception) -> records.Attachment | None:
        """Undo a new row whose id the client never gets.

        :returns: the row, if its host is connected after all
        """
        if isinstance(failure, errors.BlockattachError) and failure.final:
            return None
        try:
            self.move(caller, made, _Event.DISCONNECT, attachments.Facts(
                lease_seconds=0, error=str(failure)), made.generation)
        except errors.AttachmentNotFound:
            return None
        except errors.StaleGeneration:
            # A copy of the call has connected the host, or another client knows the row's id.
            now = self._now(made)
            return now if self._is_connected(made, now) else None
        LOG.warning('Attachment rolled back after an uncertain failure%s',
                    log.fields(attachment_id=made.id, volume_id=made.volume_id))
        return None

    def _earlier_outcome(self, row: records.Attachment,
                         now: records.Attachment | None) -> errors.BlockattachError:
        """The outcome of an earlier copy of a call, or of its repair, that did not connect."""
        if (now is not None and now.generation == row.generation + 1
                and now.state not in attachment_lifecycle.TRANSITIONAL
                and now.last_error is not None):
            # After another move the row may hold the error of an earlier try.
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
            # A refusal has undone the intent: it is written again.
            self.move(caller, row, _Event.DISCONNECT, facts)
            self.move(caller, row, _Event.DISCONNECTED)
        except errors.AttachmentNotFound:
            return

    def _undo(self, caller: context.RequestContext, row: records.Attachment,
              failure: errors.BlockattachError) -> None:
        """Undo the intent after a final failure, where the volume service was not reached."""
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

