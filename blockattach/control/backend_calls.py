"""Asking a volume service to let somebody in or shut him out, and what a failure means for a row.

Final: nothing happened, and the intent is undone, by the volume service or, where it was never
reached, here. Uncertain: the row keeps its intent and its deadline.
"""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.control import moves
from blockattach.db import attachments
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.rpc import volume as volume_rpc

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event


class BackendCalls:
    """The two acts on a backend, on account of one row."""

    def __init__(self, moves: moves.AttachmentMoves, volume_services: volume_rpc.VolumeClients,
                 seconds: float) -> None:
        """
        :param seconds: how long a backend may take, by the database's clock
        """
        self._moves = moves
        self._volume_services = volume_services
        self.seconds = seconds

    def lease(self, volume: records.Volume) -> attachments.Lease:
        """What an intent on this volume is given."""
        return attachments.Lease(volume.host, self.seconds)

    def connect(self, caller: context.RequestContext, row: records.Attachment,
                sentence: str) -> None:
        """Let the row's initiator in.

        :param sentence: how a client is told of a failure
        """
        try:
            self._volume_services.on(_served_by(row)).connect(caller, row.id, row.generation)
        except errors.BlockattachError as exc:
            self._undo(caller, row, exc)
            raise _told(sentence, exc) from exc

    def disconnect(self, caller: context.RequestContext, row: records.Attachment) -> None:
        """Shut the row's initiator out, and end the row."""
        try:
            self._volume_services.on(_served_by(row)).disconnect(caller, row.id, row.generation)
        except errors.AttachmentNotFound:
            # Whoever else was told to remove it has ended the work.
            return
        except errors.BlockattachError as exc:
            self._undo(caller, row, exc)
            raise _told('Unable to delete attachment for volume', exc) from exc

    def disconnect_or_forget(self, caller: context.RequestContext,
                             row: records.Attachment) -> None:
        """By force: whatever the backend says, the row ends.

        What the backend could not be told is found by the next comparison of target and rows.
        """
        try:
            self._volume_services.on(_served_by(row)).disconnect(caller, row.id, row.generation)
        except errors.AttachmentNotFound:
            return
        except errors.BlockattachError as exc:
            LOG.warning('Attachment is ended by force, without its backend: %s%s', exc,
                        log.fields(attachment_id=row.id, volume_id=row.volume_id))
            self._end(caller, row)

    def withdraw(self, caller: context.RequestContext, made: records.Attachment,
                 failure: Exception) -> None:
        """The caller never learns this row's id: what may have been done for it is undone."""
        if isinstance(failure, errors.BlockattachError) and failure.final:
            return
        try:
            self._moves.move(caller, made, _Event.DISCONNECT, attachments.Facts(
                lease=attachments.Lease(made.owner, 0), error=str(failure)))
        except errors.AttachmentNotFound:
            return
        LOG.warning('Attachment is withdrawn after an uncertain failure%s',
                    log.fields(attachment_id=made.id, volume_id=made.volume_id))

    def _end(self, caller: context.RequestContext, row: records.Attachment) -> None:
        facts = attachments.Facts(lease=attachments.Lease(row.owner, 0))
        try:
            # A refusal has taken the intent back: it is said once more.
            self._moves.move(caller, row, _Event.DISCONNECT, facts)
            self._moves.move(caller, row, _Event.DISCONNECTED)
        except errors.AttachmentNotFound:
            return

    def _undo(self, caller: context.RequestContext, row: records.Attachment,
              failure: errors.BlockattachError) -> None:
        """Take a final failure's intent back, where the volume service was not even asked."""
        if not failure.final:
            return
        try:
            self._moves.move(caller, row, _Event.REFUSED,
                             attachments.Facts(error=str(failure)), row.generation)
        except (errors.StaleGeneration, errors.AttachmentNotFound):
            return


def _served_by(row: records.Attachment) -> str:
    if row.owner is None:
        raise errors.BackendRefused(reason=f'volume {row.volume_id} has no backend yet')
    return row.owner


def _told(sentence: str, exc: errors.BlockattachError) -> errors.BlockattachError:
    """The failure in the words that clients know; its kind stays."""
    if isinstance(exc, errors.InvalidInput | errors.NotFound | errors.Conflict):
        return exc
    kind = errors.BackendRefused if exc.final else errors.BackendUncertain
    detail = f' ({exc}).' if isinstance(exc, errors.BackendError) else '.'
    return kind(reason=sentence + detail)
