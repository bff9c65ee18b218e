"""Comparison of a target with the attachments in the database, and repair of differences.

If the grant of a (volume, initiator) pair differs, a thread converges the pair under the lease of
the pair (`blockattach.storage.volume.converge`). A failed repair is logged and retried by the next
pass.

``blockattach-manage reconcile`` repairs a backend from another process (`OneShot`). The command
stores leases, so that the command and a volume manager never act on the same pair.
"""
import dataclasses
from collections.abc import Sequence

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import connection
from blockattach.storage.volume import converge
from blockattach.storage.work import recover

LOG = oslo_log.getLogger(__name__)

WOULD = 'would be done'


class TargetTruth:
    """Comparison of the target of one backend with the rows, and repair of the differences."""

    def __init__(self, database: storage_db.Database, host: str, converger: converge.Converger,
                 repairer: recover.Repairer) -> None:
        self._database = database
        self._host = host
        self._converger = converger
        self._leases = converger.leases
        self._target = converger.backend.target
        self._repairer = repairer
        self._bare: set[str] = set()

    def repair(self) -> int:
        """Repair all differences, and return the number of repaired differences."""
        return self._repairer.each(self.cases()).count(recover.REPAIRED)

    def cases(self) -> list[recover.Case]:
        """Return all differences between the target and the rows, without changing anything.

        A volume that is exported without a grant and needed by no attachment is included only if
        the previous call has found it, too.
        """
        at_work = attachment_queries.at_work(self._database, self._host)
        exports = self._target.exports()
        known = volume_queries.existing_on(
            self._database, self._host, [export.volume_id for export in exports])
        actual = [export for export in exports if export.volume_id in known]
        wanted = grants.wanted(
            self._database, attachment_queries.volumes_in_use(self._database, self._host))
        missing, surplus = connection.difference(
            wanted, [grant for export in actual for grant in export.grants])
        differing = {*missing, *surplus}
        if differing:
            # Pairs that are being connected or disconnected differ for a while. Such pairs are
            # read before and after the target, and are left out.
            at_work |= attachment_queries.at_work(self._database, self._host)
        # A volume is exported for a moment before its first grant exists. An export that a crash
        # has orphaned still exists in the next pass.
        bare = ({export.volume_id for export in actual if not export.grants}
                - {grant.volume_id for grant in wanted})
        unused, self._bare = bare & self._bare, bare
        return [*(self._grant(pair, pair in missing) for pair in sorted(differing - at_work)),
                *(self._stray(export.volume_id) for export in exports
                  if export.volume_id not in known and self._is_gone(export.volume_id)),
                *map(self._unused, sorted(unused))]

    def repair_pair(self, volume_id: str, initiator: str) -> bool:
        """Converge a pair, and return False if another process or thread holds its lease.

        :raises BackendError: if the pair cannot be converged
        """
        with self._leases.try_pair(volume_id, initiator) as lease:
            if lease is not None:
                LOG.warning('Repairing grant%s', log.fields(
                    volume_id=volume_id, initiator=initiator,
                    reason='target differs from the attachments'))
                self._converger.converge(lease)
            return lease is not None

    def unexport_unused(self, volume_id: str) -> bool:
        """Remove the export of a volume, unless an attachment needs a grant.

        :returns: True if the export was removed; False if an attachment needs a grant, or if
            another process holds a lease on the volume
        :raises BackendUncertain: if the lease has expired, so that another process may have acted
        """
        with self._leases.volume(volume_id, wait=False) as lease:
            if lease is None or grants.wanted(self._database, [volume_id]):
                return False
            lease.check()
            self._target.unexport(volume_id)
            return True

    def _grant(self, pair: tuple[str, str], missing: bool) -> recover.Case:
        said, remedy = ((
            'the target does not grant the initiator the access of its attachments',
            'grant access',
        ) if missing else (
            'the target grants access to an initiator that no attachment needs', 'revoke access'))
        return recover.Case('grant', said, remedy, lambda: self.repair_pair(*pair), pair[0],
                            initiator=pair[1])

    def _stray(self, volume_id: str) -> recover.Case:
        def act() -> None:
            if self._is_gone(volume_id):
                LOG.warning('Removing export of deleted volume%s',
                            log.fields(volume_id=volume_id))
                self._target.unexport(volume_id)

        return recover.Case('stray_export', 'the target exports a volume that does not exist',
                            'remove the export', act, volume_id)

    def _unused(self, volume_id: str) -> recover.Case:
        return recover.Case('unused_export',
                            'the target exports a volume that no attachment needs',
                            'remove the export', lambda: self.unexport_unused(volume_id),
                            volume_id)

    def _is_gone(self, volume_id: str) -> bool:
        """Return True if a volume does not exist on any backend.

        If another backend uses the same target, its manager repairs the exports of its volumes.
        """
        try:
            volume_queries.get_bare(self._database, volume_id)
        except errors.VolumeNotFound:
            return True
        return False


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Difference between rows and target, and the outcome of its repair.

    :ivar said: description of the difference
    :ivar remedy: description of the repair
    :ivar outcome: `recover.REPAIRED`, `recover.CONFLICT`, `WOULD`, or the reason of a failure
    """

    host: str
    drift: str
    volume_id: str
    attachment_id: str | None
    initiator: str | None
    said: str
    remedy: str
    outcome: str

    @property
    def remains(self) -> bool:
        """True if the difference must still be repaired."""
        return self.outcome not in (recover.REPAIRED, recover.CONFLICT)


class OneShot:
    """Single reconciliation of one ``host@backend`` on request."""

    def __init__(self, host: str, recovery: recover.Recovery, truth: TargetTruth,
                 repairer: recover.Repairer) -> None:
        self._host = host
        self._recovery = recovery
        self._truth = truth
        self._repairer = repairer

    def run(self, dry_run: bool) -> list[Finding]:
        """Return all differences, and repair them unless ``dry_run`` is True."""
        return self.look() if dry_run else self.repair()

    def look(self) -> list[Finding]:
        """Return all differences without repairing any.

        :raises BackendError: if the target does not answer
        """
        rows = self._recovery.cases()
        # The repair of an interrupted row also converges its pair, which is not reported twice.
        theirs = {(case.volume_id, case.initiator) for case in rows}
        return self._findings([*rows, *(case for case in self._differences()
                                        if (case.volume_id, case.initiator) not in theirs)])

    def repair(self) -> list[Finding]:
        """Resume interrupted attachments and work, then repair the differences of the target.

        :returns: each difference with the outcome of its repair
        :raises BackendError: if the target does not answer
        """
        rows = self._recovery.cases()
        # These repairs also converge pairs, so the target is read afterwards.
        findings = self._findings(rows, self._repairer.each(rows))
        differences = self._differences()
        return findings + self._findings(differences, self._repairer.each(differences))

    def _differences(self) -> list[recover.Case]:
        # An export without a grant is reported from the second comparison on.
        self._truth.cases()
        return self._truth.cases()

    def _findings(self, cases: Sequence[recover.Case],
                  outcomes: Sequence[str] | None = None) -> list[Finding]:
        return [Finding(self._host, case.drift, case.volume_id, case.attachment_id,
                        case.initiator, case.said, case.remedy, outcome)
                for case, outcome in zip(cases, outcomes or [WOULD] * len(cases), strict=True)]
