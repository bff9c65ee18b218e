"""What must be true of a deployment at any moment: the invariants by name, as one table.

Facts go in, violations come out: nothing is read here. `blockattach.storage.volume.checker` reads
the rows and the targets and asks this table; tests and the simulation ask the same one. A noun has
its invariants in a module of its own, which is registered in `INVARIANTS`.
"""
from blockattach.storage.domain.invariants import attachments
from blockattach.storage.domain.invariants import observed
from blockattach.storage.domain.invariants import snapshots
from blockattach.storage.domain.invariants import targets
from blockattach.storage.domain.invariants import transfers
from blockattach.storage.domain.invariants import volumes
from blockattach.storage.domain.invariants import work

INVARIANTS = tuple(sorted((
    *attachments.INVARIANTS,
    *targets.INVARIANTS,
    *work.INVARIANTS,
    *volumes.INVARIANTS,
    *transfers.INVARIANTS,
    *snapshots.INVARIANTS,
), key=lambda row: tuple(observed.Severity).index(row.severity)))
"""All of them, the worst first."""


def check(facts: observed.Facts, settled: bool = True) -> list[observed.Violation]:
    """Every violation, the worst first.

    :param settled: False: leave out what may be untrue for a moment
    """
    return [
        observed.Violation(row.name, row.promise, row.severity, *found, row.repair.format(
            volume_id=found.volume_id, attachment_id=found.attachment_id))
        for row in INVARIANTS if settled or not row.settled
        for found in row.judge(facts)]
