"""Look for one violation, seed after seed: what a planted bug is looked for with."""
import dataclasses
from collections.abc import Iterable

from blockattach.tests.simulation import play
from blockattach.wiring import collecting


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The first violation; ``operations`` counts those of the seeds before, too."""

    seed: int
    operations: int
    said: str


def hunt(seeds: Iterable[int], steps: int) -> Found | None:
    """Play each seed until something is violated; None: nothing was."""
    collecting.settle()
    played = 0
    for seed in seeds:
        report = play.Simulation(seed, first_only=True).run(steps)
        played += report.steps
        if report.violations:
            return Found(seed, played, report.violations[0].said)
    return None


def told(found: Found | None) -> dict[str, object] | None:
    """As another process reads it."""
    return None if found is None else dataclasses.asdict(found)
