"""Work that extends volumes of a backend, and notifies servers of their new sizes."""
import dataclasses

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage.db import messages as db_messages
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import messages
from blockattach.storage.domain import records
from blockattach.storage.volume import work_context
from blockattach.storage.work import verbs

LOG = oslo_log.getLogger(__name__)


class ExtendWork:
    """Handlers of the work of extend requests, and of the work that notifies servers afterwards.

    The notification is a separate work item, so that another process can send the notification if
    this process ends before.
    """

    def __init__(self, context: work_context.WorkContext) -> None:
        self._database = context.database
        self._backend = context.backend
        self._leases = context.leases
        self._notify = context.notify
        # None if no server uses the volumes of this service.
        self._notice_seconds = None if context.notify is None else context.notice_seconds

    @verbs.work(
        'volume.extend', deadline='create_seconds')
    def extend(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Extend a volume on the store, then make its new size visible to connected hosts."""
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
            begun = extending.extended(self._database, claim, self._notice_seconds)
        if begun is not None:
            self.notify(caller, begun)
            work.forget(self._database, begun)

    @verbs.work('volume.notify', deadline='create_seconds',
                done=lambda self, claim, result: work.forget(self._database, claim),
                cancel=work_ends.forget)
    def notify(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Notify the servers of a volume of its new size, and report failures to the user."""
        # The id of the work item is that of the volume with a suffix.
        volume_id = claim.resource_id.partition('@')[0]
        servers = extending.servers(self._database, volume_id)
        if not servers or self._notify is None:
            return
        failpoints.point('volume.notices.before_notify')
        failures = self._notify(servers, volume_id)
        failpoints.point('volume.notices.after_notify')
        if not failures:
            LOG.info('Servers notified of new volume size%s',
                     log.fields(volume_id=volume_id))
            return
        detail = '; '.join(f'Server {server_id}: {reason}'
                           for server_id, reason in sorted(failures.items()))
        LOG.warning('Failed to notify servers of new volume size%s',
                    log.fields(volume_id=volume_id, reason=detail))
        project_id = volume_queries.get_bare(self._database, volume_id).project_id
        db_messages.create(self._database, project_id, caller.request_id,
                           messages.EXTEND_UNNOTICED, volume_id, detail, words=detail,
                           once=True)
