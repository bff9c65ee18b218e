"""Hold a target to the rows: compare what it lets in with what they want, mend each difference."""
from collections.abc import Iterable

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import grants
from blockattach.db import volume_queries
from blockattach.domain import connection
from blockattach.drivers import base
from blockattach.volume import attachments
from blockattach.volume import mending
from blockattach.volume import volumes

LOG = oslo_log.getLogger(__name__)


class TargetTruth:
    """One backend's target against its rows. What is as it should be is never touched."""

    def __init__(self, database: engine.Database, keeper: volumes.VolumeKeeper,
                 attachment_keeper: attachments.AttachmentKeeper,
                 menders: mending.Menders) -> None:
        self._database = database
        self._keeper = keeper
        self._attachments = attachment_keeper
        self._menders = menders
        self._bare: set[str] = set()

    def mend(self) -> int:
        """One pass; returns how many differences were put right."""
        offered = self._keeper.backend.target.exports()
        known = volume_queries.on_host(self._database, self._keeper.host)
        actual = [export for export in offered if export.volume_id in known]
        wanted = grants.wanted_on(
            self._database,
            attachment_queries.volumes_in_use(self._database, self._keeper.host))
        found = connection.difference(
            wanted, [grant for export in actual for grant in export.grants])
        pairs = sorted({(grant.volume_id, grant.initiator) for grant in found.grant}
                       | {(extra.volume_id, extra.initiator) for extra in found.revoke})
        for volume_id, initiator in pairs:
            LOG.warning('Target differs from the attachments and is mended%s', log.fields(
                volume_id=volume_id, initiator=initiator))
        mended = self._menders.each('grant', self._attachments.align, pairs)
        strays = [(export.volume_id,) for export in offered if export.volume_id not in known]
        mended += self._menders.each('stray_export', self._unexport, strays)
        return mended + self._menders.each(
            'unused_export', self._keeper.exports.unexport_unused,
            self._left_bare(actual, wanted))

    def _left_bare(self, actual: Iterable[base.ActualExport],
                   wanted: Iterable[connection.Grant]) -> list[tuple[str]]:
        """Volumes offered to nobody on two passes in a row, and wanted by nobody.

        A grant that is being made looks the same for a moment; what a crash left stays.
        """
        in_use = {grant.volume_id for grant in wanted}
        bare = {export.volume_id for export in actual
                if not export.grants and export.volume_id not in in_use}
        twice = bare & self._bare
        self._bare = bare
        return [(volume_id,) for volume_id in sorted(twice)]

    def _unexport(self, volume_id: str) -> None:
        """Only what is gone: another backend on the same target sees to its own volumes."""
        try:
            volume_queries.get(self._database, volume_id)
        except errors.VolumeNotFound:
            LOG.warning('Target offers a volume that is gone%s', log.fields(volume_id=volume_id))
            self._keeper.backend.target.unexport(volume_id)
