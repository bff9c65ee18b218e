"""Manage and unmanage operations, and the lists of manageable volumes and snapshots."""
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.control import handoff
from blockattach.storage.control import places
from blockattach.storage.control import volume_parts
from blockattach.storage.db.volumes import managing as db_managing
from blockattach.storage.db.volumes import stored_names
from blockattach.storage.db.volumes import unmanaging
from blockattach.storage.domain import managing
from blockattach.storage.domain import pools
from blockattach.storage.domain import records

LOG = oslo_log.getLogger(__name__)


class Wish(NamedTuple):
    """Requested properties of a volume that is to be managed.

    :ivar kind: volume type
    :ivar reference: name of the existing volume on the backend
    :ivar availability_zone: None for the zone of the pool
    """

    kind: records.VolumeType
    reference: str
    name: str | None
    description: str | None
    metadata: Mapping[str, str]
    bootable: bool
    availability_zone: str | None


class ManageControl:
    """Manage and unmanage operations for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts, down_after: float) -> None:
        """
        :param down_after: seconds without a heartbeat after which a service counts as down
        """
        self._parts = parts
        self._down_after = down_after

    def manage(self, caller: context.RequestContext, place: places.Place,
               wish: Wish) -> records.Volume:
        """Create the row of a volume to manage, and ask the scheduler to start the operation.

        :param place: backend or pool that has the existing volume
        :raises InvalidInput: the backend does not exist or is not available, or the request
            context has no project
        :raises VolumeTypeNotFound, VolumeTypeChanged: the type was deleted or changed since the
            request was authorized
        :raises QuotaExceeded: the project has reached a quota
        """
        if not caller.project_id:
            raise errors.InvalidInput('A project-scoped token is required.')
        with self._parts.telemetry.verb('volumes.manage'):
            pool = places.pool(self._parts.database, place, self._down_after)
            failpoints.point('control.managing.before_manage')
            made = db_managing.start(self._parts.database, db_managing.Draft(
                project_id=caller.project_id, user_id=caller.user_id or '', name=wish.name,
                description=wish.description, kind=wish.kind, metadata=wish.metadata,
                availability_zone=wish.availability_zone or pool.availability_zone,
                bootable=wish.bootable, pool=pool.name, service_uuid=pool.service_uuid,
                reference=wish.reference, request_id=caller.request_id),
                self._parts.settings.schedule_seconds)
            failpoints.point('control.managing.after_manage')
            handoff.place(self._parts, caller, made.id, lambda: pools.request_of(
                made, wish.kind.extra_specs, 'manage'))
        return made

    def check(self, volume: records.Volume) -> None:
        """Check that the backend of a volume is up and enabled.

        A volume without a pool passes the check.

        :raises InvalidInput: the backend is down or disabled
        """
        if volume.pool is not None:
            places.backend(self._parts.database, places.Place('Host', volume.pool),
                           self._down_after)

    def unmanage(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Start the unmanage operation of a volume.

        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        :raises InvalidInput: the volume is encrypted
        :raises InvalidVolume: the status, the attachments or the snapshots of the volume do not
            allow the operation
        """
        with self._parts.telemetry.verb('volumes.unmanage'):
            wanted = unmanaging.start(
                self._parts.database, volume, self._parts.settings.delete_seconds,
                caller.request_id)
            failpoints.point('control.managing.after_unmanage')
            if wanted is not None:
                handoff.start_work(self._parts, caller, wanted, volume.host)

    def stored(self, caller: context.RequestContext, place: places.Place,
               noun: str) -> tuple[list[managing.Stored], Mapping[str, str]]:
        """Return the volumes or snapshots that a backend stores, whether managed or not.

        :param place: backend or pool
        :param noun: ``volume`` or ``snapshot``
        :returns: stored volumes or snapshots, and the IDs of those that are managed by this
            service, by their names on the backend
        :raises InvalidInput: the backend does not exist, or is not available
        """
        backend = places.backend(self._parts.database, place, self._down_after)
        found = self._parts.volume_services.on(backend).list_manageable(caller, noun)
        stored = [managing.Stored(**_fields(one)) for one in found]
        by_name = managing.ids((one.name for one in stored), noun)
        living = stored_names.live_ids(self._parts.database, by_name.values(), noun)
        return stored, {name: one for name, one in by_name.items() if one in living}


def _fields(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item.get(name) for name in ('name', 'size_bytes', 'origin', 'in_use')}
