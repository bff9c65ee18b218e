"""os-extend: a volume shall be larger. It is answered at once; the work goes on elsewhere."""
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
    """What may be asked of a volume's size; the caller has been checked already."""

    def __init__(self, parts: volume_parts.VolumeParts, down_after: float) -> None:
        """
        :param down_after: see `blockattach.storage.db.services.pools.get`
        """
        self._parts = parts
        self._down_after = down_after

    def extend(self, caller: context.RequestContext, volume: records.Volume, new_size: int,
               in_use: bool) -> None:
        """Write down that a volume shall be larger, and ask the scheduler for the room.

        :param in_use: it may be, and is expected to be, in use
        :raises InvalidInput: it has this size already, or more
        :raises InvalidVolume: its status does not allow it; or it is in use, and its hosts would
            not see the new size
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
        """
        :raises InvalidVolume: hosts would not see the new size
        """
        try:
            pool = stored_pools.get(self._parts.database, volume.pool or '', self._down_after)
        except errors.PoolNotFound:
            # The scheduler says so.
            return
        if pool.capabilities.get('online_extend_support') is False:
            raise errors.InvalidVolume(
                reason=f'Volume {volume.id} is in use and its backend cannot extend attached '
                       f'volumes. Detach the volume first.')
