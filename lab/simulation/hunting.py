"""The fixed seeds, and the search for a violation: what a planted bug is looked for with."""
import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.wiring import processes
from lab.simulation import direct
from lab.simulation import nouns
from lab.simulation import play


class Wanted(NamedTuple):
    """What is played: a seed, so many operations, and these nouns; none: all."""

    seed: int
    steps: int
    nouns: Sequence[str] = ()
    way: direct.Way = direct.Way.BROKER


# A noun more would change what the seeds draw: those that have found something keep to the nouns
# that there were, and a noun brings seeds of its own.
_FIRST = ('attachments', 'legacy', 'volumes')
FIXED = (
    Wanted(1, 500, _FIRST),
    *(Wanted(seed, steps, (*_FIRST, *noun.needs, noun.name)) for noun in nouns.NOUNS
      for seed, steps in noun.seeds),
    Wanted(4, 250, _FIRST),
    Wanted(100, 250, _FIRST),
    Wanted(400, 250, _FIRST),
    Wanted(1000004, 250, _FIRST),
    Wanted(13000040, 500, _FIRST),
    Wanted(1272074101, 400, _FIRST),
    Wanted(2, 250, _FIRST, direct.Way.CALLS),
    Wanted(3, 250, _FIRST, direct.Way.ALL),
)
"""What the gate plays: the one that notices most planted bugs, those that have found something
once, each as long as it takes to meet every kind of fault, and one for each noun since.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The first violation; ``operations`` counts those of the seeds before, too."""

    seed: int
    operations: int
    said: str


def hunt(wanted: Iterable[Sequence[Any]] = FIXED) -> Found | None:
    """Play seeds with their operations until something is violated; None: nothing was."""
    processes.settle()
    played = 0
    for one in wanted:
        seed, steps, played_nouns, way = Wanted(*one)
        report = play.Simulation(seed, first_only=True, played=played_nouns,
                                 way=direct.Way(way)).run(steps)
        played += report.steps
        if report.violations:
            return Found(seed, played, report.violations[0].said)
    return None


def as_json(found: Found | None) -> dict[str, object] | None:
    """As another process reads it."""
    return None if found is None else dataclasses.asdict(found)
