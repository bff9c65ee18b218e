"""Invariants: conditions that rows and targets must fulfil.

Some invariants may be violated for a moment during an operation (`observed.Row.settled`). All
others hold at any time. Each invariant has a pure function from facts to violations.
`blockattach.storage.volume.checker` reads the rows and the targets and evaluates `INVARIANTS`.
Tests and the simulation evaluate the same table. Each module of the package, except `observed`,
contains the invariants of one kind of resource.
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
"""All invariants by severity, worst first."""


def check(facts: observed.Facts, settled: bool = True) -> list[observed.Violation]:
    """Return all violations by severity, worst first.

    :param settled: False to skip the invariants that may be violated while operations are in
        progress (`observed.Row.settled`)
    """
    return [
        observed.Violation(row.name, row.promise, row.severity, *found, row.repair.format(
            volume_id=found.volume_id, attachment_id=found.attachment_id))
        for row in INVARIANTS if settled or not row.settled
        for found in row.judge(facts)]
