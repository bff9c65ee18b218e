"""os-migrate_volume and os-retype: answered at once; the work goes on elsewhere."""
from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.control import handoff
from blockattach.storage.control import volume_parts
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import binaries
from blockattach.storage.domain import records

LOG = oslo_log.getLogger(__name__)


class MoveControl:
    """What may be asked of a volume's place and type; the caller has been checked already."""

    def __init__(self, parts: volume_parts.VolumeParts, down_after: float) -> None:
        """
        :param down_after: see `blockattach.storage.db.services.pools.get`
        """
        self._parts = parts
        self._down_after = down_after

    def migrate(self, caller: context.RequestContext, volume: records.Volume, named: str,
                lock: bool) -> None:
        """Write down that a volume shall go to another backend, and ask the scheduler.

        :param named: ``host@backend``, that of a cluster, or a pool
        :param lock: clients see it in maintenance meanwhile
        :raises InvalidInput: nothing that could take it has this name
        :raises InvalidVolume: its status or its place does not allow it
        """
        with self._parts.telemetry.verb('volumes.migrate'):
            destination = self._destination(named)
            here = (volume.host or '').partition('@')[0]
            if volume.host is not None and destination.partition('@')[0] != here:
                raise errors.InvalidInput(
                    reason=f'Invalid input received: Volumes can only be migrated between '
                           f'backends of one host. {errors.shortened(named)} is not on {here}.')
            failpoints.point('control.moving.before_migrate')
            moving.migrate(self._parts.database, volume, destination, lock,
                           self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.moving.after_migrate')
            handoff.place(self._parts, caller, volume.id,
                          lambda: placing_facts.request(self._parts.database, volume.id))

    def retype(self, caller: context.RequestContext, volume: records.Volume,
               wanted: moving.Retyping) -> None:
        """Write down that a volume shall have another type, and ask the scheduler.

        :raises InvalidVolume: its status or its attachments do not allow it
        :raises VolumeTypeNotFound, VolumeTypeChanged: the type is not what was judged
        :raises QuotaExceeded: the project may not have so much of the type
        """
        with self._parts.telemetry.verb('volumes.retype'):
            failpoints.point('control.moving.before_retype')
            moving.retype(self._parts.database, volume, wanted,
                          self._parts.settings.schedule_seconds, caller.request_id)
            failpoints.point('control.moving.after_retype')
            handoff.place(self._parts, caller, volume.id,
                          lambda: placing_facts.request(self._parts.database, volume.id))

    def _destination(self, named: str) -> str:
        """The same as its pools are named.

        :raises InvalidInput: no service that is up and enabled has it
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
