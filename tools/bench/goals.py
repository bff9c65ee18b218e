"""What the service shall reach, as one table, and whether it did in the runs that were made."""
import dataclasses
import enum
from collections.abc import Iterator
from typing import NamedTuple

from bench import results

HEADINGS = ('goal', 'clients', 'wanted', 'measured', 'verdict')


class Relation(enum.Enum):
    """How a figure must be to the one that is wanted."""

    AT_LEAST = '>='
    AT_MOST = '<='


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """A goal for a scenario: a figure of ours divided by the peer's, or the floor's.

    :param clients: None: for any number of them
    """

    scenario: str
    figure: str
    relation: Relation
    wanted: float
    clients: int | None = None
    to: str = results.PEER


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A goal for a figure that a run leaves among the facts, with its unit.

    :param between: the fact with the fewest and the most that were compared, for the name
    """

    name: str
    fact: str
    relation: Relation
    wanted: float
    unit: str
    between: str = ''


class Verdict(NamedTuple):
    """One line: what was wanted, what was measured, and whether that is enough."""

    goal: str
    clients: str
    wanted: str
    measured: str
    met: str


_MORE, _LESS = Relation.AT_LEAST, Relation.AT_MOST
_THROUGHPUT, _P99, _CPU = results.THROUGHPUT, results.P99, results.CPU

RATIOS = (
    Ratio('attach-cycle', _THROUGHPUT, _MORE, 10),
    Ratio('reserve-cycle', _THROUGHPUT, _MORE, 10),
    Ratio('attach-cycle', _CPU, _LESS, 0.1),
    Ratio('reserve-cycle', _CPU, _LESS, 0.1),
    Ratio('attach-cycle', _CPU, _LESS, 1.6, to=results.FLOOR),
    Ratio('reserve-cycle', _CPU, _LESS, 1.6, to=results.FLOOR),
    Ratio('attach-cycle', _P99, _LESS, 0.1, clients=32),
    Ratio('reserve-cycle', _P99, _LESS, 0.1, clients=32),
    Ratio('show-volume', _THROUGHPUT, _MORE, 10),
    Ratio('show-attachment', _THROUGHPUT, _MORE, 10),
    Ratio('list-detail', _THROUGHPUT, _MORE, 20),
    Ratio('create-available', _THROUGHPUT, _MORE, 10),
)
"""Against the peer in the same run, and against the floor."""

FIGURES = (
    Figure('idle memory of all processes, of that of the peer', 'idle_pss_ratio', _LESS, 0.6, 'x'),
    Figure('memory of blockattach-all', 'all_in_one_pss_mib', _LESS, 150, ' MiB'),
    Figure('readiness of the slowest process', 'slowest_ready_seconds', _LESS, 2, ' s'),
    Figure('create with {1:,} attachments, of that with {0:,}', 'crowd_create', _LESS, 1.2, 'x',
           'crowd_counts'),
    Figure('update with {1:,} attachments, of that with {0:,}', 'crowd_update', _LESS, 1.2, 'x',
           'crowd_counts'),
    Figure('complete with {1:,} attachments, of that with {0:,}', 'crowd_complete', _LESS, 1.2,
           'x', 'crowd_counts'),
    Figure('hosts refused of {1:,} that join', 'crowd_refused', _LESS, 0, '', 'crowd_counts'),
    Figure('list with {1:,} volumes, of that with {0:,}', 'size_list', _LESS, 1.2, 'x', 'sizes'),
    Figure('show with {1:,} volumes, of that with {0:,}', 'size_show', _LESS, 1.2, 'x', 'sizes'),
    Figure('attach with {1:,} volumes, of that with {0:,}', 'size_attach', _LESS, 1.2, 'x',
           'sizes'),
    Figure('throughput under twice the load, of the peak', 'overload_throughput', _MORE, 0.9,
           'x'),
    Figure('attachments in no final state after that', 'overload_unsettled', _LESS, 0, ''),
    Figure('p99 of others beside a backend that takes 30 s, of that without', 'slow_backend_p99',
           _LESS, 1.25, 'x'),
    *(Figure(f'p99 of {name} beside a running copy{limit}, of that without',
             f'copies_{name}{fact}_p99', _LESS, 1.5, 'x')
      for limit, fact in (('', ''), (' of 50 MB/s', '_limited'))
      for name in ('attach', 'detach')),
    *(Figure(f'CPU to {name}, of that to create a volume', fact, _LESS, 1.5, 'x')
      for name, fact in (
          ('clone a volume', 'store_clone'), ('extend a volume', 'store_extend'),
          ('create a snapshot', 'store_create_snapshot'),
          ('delete a snapshot', 'store_delete_snapshot'), ('delete a volume', 'store_delete'))),
    Figure('hosts refused of those that join at the same moment', 'rush_refused', _LESS, 0, ''),
)
"""Of the service alone."""

_NAMES = {_THROUGHPUT: 'throughput', _P99: 'p99', _CPU: 'CPU'}


def verdicts(measured: results.Results) -> Iterator[Verdict]:
    """Every goal that was measured; the others are left out."""
    for goal in RATIOS:
        for case in measured.cases():
            if case.scenario == goal.scenario and goal.clients in (None, case.clients):
                value = measured.ratio(case, goal.figure, goal.to)
                if value is not None:
                    yield Verdict(f'{case}: {_NAMES[goal.figure]} to the {goal.to}',
                                  str(case.clients), f'{goal.relation.value} {goal.wanted:g}x',
                                  results.times(value), _met(value, goal.relation, goal.wanted))
    for figure in FIGURES:
        value = measured.facts.get(figure.fact)
        if value is not None:
            name = figure.name.format(*measured.facts.get(figure.between, ()))
            yield Verdict(name, '', f'{figure.relation.value} {figure.wanted:g}'
                                           f'{figure.unit}', f'{value:g}{figure.unit}',
                          _met(value, figure.relation, figure.wanted))


def _met(value: float, relation: Relation, wanted: float) -> str:
    reached = value >= wanted if relation is Relation.AT_LEAST else value <= wanted
    return 'met' if reached else 'not met'
