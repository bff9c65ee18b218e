"""os-reset_status: an administrator says what is true. It never leaves an orphan behind."""
from blockattach import context
from blockattach import errors
from blockattach.control import attachments as attachment_control
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import volume_queries
from blockattach.db import volume_settings
from blockattach.domain import records
from blockattach.domain import volume_lifecycle

_Own = volume_lifecycle.OwnStatus

OWN_STATUSES = {
    'available': _Own.AVAILABLE, 'error': _Own.ERROR, 'creating': _Own.CREATING,
    'downloading': _Own.DOWNLOADING, 'error_deleting': _Own.ERROR_DELETING,
    'maintenance': _Own.MAINTENANCE,
}
"""Words that an administrator may set, and what they mean for the volume's own life."""

DERIVED_STATUSES = frozenset({'in-use', 'attaching', 'detaching', 'reserved'})
"""Words that follow from the attachments: they may be said only where they are true."""


class ResetControl:
    """What an administrator may say of a volume; he has been checked already."""

    def __init__(self, database: engine.Database,
                 control: attachment_control.AttachmentControl) -> None:
        self._database = database
        self._control = control

    def reset(self, caller: context.RequestContext, volume: records.Volume,
              status: str | None, attach_status: str | None) -> None:
        """Set the status, the attach status, or both.

        :raises InvalidInput: what is asked for contradicts the live attachments, or has no meaning
        """
        if attach_status == 'attached' and \
                volume.lowest_rank != volume_lifecycle.ATTACHED_RANK:
            raise errors.InvalidInput(
                reason=f'Invalid volume: volume {volume.id} has no attachments, so its '
                       f'attach_status cannot be attached.')
        if status is not None and status not in OWN_STATUSES.keys() | DERIVED_STATUSES:
            raise errors.InvalidInput(
                reason=f'Invalid status: {status!r} cannot be set: nothing here would end it.')
        if attach_status == 'detached' and status in DERIVED_STATUSES:
            raise errors.InvalidInput(
                reason=f'Invalid status: {status} follows from attachments, and detached leaves '
                       f'none.')
        if attach_status == 'detached':
            self._detach_all(caller, volume)
        if status is not None:
            self._reset_status(volume_queries.get(self._database, volume.id), status)

    def _reset_status(self, volume: records.Volume, status: str) -> None:
        if status in DERIVED_STATUSES:
            now = volume_lifecycle.derive_status(_Own.AVAILABLE, volume.lowest_rank)
            if status not in (now.status, volume.status):
                raise errors.InvalidInput(
                    reason=f'Invalid volume: status {status} follows from the attachments of '
                           f'volume {volume.id}, and they say {now.status}.')
            volume_settings.reset_own_status(self._database, volume.id, _Own.AVAILABLE,
                                             forget_announced=status == now.status)
            return
        if status == _Own.AVAILABLE and self._live(volume):
            raise errors.InvalidInput(
                reason=f'Invalid volume: volume {volume.id} has live attachments; detach them, '
                       f'or reset attach_status to detached, which removes them.')
        volume_settings.reset_own_status(self._database, volume.id, OWN_STATUSES[status])

    def _detach_all(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Each attachment goes as it always goes, its grant at the target included."""
        for row in self._live(volume):
            self._control.remove(caller, row, force=True)

    def _live(self, volume: records.Volume) -> list[records.Attachment]:
        return attachment_queries.of_volume(self._database, volume.id, hidden=True)
