"""Work on a backend that takes over existing snapshots."""
from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.storage.db.snapshots import managing as db_managing
from blockattach.storage.db.volumes import stored_names
from blockattach.storage.domain import records
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class ManageSnapshotWork:
    """Handler of the work of manage requests for snapshots. It never deletes data."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases

    @verbs.work(
        'snapshot.manage', deadline='create_seconds')
    def manage(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Rename an existing snapshot on the backend to the name of the new snapshot."""
        with self._leases.alone(claim.resource_id):
            item = db_managing.claimed(self._database, claim)
            stored_names.check_unknown(self._database, item.reference, 'snapshot')
            failpoints.point('volume.managing.before_manage_snapshot')
            self._backend.manage_snapshot(item.reference, item.snapshot, item.volume)
            failpoints.point('volume.managing.after_manage_snapshot')
