"""Volume operations: create and delete. They return at once; other processes do the work."""
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
    """Volume operations for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts) -> None:
        self._parts = parts

    def create(self, caller: context.RequestContext, name: str | None, description: str | None,
               size_gb: int, kind: records.VolumeType, availability_zone: str | None,
               metadata: Mapping[str, str], request: idempotency.Request | None = None,
               hints: Mapping[str, Any] | None = None,
               source: sources.Source | None = None,
               progress: Mapping[str, Any] | None = None) -> records.Volume:
        """Create a volume record, and ask the scheduler to place the volume.

        :param request: idempotency key; repeated requests create only one volume
        :param hints: scheduler hints of the client, of which the configured filters use some
        :param source: checked source of the volume; None creates an empty volume
        :param progress: data that the creation stores from the beginning
        :raises InvalidInput: the request context has no project
        :raises NoPoolForVolume: no pool is suitable, and the configuration rejects such requests
        :raises VolumeTypeNotFound, VolumeTypeChanged: the type was deleted or changed since the
            check
        :raises VolumeNotFound, SnapshotNotFound, InvalidVolume, InvalidSnapshot: the source was
            deleted or changed since the check
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
        # Before the volume is stored, because the check may reject the request.
        refusal = self._parts.check.refusal(pools.request_for(
            draft.kind, draft.size_gb, draft.availability_zone,
            None if draft.source is None else draft.source.host))
        failpoints.point('control.volumes.before_create')
        made = volumes.create(self._parts.database, draft, self._parts.settings.schedule_seconds,
                              within)
        if refusal is not None:
            # The message precedes the notifications of the scheduler.
            self._parts.check.record(made.project_id, caller.request_id, made.id, refusal)
        failpoints.point('control.volumes.after_create')
        handoff.place(self._parts, caller, made.id,
                      lambda: pools.request_of(made, draft.kind.extra_specs))
        return made

    def judge_pools(self, caller: context.RequestContext, kind: records.VolumeType, size_gb: int,
                    availability_zone: str) -> Sequence[Mapping[str, Any]]:
        """Return the verdict of a scheduler on each pool for a new volume.

        The verdicts have the form of `SchedulerInterface.judge_pools`. Nothing is created.

        :param size_gb: size in GiB
        :raises VolumeTypeNotFound: the type is deleted
        :raises ServiceUnreachable: no scheduler responds
        """
        return self._parts.scheduler.judge_pools(
            caller, objects.VolumeRequest.from_domain(
                pools.request_for(kind, size_gb, availability_zone)), kind.id)

    def made_before(self, request: idempotency.Request | None) -> records.Volume | None:
        """Return the volume that an earlier copy of the request created, or None.

        :raises VolumeNotFound: the volume is deleted
        :raises IdempotencyKeyReused: the key was used with another body
        """
        return None if request is None else self._parts.repeats.find_volume(request)

    def delete(self, caller: context.RequestContext, volume: records.Volume,
               force: bool = False, cascade: bool = False) -> None:
        """Start to delete a volume.

        :param force: ignore the volume's own status; live attachments still prevent the deletion
        :param cascade: also delete its snapshots; those of other projects only for administrators
        :raises InvalidVolume: the status, the attachments or the snapshots do not allow it
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
