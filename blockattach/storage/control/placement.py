"""Extend, migrate and retype operations of volumes, for which the scheduler claims capacity.

The operations return before other processes have executed the work.
"""
from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.control import handoff
from blockattach.storage.control import volume_parts
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import moving
from blockattach.storage.domain import binaries
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

IN_USE = volume_lifecycle.RANK_STATUSES[volume_lifecycle.ATTACHED_RANK].status
AVAILABLE = volume_lifecycle.RANK_STATUSES[None].status


class PlacementControl:
    """Extend, migrate and retype operations for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts, down_after: float) -> None:
        """
        :param down_after: seconds without a heartbeat after which a service counts as down
        """
        self._parts = parts
        self._down_after = down_after

    def extend(self, caller: context.RequestContext, volume: records.Volume, new_size: int,
               in_use: bool) -> None:
        """Start the extension of a volume, and ask the scheduler to claim the capacity.

        :param new_size: new size in GiB
        :param in_use: True if the status of the volume must be ``in-use``, False if it must be
            ``available``
        :raises InvalidInput: the new size is not larger than the size of the volume
        :raises InvalidVolume: the status of the volume does not allow an extension, or the backend
            cannot extend attached volumes
        :raises QuotaExceeded: the new size exceeds a quota of the project
        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        """
        with self._parts.telemetry.verb('volumes.extend'):
            if in_use:
                self._check_online(volume)
            failpoints.point('control.extending.before_extend')
            extending.start(self._parts.database, volume, new_size,
                            IN_USE if in_use else AVAILABLE,
                            self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.extending.after_extend')
            handoff.place_stored(self._parts, caller, volume.id)

    def migrate(self, caller: context.RequestContext, volume: records.Volume, named: str,
                lock: bool) -> None:
        """Start the migration of a volume, and ask the scheduler to claim the capacity.

        :param named: destination: ``host@backend`` or ``cluster@backend``, optionally followed by
            ``#pool``
        :param lock: True to set the volume to status ``maintenance`` during the migration
        :raises InvalidInput: no available backend or pool has this name, or the destination is on
            another host than the volume
        :raises InvalidVolume: the status, the attachments, the snapshots or the backend of the
            volume do not allow the migration
        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        """
        with self._parts.telemetry.verb('volumes.migrate'):
            destination = self._destination(named)
            here = (volume.host or '').partition('@')[0]
            # The process that copies the data must serve both backends.
            if volume.host is not None and destination.partition('@')[0] != here:
                raise errors.InvalidInput(
                    reason=f'Invalid input received: Volumes can only be migrated between '
                           f'backends of one host. {errors.shortened(named)} is not on {here}.')
            failpoints.point('control.moving.before_migrate')
            moving.migrate(self._parts.database, volume, destination, lock,
                           self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.moving.after_migrate')
            handoff.place_stored(self._parts, caller, volume.id)

    def retype(self, caller: context.RequestContext, volume: records.Volume,
               retyping: moving.Retyping) -> None:
        """Start the retype of a volume, and ask the scheduler to place the volume.

        :param retyping: new type, and whether the volume may be migrated
        :raises InvalidVolume: the status or the attachments of the volume do not allow the retype
        :raises VolumeTypeNotFound, VolumeTypeChanged: the new type was deleted or changed since
            the request was authorized
        :raises QuotaExceeded: the project has reached a quota of the new type
        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        """
        with self._parts.telemetry.verb('volumes.retype'):
            failpoints.point('control.moving.before_retype')
            moving.retype(self._parts.database, volume, retyping,
                          self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.moving.after_retype')
            handoff.place_stored(self._parts, caller, volume.id)

    def _check_online(self, volume: records.Volume) -> None:
        """Check that the backend of a volume can extend attached volumes.

        :raises InvalidVolume: the backend cannot extend attached volumes
        """
        try:
            pool = stored_pools.get(self._parts.database, volume.pool or '', self._down_after)
        except errors.PoolNotFound:
            # The scheduler reports the missing pool.
            return
        if pool.capabilities.get('online_extend_support') is False:
            raise errors.InvalidVolume(
                reason=f'Volume {volume.id} is in use and its backend cannot extend attached '
                       f'volumes. Detach the volume first.')

    def _destination(self, named: str) -> str:
        """Return the name of a destination, as it appears in the names of its pools.

        The name of a member of a cluster is replaced by the name of the cluster.

        :param named: destination that the request names
        :raises InvalidInput: the destination does not exist, or has no service that is up and
            enabled
        """
        backend, _, pool = named.partition('#')
        for service in services.list_all(self._parts.database, self._down_after,
                                         binary=binaries.VOLUME):
            if not service.disabled and service.up and backend in (service.host,
                                                                   service.cluster):
                found = f'{service.backend}#{pool}' if pool else service.backend
                if not pool or any(one.name == found for one in stored_pools.list_all(
                        self._parts.database, self._down_after)):
                    return found
        raise errors.InvalidInput(
            reason=f"Invalid host: No available service named '{errors.shortened(named)}'")
