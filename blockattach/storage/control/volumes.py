"""The verbs of a volume: create and delete. Both answer at once; the work goes on elsewhere."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import idempotency
from blockattach.storage.control import handoff
from blockattach.storage.control import repeats
from blockattach.storage.control import volume_parts
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import pools
from blockattach.storage.domain import records
from blockattach.storage.domain import sources
from blockattach.storage.objects import placement

LOG = oslo_log.getLogger(__name__)


class VolumeControl:
    """What may be asked of a volume; the caller has been checked already."""

    def __init__(self, parts: volume_parts.VolumeParts) -> None:
        self._parts = parts

    def create(self, caller: context.RequestContext, name: str | None, description: str | None,
               size_gb: int, kind: records.VolumeType, availability_zone: str | None,
               metadata: Mapping[str, str], request: idempotency.Request | None = None,
               hints: Mapping[str, Any] | None = None,
               source: sources.Source | None = None,
               progress: Mapping[str, Any] | None = None) -> records.Volume:
        """Write a volume down and ask the scheduler to place it.

        :param request: the name that the client gave it: made once, however often it comes
        :param hints: what the client says of where it shall go; the scheduler heeds what it is
            configured to
        :param source: what it is made of, as it was judged; None: it begins empty
        :param progress: what its making has to remember from the beginning
        :raises InvalidInput: the caller has no project that it would be of
        :raises NoPoolForVolume: no pool will do, and such requests are to be refused
        :raises VolumeTypeNotFound, VolumeTypeChanged: its type is not what it was
        :raises VolumeNotFound, SnapshotNotFound, InvalidVolume, InvalidSnapshot: nor its source
        :raises QuotaExceeded: the project has as much as it may
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
        refusal = self._parts.check.refusal(pools.request_for(
            draft.kind, draft.size_gb, draft.availability_zone,
            None if draft.source is None else draft.source.host))
        failpoints.point('control.volumes.before_create')
        made = volumes.create(self._parts.database, draft, self._parts.settings.schedule_seconds,
                              within)
        if refusal is not None:
            # Before the scheduler is called: its notifications come later.
            self._parts.check.record(made.project_id, caller.request_id, made.id, refusal)
        failpoints.point('control.volumes.after_create')
        handoff.place(self._parts, caller, made.id,
                      lambda: pools.request_of(made, draft.kind.extra_specs))
        return made

    def judge_pools(self, caller: context.RequestContext, kind: records.VolumeType, size_gb: int,
                    availability_zone: str) -> Sequence[Mapping[str, Any]]:
        """What a scheduler would find on each pool for such a volume, as
        `SchedulerInterface.judge_pools` says it; nothing is made.

        :raises VolumeTypeNotFound: its type is gone
        :raises ServiceUnreachable: no scheduler answers
        """
        return self._parts.scheduler.judge_pools(
            caller, placement.VolumeRequest.from_domain(
                pools.request_for(kind, size_gb, availability_zone)), kind.id)

    def made_before(self, request: idempotency.Request | None) -> records.Volume | None:
        """What a request made when it came before: what it named may be gone since.

        :raises VolumeNotFound: it is deleted
        :raises IdempotencyKeyReused: the name was given to another body
        """
        return None if request is None else self._parts.repeats.find_volume(request)

    def delete(self, caller: context.RequestContext, volume: records.Volume,
               force: bool = False, cascade: bool = False) -> None:
        """Begin to delete a volume.

        :param force: whatever its own status is; live attachments prevent it all the same
        :param cascade: its snapshots too; only an administrator those of other projects
        :raises InvalidVolume: its status, its attachments or its snapshots do not allow it
        """
        with self._parts.telemetry.verb('volumes.delete'):
            deleting = volumes.start_delete(
                self._parts.database, volume, self._parts.settings.delete_seconds, force,
                caller.request_id, volumes.WithSnapshots(
                    cascade, None if caller.is_admin else volume.project_id))
            failpoints.point('control.volumes.after_delete')
            if deleting.host is not None:
                handoff.start_work(
                    self._parts, caller, volumes.deletion(deleting.id, deleting.generation),
                    deleting.host)
