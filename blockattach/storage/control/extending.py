"""Extend operation of volumes (os-extend). It returns at once; other processes do the work."""
from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.control import handoff
from blockattach.storage.control import volume_parts
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = oslo_log.getLogger(__name__)

IN_USE = volume_lifecycle.RANK_STATUSES[volume_lifecycle.ATTACHED_RANK].status
AVAILABLE = volume_lifecycle.RANK_STATUSES[None].status


class ExtendControl:
    """Extend operation for an authorized caller."""

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
        database = self._parts.database
        with self._parts.telemetry.verb('volumes.extend'):
            if in_use:
                self._check_online(volume)
            failpoints.point('control.extending.before_extend')
            extending.start(database, volume, new_size, IN_USE if in_use else AVAILABLE,
                            self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.extending.after_extend')
            handoff.place(self._parts, caller, volume.id,
                          lambda: placing_facts.request(database, volume.id))

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
