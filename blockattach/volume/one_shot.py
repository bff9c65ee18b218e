"""Repair a backend from outside: what ``blockattach-manage reconcile`` does.

It is the reconciler and the comparison of the managers of the backend, with leases of its own, by
which it is excluded from them and they from it.
"""
import dataclasses
from collections.abc import Sequence

from blockattach.volume import reconcile
from blockattach.volume import repair as repairs

WOULD = 'would be done'


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that differs, and what came of it.

    :ivar outcome: `repairs.REPAIRED`, `repairs.CONFLICT`, `WOULD`, or why it cannot be done
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
        return self.outcome not in (repairs.REPAIRED, repairs.CONFLICT)


class OneShot:
    """One look at one ``host@backend``."""

    def __init__(self, host: str, reconciler: reconcile.Reconciler,
                 truth: repairs.TargetTruth, repairer: repairs.Repairer) -> None:
        self._host = host
        self._reconciler = reconciler
        self._truth = truth
        self._repairer = repairer

    def look(self) -> list[Finding]:
        """What differs; nothing is changed.

        :raises BackendError: the target does not answer
        """
        rows = self._reconciler.cases()
        # An interrupted pair is granted or revoked with its row.
        theirs = {(case.volume_id, case.initiator) for case in rows}
        return self._findings([*rows, *(case for case in self._differences()
                                    if (case.volume_id, case.initiator) not in theirs)])

    def repair(self) -> list[Finding]:
        """Repair what differs: rows first, then the target as they say; raises BackendError."""
        rows = self._reconciler.cases()
        findings = self._findings(rows, self._repairer.each(rows))
        differences = self._differences()
        return findings + self._findings(differences, self._repairer.each(differences))

    def _differences(self) -> list[repairs.Case]:
        """What is exported without a grant counts from the second look on."""
        self._truth.cases()
        return self._truth.cases()

    def _findings(self, cases: Sequence[repairs.Case],
              outcomes: Sequence[str] | None = None) -> list[Finding]:
        return [Finding(self._host, case.drift, case.volume_id, case.attachment_id,
                        case.initiator, case.said, case.remedy, outcome)
                for case, outcome in zip(cases, outcomes or [WOULD] * len(cases), strict=True)]
