"""Notifications about attachments, such as ``volume.attach.end``."""
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
    """Sender of notifications about attaching and detaching, as in Cinder.

    The process that changes the state of an attachment calls a method after the commit, so that
    no notification is sent twice. The methods never raise an error, and send nothing for a legacy
    reservation. As in Cinder, the publisher is ``volume.<host>`` of the volume, although another
    process may send the notification.
    """

    def __init__(self, notifier: notifications.Notifications,
                 read_volume: Callable[[str], records.Volume],
                 read_rows: Callable[[str], Sequence[records.Attachment]]) -> None:
        """
        :param read_volume: function that returns a volume by its id
        :param read_rows: function that returns the live attachments of a volume by the volume id
        """
        self._notifier = notifier
        self._read_volume = read_volume
        self._read_rows = read_rows

    def moved(self, caller: context.RequestContext, old: records.Attachment | None,
              new: records.Attachment) -> None:
        """Send the notifications of a state change of an attachment.

        :param old: attachment before the change; None if the attachment was created
        """
        # Cinder sends nothing for os-reserve, so the reservation counts as no attachment.
        before = None if old is None or old.legacy_reservation else old.state
        for event_type in attachment_lifecycle.notifications_of(before, new.state):
            self._emit(caller, event_type, new)

    def forced(self, caller: context.RequestContext, attachment: records.Attachment) -> None:
        """Send the notification of a forced deletion, which ignores Nova and backend errors."""
        self._emit(caller, 'volume.detach.force', attachment)

    def abandoned(self, caller: context.RequestContext, attachment: records.Attachment) -> None:
        """Send the notification of the expiry of an attachment (`domain.expiry_rule`)."""
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
            # The state change is committed. A failed notification must not fail the request.
            LOG.warning('Failed to send notification%s', fields(
                event_type=event_type, attachment_id=attachment.id,
                volume_id=attachment.volume_id, reason=error))
            return
        publisher = f'volume.{volume.host}' if volume.host else None
        self._notifier.emit(caller, event_type, body, publisher)
