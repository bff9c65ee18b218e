"""Operations that create and delete volumes, and evaluations of pools.

Create and delete operations return before the volume is created or deleted by other processes.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import idempotency
from blockattach.storage import objects
from blockattach.storage.control import handoff
from blockattach.storage.control import repeats
from blockattach.storage.control import volume_parts
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import pools
from blockattach.storage.domain import records
from blockattach.storage.domain import sources

LOG = oslo_log.getLogger(__name__)


class VolumeControl:
    """Operations that create and delete volumes for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts) -> None:
        self._parts = parts

    def create(self, caller: context.RequestContext, name: str | None, description: str | None,
               size_gb: int, kind: records.VolumeType, availability_zone: str | None,
               metadata: Mapping[str, str], request: idempotency.Request | None = None,
               hints: Mapping[str, Any] | None = None,
               source: sources.Source | None = None,
               progress: Mapping[str, Any] | None = None) -> records.Volume:
        """Create the row of a volume, and ask the scheduler to place the volume.

        :param kind: volume type for which the request was authorized
        :param availability_zone: None for the configured default zone
        :param request: identity of a request with an idempotency key, which creates only one
            volume if it is repeated; None without a key
        :param hints: scheduler hints of the client
        :param source: source of the data, for which the request was authorized; None for an empty
            volume
        :param progress: initial ``progress`` of the work item that creates the volume
        :raises InvalidInput: the request context has no project
        :raises NoPoolForVolume: no pool is suitable, and the configuration rejects such requests
        :raises VolumeTypeNotFound, VolumeTypeChanged: the type was deleted or changed since the
            request was authorized
        :raises VolumeNotFound, SnapshotNotFound, InvalidVolume, InvalidSnapshot: the source was
            deleted or changed since the request was authorized
        :raises QuotaExceeded: the project has reached a quota
        """
        if not caller.project_id:
            raise errors.InvalidInput(reason='Invalid input received: A project-scoped '
                                             'token is required.')
        draft = volumes.Draft(
            project_id=caller.project_id, user_id=caller.user_id or '', name=name,
            description=description, size_gb=size_gb, kind=kind,
            availability_zone=availability_zone or self._parts.settings.availability_zone,
            metadata=metadata, hints=hints, request_id=caller.request_id, source=source,
            progress=progress)
        with self._parts.telemetry.verb('volumes.create'):
            if request is None:
                return self._create(caller, draft)
            return self._parts.repeats.once(
                request, lambda within: self._create(caller, draft, within),
                self._parts.repeats.volume)

    def _create(self, caller: context.RequestContext, draft: volumes.Draft,
                within: repeats.Within | None = None) -> records.Volume:
        # The check comes before the volume is stored, because the check may reject the request.
        refusal = self._parts.check.refusal(pools.request_for(
            draft.kind, draft.size_gb, draft.availability_zone,
            None if draft.source is None else draft.source.host))
        failpoints.point('control.volumes.before_create')
        made = volumes.create(self._parts.database, draft, self._parts.settings.schedule_seconds,
                              within)
        if refusal is not None:
            # The user message is created before the scheduler is called, see `PoolCheck.record`.
            self._parts.check.record(made.project_id, caller.request_id, made.id, refusal)
        failpoints.point('control.volumes.after_create')
        handoff.place(self._parts, caller, made.id,
                      lambda: pools.request_of(made, draft.kind.extra_specs))
        return made

    def judge_pools(self, caller: context.RequestContext, kind: records.VolumeType, size_gb: int,
                    availability_zone: str) -> Sequence[Mapping[str, Any]]:
        """Evaluate all pools for a new volume without creating the volume.

        :param kind: volume type
        :param size_gb: size in GiB
        :returns: verdicts on the pools in the form of `SchedulerInterface.judge_pools`
        :raises VolumeTypeNotFound: the type is deleted
        :raises ServiceUnreachable: no scheduler responds
        """
        return self._parts.scheduler.judge_pools(
            caller, objects.VolumeRequest.from_domain(
                pools.request_for(kind, size_gb, availability_zone)), kind.id)

    def made_before(self, request: idempotency.Request | None) -> records.Volume | None:
        """Return the volume that an earlier request with the same idempotency key has created.

        :param request: identity of the request; None without an idempotency key
        :returns: None if there is no key, or if no volume was created
        :raises VolumeNotFound: the volume is deleted
        :raises IdempotencyKeyReused: the key was used with another request body
        """
        return None if request is None else self._parts.repeats.find_volume(request)

    def delete(self, caller: context.RequestContext, volume: records.Volume,
               force: bool = False, cascade: bool = False) -> None:
        """Start the deletion of a volume.

        :param force: True to ignore the own status of the volume. Live attachments prevent the
            deletion nevertheless
        :param cascade: True to delete the snapshots of the volume too. Only an administrator can
            delete snapshots of other projects
        :raises VolumeNotFound: the volume was deleted or transferred in the meantime
        :raises InvalidVolume: the status, the attachments or the snapshots of the volume do not
            allow the deletion, or the backend is frozen
        """
        with self._parts.telemetry.verb('volumes.delete'):
            deleting = volumes.start_delete(
                self._parts.database, volume, self._parts.settings.delete_seconds, force,
                caller.request_id, volumes.WithSnapshots(
                    cascade, None if caller.is_admin else volume.project_id))
            failpoints.point('control.volumes.after_delete')
            # A volume without a pool has no data and is already deleted.
            if deleting.host is not None:
                handoff.start_work(
                    self._parts, caller, volumes.deletion(deleting.id, deleting.generation),
                    deleting.host)
