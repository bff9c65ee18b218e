"""Revert volumes to their latest snapshots on one backend: what goes on after the answer."""
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class RevertWork:
    """The act on the volumes of one backend."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._copied = context.copied

    @verbs.work(
        'volume.revert', deadline='create_seconds')
    def revert(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Give a volume the bytes of its latest snapshot."""
        with self._leases.volume(claim.resource_id) as lease:
            found = volume_queries.claimed(self._database, claim)
            if lease is None:
                raise errors.BackendUncertain(
                    reason='another operation on the volume is in progress')
            snapshot = snapshot_queries.get(self._database, found.progress['snapshot_id'])
            self._backend.target.unexport(found.volume.id)
            failpoints.point('volume.reverts.before_revert')
            self._backend.revert(snapshot, found.volume,
                                 self._copied(claim))
            failpoints.point('volume.reverts.after_revert')
