"""Fixed seeds of the gate, and the search for a violation that detects a planted bug."""
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
    """Simulation to run. An empty ``nouns`` means all nouns."""

    seed: int
    steps: int
    nouns: Sequence[str] = ()
    way: direct.Way = direct.Way.BROKER


# A further noun would change the random choices of a seed. Seeds that have found something keep
# the nouns of their time, and each later noun has seeds of its own.
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
"""Simulations that the gate runs.

The first detects most planted bugs. Each of the others has found a bug in the past, or covers a
noun. They are long enough to include every kind of fault.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """First violation of a search. ``operations`` includes those of the earlier seeds."""

    seed: int
    operations: int
    said: str


def hunt(wanted: Iterable[Sequence[Any]] = FIXED) -> Found | None:
    """Run simulations until one is violated, and return the violation; None if there is none."""
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
    """Return the violation in a form that can be encoded as JSON."""
    return None if found is None else dataclasses.asdict(found)
