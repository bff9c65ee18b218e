"""Read-only operations: state of an attachment at its target, and dry run of a creation."""
from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.control import backend_calls
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import dry_runs
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import connection
from blockattach.storage.domain import explanation
from blockattach.storage.domain import records
from blockattach.storage.rpc import volume as volume_rpc


class ExplainControl:
    """Operations that read the database and call volume services, and change nothing."""

    def __init__(self, database: storage_db.Database,
                 volume_services: volume_rpc.VolumeClients) -> None:
        self._database = database
        self._volume_services = volume_services

    def at_target(self, caller: context.RequestContext,
                  attachment: records.Attachment) -> explanation.AtTarget:
        """Return the access of the host of an attachment at the target.

        If the target cannot be read, no error is raised, and ``reason`` of the result contains the
        error.
        """
        try:
            volume = volume_queries.get(self._database, attachment.volume_id)
        except errors.VolumeNotFound:
            return explanation.AtTarget(exported=False)
        asked = explanation.AtTarget(volume.host)
        if attachment.initiator is None or volume.host is None:
            return asked
        try:
            said = self._volume_services.on(volume.host).actual_grants(caller, volume.id)
        except errors.BlockattachError as exc:
            return asked._replace(reason=str(exc))
        for one in said['grants']:
            if connection.is_same_node(one['initiator'], attachment.initiator):
                return explanation.AtTarget(
                    volume.host, None, True, connection.AccessMode(one['mode']), one['sessions'],
                    one['intact'])
        return asked._replace(exported=said['exported'])

    def dry_run(self, caller: context.RequestContext,
                wish: attachments.Wish) -> records.Attachment:
        """Return the attachment that `AttachmentControl.create` would create. Nothing is stored.

        The errors of the checks before the backend call are those of `AttachmentControl.create`.

        :raises BackendError: the volume has no backend, or its volume service does not respond
        """
        row = dry_runs.reserve(self._database, wish)
        if wish.connector is not None:
            # Only a grant would show whether the target grants access. The ping shows that the
            # volume service responds, and changes nothing.
            try:
                if row.owner is None:
                    raise errors.BackendRefused(
                        reason=f'volume {row.volume_id} has no backend yet')
                self._volume_services.on(row.owner).ping(caller)
            except errors.BlockattachError as exc:
                raise backend_calls.BackendCalls.client_error(
                    'Unable to create attachment for volume', exc) from exc
        return row
