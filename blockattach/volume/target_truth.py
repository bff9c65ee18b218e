"""Compare what a target grants with what the rows want, and repair each difference."""
from collections.abc import Iterable
from typing import NamedTuple

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
from blockattach.volume import repairs
from blockattach.volume import volumes

LOG = oslo_log.getLogger(__name__)


class TargetTruth:
    """One backend's target against its rows. What is as it should be is never touched."""

    def __init__(self, database: engine.Database, manager: volumes.VolumeManager,
                 attachment_manager: attachments.AttachmentManager,
                 repairer: repairs.Repairer) -> None:
        self._database = database
        self._manager = manager
        self._attachments = attachment_manager
        self._repairer = repairer
        self._bare: set[str] = set()

    def repair(self) -> int:
        """One pass; returns how many differences were put right."""
        return self._repairer.repair(self.cases())

    def cases(self) -> list[repairs.Case]:
        """Every difference; nothing is changed."""
        at_work = attachment_queries.at_work(self._database, self._manager.host)
        offered = self._manager.backend.target.exports()
        known = volume_queries.existing_on(
            self._database, self._manager.host, [export.volume_id for export in offered])
        actual = [export for export in offered if export.volume_id in known]
        wanted = grants.wanted_on(
            self._database,
            attachment_queries.volumes_in_use(self._database, self._manager.host))
        found = connection.difference(
            wanted, [grant for export in actual for grant in export.grants])
        pairs = {(grant.volume_id, grant.initiator): _MISSING for grant in found.grant}
        pairs |= {(extra.volume_id, extra.initiator): _SURPLUS for extra in found.revoke}
        if pairs:
            # What somebody is at work on, or was a moment ago, is different while he is.
            at_work |= attachment_queries.at_work(self._database, self._manager.host)
        return [*(self._grant(pair, pairs[pair]) for pair in sorted(pairs) if pair not in at_work),
                *(self._stray(export.volume_id) for export in offered
                  if export.volume_id not in known and self._is_gone(export.volume_id)),
                *(self._unused(volume_id) for volume_id in self._left_bare(actual, wanted))]

    def _left_bare(self, actual: Iterable[base.ActualExport],
                   wanted: Iterable[connection.Grant]) -> list[str]:
        """Volumes offered to nobody on two passes in a row, and wanted by nobody.

        A grant that is being made looks the same for a moment; what a crash left stays.
        """
        in_use = {grant.volume_id for grant in wanted}
        bare = {export.volume_id for export in actual
                if not export.grants and export.volume_id not in in_use}
        twice = bare & self._bare
        self._bare = bare
        return sorted(twice)

    def _grant(self, pair: tuple[str, str], differs: '_Differs') -> repairs.Case:
        volume_id, initiator = pair

        def act() -> bool:
            LOG.warning('Target differs from the attachments and is repaired%s', log.fields(
                volume_id=volume_id, initiator=initiator))
            return self._attachments.align(volume_id, initiator)

        return repairs.Case('grant', differs.said, differs.remedy, act, volume_id,
                            initiator=initiator)

    def _stray(self, volume_id: str) -> repairs.Case:
        def act() -> None:
            if self._is_gone(volume_id):
                LOG.warning('Target offers a volume that is gone%s',
                            log.fields(volume_id=volume_id))
                self._manager.backend.target.unexport(volume_id)

        return repairs.Case('stray_export', 'the target offers a volume that is gone',
                            'it is offered no longer', act, volume_id)

    def _unused(self, volume_id: str) -> repairs.Case:
        return repairs.Case(
            'unused_export', 'the target offers a volume that no attachment wants',
            'it is offered no longer',
            lambda: self._manager.exports.unexport_unused(volume_id), volume_id)

    def _is_gone(self, volume_id: str) -> bool:
        """Only then: another backend on the same target sees to its own volumes."""
        try:
            volume_queries.get_bare(self._database, volume_id)
        except errors.VolumeNotFound:
            return True
        return False


class _Differs(NamedTuple):
    said: str
    remedy: str


_MISSING = _Differs('the target does not let the initiator in as its attachments say',
                    'it is let in')
_SURPLUS = _Differs('the target lets an initiator in that no attachment wants in',
                    'it is shut out')
