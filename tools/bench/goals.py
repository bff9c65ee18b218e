"""Performance goals of the service, and whether the measurements meet them.

A ratio is the quotient of medians of at least three rounds. A measurement during which other
processes used too much of the machine is void.
"""
import dataclasses
import enum
from collections.abc import Iterator
from typing import NamedTuple

from bench import cloud
from bench import results

HEADINGS = ('goal', 'clients', 'required', 'measured', 'range of rounds', 'reference', 'result')
ROUNDS = 3
CALLS = 'calls'
"""Name of the fact with the transport of calls."""
VOID = 'void'


class Relation(enum.Enum):
    """Required relation of a figure to its goal."""

    AT_LEAST = '>='
    AT_MOST = '<='


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """Goal for a figure of a scenario, divided by that of the peer or the floor.

    :param required: required ratio
    :param clients: numbers of clients to which the goal applies; None for any number
    :param to: the peer or the floor
    :param over_broker: required ratio if calls go through the broker; None for the same
    """

    scenario: str
    figure: str
    relation: Relation
    required: float
    clients: tuple[int, ...] | None = None
    to: str = results.PEER
    over_broker: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """Goal for a fact that a run has stored, with its unit.

    :param required: required value
    :param between: fact with the smallest and largest compared count, for the name of the goal
    :param of: prefix of the rows from which the fact is computed, which can be void. Empty if
        there are none, or if the machine is busy with other work on purpose
    :param beside: fact in whose presence the goal is reported even if it was not measured
    """

    name: str
    fact: str
    relation: Relation
    required: float
    unit: str
    between: str = ''
    of: str | tuple[str, ...] = ''
    beside: str = ''


class Verdict(NamedTuple):
    """Line of the table of goals.

    :ivar wanted: required value
    :ivar spread: smallest and largest ratio of a single round
    :ivar other: figure of the peer or the floor
    :ivar met: ``met``, ``not met`` or ``void``, or the reason why the goal was not judged
    """

    goal: str
    clients: str
    wanted: str
    measured: str
    spread: str
    other: str
    met: str


_MORE, _LESS = Relation.AT_LEAST, Relation.AT_MOST
_THROUGHPUT, _P99, _CPU = results.THROUGHPUT, results.P99, results.CPU

_LOADED = 8, 32

RATIOS = (
    Ratio('attach-cycle', _THROUGHPUT, _MORE, 10, _LOADED),
    Ratio('reserve-cycle', _THROUGHPUT, _MORE, 10, _LOADED),
    Ratio('attach-cycle', _CPU, _LESS, 0.1, _LOADED, over_broker=0.2),
    Ratio('reserve-cycle', _CPU, _LESS, 0.1, _LOADED, over_broker=0.2),
    Ratio('attach-cycle', _P99, _LESS, 0.15, (32,)),
    Ratio('reserve-cycle', _P99, _LESS, 0.15, (32,)),
    Ratio('attach-cycle', _CPU, _LESS, 2.2, _LOADED, results.FLOOR),
    Ratio('reserve-cycle', _CPU, _LESS, 2.2, _LOADED, results.FLOOR),
    Ratio('show-volume', _THROUGHPUT, _MORE, 10),
    Ratio('show-attachment', _THROUGHPUT, _MORE, 10),
    Ratio('create-available', _THROUGHPUT, _MORE, 10),
    Ratio('list-detail', _THROUGHPUT, _MORE, 20),
)
"""Goals relative to the peer in the same run, and relative to the floor."""

_STEPS = 'create', 'update', 'complete'
_OF_SIZE = 'list', 'show', 'attach'
_SIZES = '{0} with {{1:,}} volumes, relative to {{0:,}}, with {1}'

