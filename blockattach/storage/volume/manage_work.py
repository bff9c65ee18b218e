"""Work that takes over existing volumes and snapshots of a backend, and releases volumes again."""
import dataclasses

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.volumes import managing as db_managing
from blockattach.storage.db.volumes import stored_names
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import managing
from blockattach.storage.domain import records
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class ManageWork:
    """Handlers of the work of manage and unmanage requests. No handler deletes data."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases

    @verbs.work(
        'volume.manage', deadline='create_seconds')
    def manage(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Rename an existing volume on the backend, and extend the volume to whole GiB."""
        with self._leases.alone(claim.resource_id):
            item = stored_names.claimed(self._database, claim)
            size_gb = item.size_gb
            # The size is recorded before the volume is renamed, because a repeated attempt may no
            # longer find the former name.
            if size_gb is None:
                size_gb = self._look(item.reference)
                try:
                    db_managing.found(self._database, claim, size_gb)
                except errors.QuotaExceeded as exc:
                    raise verbs.Failed(str(exc)) from exc
            failpoints.point('volume.managing.before_manage')
            self._backend.manage(item.reference,
                                 dataclasses.replace(item.volume, size_gb=size_gb))
            failpoints.point('volume.managing.after_manage')

    @verbs.work(
        'volume.unmanage', deadline='create_seconds')
    def unmanage(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Remove the export of a volume, so that no host can reach it any more."""
        with self._leases.volume(claim.resource_id) as lease:
            volume = volume_queries.claimed(self._database, claim).volume
            if lease is None:
                raise errors.BackendUncertain(
                    reason='another operation on the volume is in progress')
            failpoints.point('volume.managing.before_unexport')
            self._backend.target.unexport(volume.id)
            failpoints.point('volume.managing.after_unexport')

    @verbs.work(
        'snapshot.manage', deadline='create_seconds')
    def manage_snapshot(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Rename an existing snapshot on the backend to the name that the service gives it."""
        with self._leases.alone(claim.resource_id):
            item = snapshot_queries.claimed_to_manage(self._database, claim)
            stored_names.check_unknown(self._database, item.reference, 'snapshot')
            failpoints.point('volume.managing.before_manage_snapshot')
            self._backend.manage_snapshot(item.reference, item.snapshot, item.volume)
            failpoints.point('volume.managing.after_manage_snapshot')

    def _look(self, name: str) -> int:
        """Return the size in GiB, rounded up, of the stored volume ``name``.

        :raises verbs.Failed, BackendRefused: if the stored volume cannot be managed
        """
        stored = next((item for item in self._backend.manageable('volume') if item.name == name),
                      None)
        if stored is None:
            raise verbs.Failed(f'volume {name} does not exist on the backend')
        stored_names.check_unknown(self._database, name, 'volume')
        return managing.whole_gb(stored.size_bytes)
