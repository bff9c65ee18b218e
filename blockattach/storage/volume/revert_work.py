"""Work on a backend that reverts volumes to their latest snapshots."""
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class RevertWork:
    """Handler of the work of revert requests."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._copied = context.copied

    @verbs.work(
        'volume.revert', deadline='create_seconds')
    def revert(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Revert a volume to its latest snapshot."""
        with self._leases.volume(claim.resource_id) as lease:
            item = volume_queries.claimed(self._database, claim)
            if lease is None:
                raise errors.BackendUncertain(
                    reason='another operation on the volume is in progress')
            snapshot = snapshot_queries.get(self._database, item.progress['snapshot_id'])
            self._backend.target.unexport(item.volume.id)
            failpoints.point('volume.reverts.before_revert')
            self._backend.revert(snapshot, item.volume,
                                 self._copied(claim))
            failpoints.point('volume.reverts.after_revert')
