"""What other processes may ask of a volume service: three lines a method."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.rpc import volume as volume_rpc
from blockattach.volume import attachments
from blockattach.volume import volumes
from blockattach.work import runner


class VolumeEndpoint(volume_rpc.VolumeInterface):
    """Answers for one backend. Long work is handed to the runner and goes on after the answer."""

    def __init__(self, manager: volumes.VolumeManager,
                 attachment_manager: attachments.AttachmentManager,
                 runner: runner.Runner) -> None:
        self._manager = manager
        self._attachments = attachment_manager
        self._runner = runner

    def create_volume(self, ctxt: context.RequestContext, volume_id: str,
                      generation: int) -> bool:
        """Take a volume on; False when it has gone elsewhere meanwhile."""
        return self._runner.accept(ctxt, 'volume', 'create', volume_id, generation)

    def delete_volume(self, ctxt: context.RequestContext, volume_id: str,
                      generation: int) -> None:
        """Remove a volume, unless that is at work already."""
        self._runner.accept(ctxt, 'volume', 'delete', volume_id, generation)

    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Grant an attachment's initiator; returns what is in its row then."""
        row = self._attachments.connect(ctxt, volume_id, initiator, attachment_id, generation)
        assert row.attached_at is not None
        return {'connection': row.connection, 'at': row.attached_at.isoformat()}

    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> None:
        """Revoke an attachment's initiators."""
        self._attachments.disconnect(ctxt, volume_id, initiators, attachment_id, generation)

    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """What an initiator holds of a volume."""
        return self._manager.backend.host_reservation(volume_id, initiator)

    def ping(self, ctxt: context.RequestContext) -> bool:
        """Whether the manager is there."""
        return True