FIGURES = (
    Figure('idle memory of all processes, relative to the peer', 'idle_pss_ratio', _LESS, 0.55,
           'x'),
    Figure('memory of blockattach-all', 'all_in_one_pss_mib', _LESS, 150, ' MiB'),
    Figure('memory of the API after {1:,} requests, relative to {0:,}', 'lasting_memory', _LESS,
           1.1, 'x', 'lasting_requests'),
    Figure('time to ready of the slowest process', 'slowest_ready_seconds', _LESS, 2, ' s'),
    *(Figure(f'{step} with {{1:,}} attachments, relative to {{0:,}}', f'crowd_{step}', _LESS,
             1.1, 'x', 'crowd_counts', ('crowd attach', 'crowd reserve')) for step in _STEPS),
    Figure('rejected hosts of {1:,} that attach one volume', 'crowd_refused', _LESS, 0, '',
           'crowd_counts'),
    *(Figure(_SIZES.format(name, 'the default buffer pool'), f'size_{name}', _LESS, 1.2, 'x',
             'sizes', 'size', f'pool_size_{name}') for name in _OF_SIZE),
    *(Figure(_SIZES.format(name, 'a buffer pool of {2:,} MiB'), f'pool_size_{name}', _LESS, 1.2,
             'x', 'pool_sizes', 'size') for name in _OF_SIZE),
    Figure('throughput at twice the peak load, relative to the peak', 'overload_throughput',
           _MORE, 0.9, 'x', of='overload'),
    Figure('attachments in a transient state after overload', 'overload_unsettled', _LESS, 0, ''),
    Figure('p99 with a backend that takes 30 s, relative to the p99 without', 'slow_backend_p99',
           _LESS, 1.25, 'x', of=('baseline ', 'slow-backend ')),
    *(Figure(f'p99 of {name} during a copy{limit}, relative to the p99 without',
             f'copies_{name}{fact}_p99', _LESS, 1.5, 'x')
      for limit, fact in (('', ''), (' limited to 50 MB/s', '_limited'))
      for name in ('attach', 'detach')),
    *(Figure(f'CPU to {name}, relative to creating a volume', fact, _LESS, 1.5, 'x', of='store')
      for name, fact in (
          ('clone a volume', 'store_clone'), ('extend a volume', 'store_extend'),
          ('create a snapshot', 'store_create_snapshot'),
          ('delete a snapshot', 'store_delete_snapshot'), ('delete a volume', 'store_delete'))),
    Figure('rejected hosts of those that attach one volume at the same time', 'rush_refused',
           _LESS, 0, ''),
    *(Figure(f'time of ten servers of one request that share a volume, relative to one, {label}',
             fact, _LESS, 3, 'x', of=f'builds {place}')
      for place, label, fact in (
          ('all-in-one', 'all-in-one', 'builds_all_in_one'),
          ('services', 'services over HTTP', 'builds_services'),
          ('services by bus', 'services over bus', 'builds_services_by_bus'))),
)
"""Goals for the service alone."""

_NAMES = {_THROUGHPUT: 'throughput', _P99: 'p99', _CPU: 'CPU'}
_UNITS = {_THROUGHPUT: 'per s', _P99: 'ms', _CPU: 'ms'}


def verdicts(measured: results.Results) -> Iterator[Verdict]:
    """Yield the verdict on each goal that was measured."""
    over_broker = measured.facts.get(CALLS) == cloud.OVER_BROKER
    for goal in RATIOS:
        required = goal.over_broker if over_broker and goal.over_broker else goal.required
        for case in measured.cases():
            if case.scenario != goal.scenario or (
                    goal.clients is not None and case.clients not in goal.clients):
                continue
            found = measured.compared(case, goal.figure, goal.to)
            if found is not None:
                yield Verdict(
                    f'{case}: {_NAMES[goal.figure]} relative to the {goal.to}', str(case.clients),
                    f'{goal.relation.value} {required:g}x', results.times(found.ratio),
                    found.spread, f'{found.other:.4g} {_UNITS[goal.figure]}',
                    _judged(found, goal.relation, required))
    for figure in FIGURES:
        verdict = _of_figure(figure, measured)
        if verdict is not None:
            yield verdict


def _of_figure(figure: Figure, measured: results.Results) -> Verdict | None:
    value, counts = measured.facts.get(figure.fact), measured.facts.get(figure.between, ())
    if value is not None:
        is_void = bool(figure.of) and measured.is_void(figure.of, counts)
        shown = f'{value:g}{figure.unit}'
        met = VOID if is_void else _met(value, figure.relation, figure.required)
    elif figure.beside in measured.facts:
        shown, met = '', 'not measured'
    else:
        return None
    return Verdict(figure.name.format(*counts), '',
                   f'{figure.relation.value} {figure.required:g}{figure.unit}', shown, '', '', met)


def _judged(compared: results.Compared, relation: Relation, required: float) -> str:
    if compared.is_void:
        return VOID
    if compared.rounds < ROUNDS:
        return f'fewer than {ROUNDS} rounds'
    return _met(compared.ratio, relation, required)


def _met(value: float, relation: Relation, required: float) -> str:
    reached = value >= required if relation is Relation.AT_LEAST else value <= required
    return 'met' if reached else 'not met'
