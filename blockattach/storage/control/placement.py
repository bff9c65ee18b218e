"""Extend, migrate and retype operations of volumes, for which the scheduler selects a pool.

They return at once; other processes do the work.
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
        """Create the control object.

        :param down_after: see `blockattach.storage.db.services.pools.get`
        """
        self._parts = parts
        self._down_after = down_after

    def extend(self, caller: context.RequestContext, volume: records.Volume, new_size: int,
               in_use: bool) -> None:
        """Store the intent to extend a volume, and ask the scheduler for capacity.

        :param new_size: size in GiB
        :param in_use: True if the volume is expected to be in use, else it must be available
        :raises InvalidInput: the new size is not larger than the size of the volume
        :raises InvalidVolume: the status of the volume does not allow it, or the volume is in use
            and its hosts would not see the new size
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
        """Store the intent to migrate a volume to another backend, and ask the scheduler.

        :param named: ``host@backend``, ``cluster@backend``, or a pool
        :param lock: True to show the volume in status maintenance meanwhile
        :raises InvalidInput: no available backend or pool has this name, or it is on another host
        :raises InvalidVolume: the status or the pool of the volume does not allow it
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
        """Store the intent to change the type of a volume, and ask the scheduler.

        :raises InvalidVolume: the status or the attachments of the volume do not allow it
        :raises VolumeTypeNotFound, VolumeTypeChanged: the type was deleted or changed since the
            check
        :raises QuotaExceeded: the project has reached a quota of the new type
        """
        with self._parts.telemetry.verb('volumes.retype'):
            failpoints.point('control.moving.before_retype')
            moving.retype(self._parts.database, volume, retyping,
                          self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.moving.after_retype')
            handoff.place_stored(self._parts, caller, volume.id)

    def _check_online(self, volume: records.Volume) -> None:
        """Check whether the hosts of a volume in use would see the new size.

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
        """Return the destination in the form in which its pools are named.

        :raises InvalidInput: no service that is up and enabled has this backend or pool
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
