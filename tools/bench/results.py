"""Rows of measurements, with comparisons by the medians of their rounds, and tables."""
import collections
import dataclasses
import re
import statistics
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from bench import measure

_ID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
OWN, PEER, FLOOR = 'blockattach', 'peer', 'floor'
HEADINGS = ('target', 'scenario', 'clients', 'operations', 'ops/s', 'p50 ms', 'p95 ms',
            'p99 ms', 'CPU ms', 'db+bus ms', 'peak MiB', 'noise', 'errors')
_WIDTHS = (12, 17, 8, 11, 11, 9, 9, 9, 9, 10, 9, 7, 7)
COMPARED = ('scenario', 'clients', 'throughput', 'p50', 'p99', 'CPU', 'CPU relative to floor',
            'throughput range', 'CPU range', 'peer operations/s', 'peer CPU (ms)')
ROUND = 'round'
"""Key of rows that were measured alternately with the rows to which they are compared."""

# Compared figures, by their keys in a row. A ratio does not depend on whether more is better.
THROUGHPUT, P50, P99, CPU = 'per_second', 'p50_ms', 'p99_ms', 'total_cpu_ms'


def total_cpu_ms(row: measure.Row) -> float | None:
    """Return the CPU time per operation of service, database and bus together.

    :returns: None if a part is unknown
    """
    if row['cpu_ms'] is None or row['backing_cpu_ms'] is None:
        return None
    return float(row['cpu_ms'] + row['backing_cpu_ms'])


class Compared(NamedTuple):
    """Ratio of a figure to that of another target, both as medians of the rounds.

    :ivar least: smallest ratio of a single round
    :ivar most: largest ratio of a single round
    :ivar other: figure of the other target
    :ivar rounds: number of rounds
    :ivar is_void: True if other processes used too much CPU in one of the rounds
    """

    ratio: float
    least: float
    most: float
    other: float
    rounds: int
    is_void: bool

    @property
    def spread(self) -> str:
        """Range of the ratios for display."""
        return f'{times(self.least)}..{times(self.most)}'


def figure_of(row: measure.Row, name: str) -> float | None:
    """Return a figure of a row."""
    return total_cpu_ms(row) if name == CPU else row[name]


def shown(row: measure.Row) -> tuple[str, ...]:
    """Return the line of a row in the table of measurements."""
    peak = sum(row['peak_pss_mib'].values()) if row['peak_pss_mib'] else None
    scenario = row['scenario'] + (f' {row["volumes"]:,}' if 'volumes' in row else '')
    return tuple('-' if value is None else str(value) for value in (
        row['target'], scenario, row['clients'], row['operations'], row['per_second'],
        row['p50_ms'], row['p95_ms'], row['p99_ms'], row['cpu_ms'], row['backing_cpu_ms'],
        None if peak is None else round(peak), row['noise'], row['failed']))


def line(values: Sequence[str]) -> str:
    """Format a line in columns, with words left-aligned and numbers right-aligned."""
    return ' '.join(f'{value:<{width}}' if number < 2 else f'{value:>{width}}'
                    for number, (value, width) in enumerate(zip(values, _WIDTHS, strict=False)))


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table for a terminal."""
    texts = [[str(value) for value in row] for row in (headings, *rows)]
    widths = [max(len(row[number]) for row in texts) for number in range(len(headings))]
    return '\n'.join('  '.join(text.ljust(width) for text, width in zip(row, widths, strict=True))
                     .rstrip() for row in texts)


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """Scenario under a certain load, as the unit of comparison."""

    scenario: str
    clients: int
    volumes: int = 0

    @classmethod
    def of(cls, row: measure.Row) -> 'Case':
        """Return the case of a row."""
        return cls(row['scenario'], row['clients'], row.get('volumes', 0))

    def __str__(self) -> str:
        return self.scenario + (f', {self.volumes:,} volumes' if self.volumes else '')


class Results:
    """All results of one run of the command."""

    def __init__(self) -> None:
        self.rows: list[measure.Row] = []
        self.facts: dict[str, Any] = {}

    def add(self, row: measure.Row) -> measure.Row:
        """Add a row, and return it."""
        self.rows.append(row)
        return row

    def merge(self, stored: dict[str, Any]) -> None:
        """Add the results that an earlier call has written."""
        self.rows += stored['rows']
        self.facts |= stored['facts']

    def cases(self) -> list[Case]:
        """Return the cases that were measured on blockattach, in order."""
        return list(dict.fromkeys(Case.of(row) for row in self.rows if row['target'] == OWN))

    def median(self, target: str, case: Case, figure: str) -> float | None:
        """Return the median of a figure of a case, or None if the figure is unknown."""
        known = [value for row in self._of(target, case)
                 if (value := figure_of(row, figure)) is not None]
        return statistics.median(known) if known else None

    def compared(self, case: Case, figure: str, to: str = PEER,
                 of: str = OWN) -> Compared | None:
        """Compare two targets in the rounds in which they were measured alternately.

        :param to: the other target
        :param of: the target that is compared
        :returns: None if there are no such rounds
        """
        rounds = []
        for rows in zip(*([row for row in self._of(target, case) if ROUND in row]
                          for target in (of, to)), strict=False):
            own, other = (figure_of(row, figure) for row in rows)
            if own is not None and other:
                rounds.append((own, other, any(map(measure.is_void, rows))))
        if not rounds:
            return None
        ratios = [own / other for own, other, _ in rounds]
        middle, of_other = (statistics.median(one[place] for one in rounds) for place in (0, 1))
        return Compared(middle / of_other, min(ratios), max(ratios), of_other, len(rounds),
                        any(void for _, _, void in rounds))

    def comparison(self) -> list[tuple[str, ...]]:
        """Return the rows of the table of ratios (`COMPARED`)."""
        found = []
        for case in self.cases():
            throughput, p50, p99, cpu = (self.compared(case, figure)
                                         for figure in (THROUGHPUT, P50, P99, CPU))
            of_floor = self.compared(case, CPU, FLOOR)
            if throughput or of_floor:
                found.append((str(case), str(case.clients), *(
                    times(one and one.ratio) for one in (throughput, p50, p99, cpu, of_floor)),
                    *(one.spread if one else '-' for one in (throughput, cpu)),
                    *(f'{one.other:.4g}' if one else '-' for one in (throughput, cpu))))
        return found

    def is_void(self, begin: str | tuple[str, ...], counts: Sequence[int] = ()) -> bool:
        """Return True if a row with a prefix is void.

        :param begin: prefix of the scenario
        :param counts: numbers of attachments or volumes of the rows; empty for all rows
        """
        return any(row['scenario'].startswith(begin) and measure.is_void(row) and (
            not counts or row.get('attachments', row.get('volumes')) in counts)
            for row in self.rows)

    def _of(self, target: str, case: Case) -> list[measure.Row]:
        return [row for row in self.rows if row['target'] == target and Case.of(row) == case]

    def errors(self, of_peer: bool = False) -> list[str]:
        """Return the distinct errors with their counts.

        :param of_peer: True for the errors of the peer, False for those of all other targets
        """
        found: collections.Counter[str] = collections.Counter()
        for row in self.rows:
            if (row['target'] == PEER) is of_peer:
                for text, count in row['errors'].items():
                    found[f'{row["target"]}, {row["scenario"]}: {_ID.sub("ID", text)}'] += count
        return [f'{text} ({count} times)' for text, count in found.items()]


def times(value: float | None) -> str:
    """Format a ratio."""
    if value is None:
        return '-'
    return f'{value:.1f}x' if value >= 2 else f'{value:.3f}x' if value < 0.2 else f'{value:.2f}x'
