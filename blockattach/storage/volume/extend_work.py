"""Work on a backend that extends volumes."""
import dataclasses

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.volume import server_notices
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs


class ExtendWork:
    """Handler of the work of extend requests."""

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._notices = server_notices.ServerNotices(context)

    @verbs.work(
        'volume.extend', deadline='create_seconds')
    def extend(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Extend a volume on the store, then make its new size visible to its hosts."""
        with self._leases.alone(claim.resource_id):
            item = volume_queries.claimed(self._database, claim)
            volume, new_size = item.volume, int(item.progress['new_size'])
            if volume.lowest_rank is not None and not self._backend.resizes_live:
                raise verbs.Failed('hosts would not see the new size until the volume is '
                                   'detached and attached again')
            failpoints.point('volume.extending.before_extend')
            self._backend.extend(volume, new_size)
            failpoints.point('volume.extending.after_extend')
            self._backend.resize(dataclasses.replace(volume, size_gb=new_size))
            begun = extending.extended(self._database, claim, self._notices.seconds)
        if begun is not None:
            self._notices.notify_now(caller, begun)
