"""The fixed seeds, and the search for a violation: what a planted bug is looked for with."""
import dataclasses
from collections.abc import Iterable

from blockattach.tests.simulation import play
from blockattach.wiring import collecting

FIXED = ((1, 500), (4, 250), (100, 250), (400, 250), (1000004, 250), (13000040, 500),
         (1272074101, 400))
"""Seeds and operations that the gate plays: the one that notices most planted bugs, and those that
have found something once, each as long as it takes to meet every kind of fault.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The first violation; ``operations`` counts those of the seeds before, too."""

    seed: int
    operations: int
    said: str


def hunt(wanted: Iterable[tuple[int, int]] = FIXED) -> Found | None:
    """Play seeds with their operations until something is violated; None: nothing was."""
    collecting.settle()
    played = 0
    for seed, steps in wanted:
        report = play.Simulation(seed, first_only=True).run(steps)
        played += report.steps
        if report.violations:
            return Found(seed, played, report.violations[0].said)
    return None


def told(found: Found | None) -> dict[str, object] | None:
    """As another process reads it."""
    return None if found is None else dataclasses.asdict(found)
