"""Notifications about attachments: ``volume.attach.end`` and others."""
import logging
from collections.abc import Callable
from collections.abc import Sequence

from blockattach.platform import context
from blockattach.platform.log import fields
from blockattach.platform.rpc import notifications
from blockattach.storage import objects
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)


class AttachmentNotifications:
    """Sender of notifications about the beginning and the end of attachments, as in Cinder.

    The process that moves an attachment calls these methods after the commit, so each event is
    sent once. They never raise. Nothing is sent for a legacy reservation. The publisher is
    ``volume.<host>`` of the volume, as in Cinder, although another process may send the event.
    """

    def __init__(self, notifier: notifications.Notifications,
                 read_volume: Callable[[str], records.Volume],
                 read_rows: Callable[[str], Sequence[records.Attachment]]) -> None:
        """
        :param read_volume: returns a volume by its id; only called to send a notification
        :param read_rows: returns the live attachments of a volume by the id of the volume; only
            called to send a notification
        """
        self._notifier = notifier
        self._read_volume = read_volume
        self._read_rows = read_rows

    def moved(self, caller: context.RequestContext, old: records.Attachment | None,
              new: records.Attachment) -> None:
        """Send the notifications that a move of an attachment causes.

        :param old: row before the move; None if the move created the row
        """
        # Cinder sends nothing at os-reserve, so for clients the attachment begins later.
        before = None if old is None or old.legacy_reservation else old.state
        for event_type in attachment_lifecycle.notifications_of(before, new.state):
            self._emit(caller, event_type, new)

    def forced(self, caller: context.RequestContext, attachment: records.Attachment) -> None:
        """Send the audit event of a forced deletion, which ignores Nova and the backend."""
        self._emit(caller, 'volume.detach.force', attachment)

    def abandoned(self, caller: context.RequestContext, attachment: records.Attachment) -> None:
        """Send the event of an attachment that expired, see `expiry_rule` in the domain."""
        self._emit(caller, 'volume.detach.abandoned', attachment)

    def _emit(self, caller: context.RequestContext, event_type: str,
              attachment: records.Attachment) -> None:
        if attachment.legacy_reservation or not self._notifier.enabled:
            return
        try:
            volume = self._read_volume(attachment.volume_id)
            payload = objects.VolumeAttachmentPayload.from_domain(
                attachment, volume, self._read_rows(volume.id))
            body = payload.to_body()
        except Exception as error:
            # The move is committed. A failed notification must not make its request fail.
            LOG.warning('Failed to send notification: %s%s', error, fields(
                event_type=event_type, attachment_id=attachment.id,
                volume_id=attachment.volume_id))
            return
        publisher = f'volume.{volume.host}' if volume.host else None
        self._notifier.emit(caller, event_type, body, publisher)
