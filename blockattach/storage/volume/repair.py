"""Compare a target with the rows, and repair what differs, in a few threads side by side.

A pair that differs is converged, under a lease of its own; nothing is granted or revoked here.
What fails is logged, and comes again on the next pass.

``blockattach-manage reconcile`` repairs a backend from outside (`OneShot`), with leases of its
own, by which it is excluded from the managers of the backend and they from it.
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
    """One backend's target against its rows. What is as it should be is never touched."""

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
        """One pass; returns how many differences were repaired."""
        return self._repairer.each(self.cases()).count(recover.REPAIRED)

    def cases(self) -> list[recover.Case]:
        """Every difference; nothing is changed. Of volumes that are exported without a grant, and
        wanted by no row, those that the look before found too.
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
            # What is at work, or was a moment ago, differs meanwhile.
            at_work |= attachment_queries.at_work(self._database, self._host)
        # A grant that is being made looks so for a moment; what a crash orphaned stays.
        bare = ({export.volume_id for export in actual if not export.grants}
                - {grant.volume_id for grant in wanted})
        unused, self._bare = bare & self._bare, bare
        return [*(self._grant(pair, pair in missing) for pair in sorted(differing - at_work)),
                *(self._stray(export.volume_id) for export in exports
                  if export.volume_id not in known and self._is_gone(export.volume_id)),
                *map(self._unused, sorted(unused))]

    def repair_pair(self, volume_id: str, initiator: str) -> bool:
        """Converge a pair; False: another lease holder acts there.

        :raises BackendError: it could not be done
        """
        with self._leases.try_pair(volume_id, initiator) as lease:
            if lease is not None:
                LOG.warning('Repairing grant, target differs from the attachments%s', log.fields(
                    volume_id=volume_id, initiator=initiator))
                self._converger.converge(lease)
            return lease is not None

    def unexport_unused(self, volume_id: str) -> bool:
        """Unexport a volume, unless a host shall be granted; whether it was done.

        :raises BackendUncertain: the lease has expired: others may have acted meanwhile
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
        """Only then: another backend on the same target sees to its own volumes."""
        try:
            volume_queries.get_bare(self._database, volume_id)
        except errors.VolumeNotFound:
            return True
        return False


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that differs, and what came of it.

    :ivar outcome: `recover.REPAIRED`, `recover.CONFLICT`, `WOULD`, or why it cannot be done
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
        """Whether it still has to be repaired."""
        return self.outcome not in (recover.REPAIRED, recover.CONFLICT)


class OneShot:
    """One look at one ``host@backend``, when somebody asks for it."""

    def __init__(self, host: str, recovery: recover.Recovery, truth: TargetTruth,
                 repairer: recover.Repairer) -> None:
        self._host = host
        self._recovery = recovery
        self._truth = truth
        self._repairer = repairer

    def run(self, dry_run: bool) -> list[Finding]:
        """`look` or `repair`."""
        return self.look() if dry_run else self.repair()

    def look(self) -> list[Finding]:
        """What differs; nothing is changed.

        :raises BackendError: the target does not answer
        """
        rows = self._recovery.cases()
        # An interrupted pair is granted or revoked with its row.
        theirs = {(case.volume_id, case.initiator) for case in rows}
        return self._findings([*rows, *(case for case in self._differences()
                                        if (case.volume_id, case.initiator) not in theirs)])

    def repair(self) -> list[Finding]:
        """Repair what differs: rows first, then the target as they say; raises BackendError."""
        rows = self._recovery.cases()
        findings = self._findings(rows, self._repairer.each(rows))
        differences = self._differences()
        return findings + self._findings(differences, self._repairer.each(differences))

    def _differences(self) -> list[recover.Case]:
        """What is exported without a grant counts from the second look on."""
        self._truth.cases()
        return self._truth.cases()

    def _findings(self, cases: Sequence[recover.Case],
                  outcomes: Sequence[str] | None = None) -> list[Finding]:
        return [Finding(self._host, case.drift, case.volume_id, case.attachment_id,
                        case.initiator, case.said, case.remedy, outcome)
                for case, outcome in zip(cases, outcomes or [WOULD] * len(cases), strict=True)]
