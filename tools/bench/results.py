"""Rows of measurements: kept, compared by their best rounds, and shown as tables."""
import collections
import dataclasses
import re
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from bench import measure

_ID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
OWN, PEER, FLOOR = 'blockattach', 'peer', 'floor'
HEADINGS = ('target', 'scenario', 'clients', 'operations', 'per second', 'p50 ms', 'p95 ms',
            'p99 ms', 'CPU ms', 'db+bus ms', 'peak MiB', 'noise', 'errors')
_WIDTHS = (12, 17, 8, 11, 11, 9, 9, 9, 9, 10, 9, 7, 7)
COMPARED = ('scenario', 'clients', 'throughput', 'p50', 'p99', 'CPU', 'of the floor')

# What is compared: the key of a row. Whether more is better does not matter to a ratio.
THROUGHPUT, P50, P99, CPU = 'per_second', 'p50_ms', 'p99_ms', 'total_cpu_ms'


def total_cpu_ms(row: measure.Row) -> float | None:
    """Of service, database and bus together, per operation."""
    if row['cpu_ms'] is None or row['backing_cpu_ms'] is None:
        return None
    return float(row['cpu_ms'] + row['backing_cpu_ms'])


def shown(row: measure.Row) -> tuple[str, ...]:
    """One line of the table of measurements."""
    peak = sum(row['peak_pss_mib'].values()) if row['peak_pss_mib'] else None
    scenario = row['scenario'] + (f' {row["volumes"]:,}' if 'volumes' in row else '')
    return tuple('-' if value is None else str(value) for value in (
        row['target'], scenario, row['clients'], row['operations'], row['per_second'],
        row['p50_ms'], row['p95_ms'], row['p99_ms'], row['cpu_ms'], row['backing_cpu_ms'],
        None if peak is None else round(peak), row['noise'], row['failed']))


def line(values: Sequence[str]) -> str:
    """One line, in columns: words to the left, figures to the right."""
    return ' '.join(f'{value:<{width}}' if number < 2 else f'{value:>{width}}'
                    for number, (value, width) in enumerate(zip(values, _WIDTHS, strict=False)))


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for a terminal."""
    texts = [[str(value) for value in row] for row in (headings, *rows)]
    widths = [max(len(row[number]) for row in texts) for number in range(len(headings))]
    return '\n'.join('  '.join(text.ljust(width) for text, width in zip(row, widths, strict=True))
                     .rstrip() for row in texts)


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """What can be compared: the same scenario, as hard."""

    scenario: str
    clients: int
    volumes: int = 0

    @classmethod
    def of(cls, row: measure.Row) -> 'Case':
        """The case of a row."""
        return cls(row['scenario'], row['clients'], row.get('volumes', 0))

    def __str__(self) -> str:
        return self.scenario + (f' of {self.volumes:,}' if self.volumes else '')


class Results:
    """All that was measured in one run of the command."""

    def __init__(self) -> None:
        self.rows: list[measure.Row] = []
        self.facts: dict[str, Any] = {}

    def add(self, row: measure.Row) -> measure.Row:
        """Keep a row."""
        self.rows.append(row)
        return row

    def merge(self, stored: dict[str, Any]) -> None:
        """Add what an earlier call has written."""
        self.rows += stored['rows']
        self.facts |= stored['facts']

    def cases(self) -> list[Case]:
        """Those that were measured on our own service, in order."""
        return list(dict.fromkeys(Case.of(row) for row in self.rows if row['target'] == OWN))

    def best(self, target: str, case: Case, figure: str) -> float | None:
        """A figure of a case in its best round: others on the machine can only make it worse.

        None: it is not known.
        """
        found = [total_cpu_ms(row) if figure == CPU else row[figure] for row in self.rows
                 if row['target'] == target and Case.of(row) == case]
        known = [value for value in found if value is not None]
        if not known:
            return None
        return max(known) if figure == THROUGHPUT else min(known)

    def ratio(self, case: Case, figure: str, to: str = PEER) -> float | None:
        """Ours divided by another's."""
        own, other = self.best(OWN, case, figure), self.best(to, case, figure)
        return own / other if own is not None and other else None

    def comparison(self) -> list[tuple[str, ...]]:
        """The rows of the table of ratios (`COMPARED`) that have any."""
        rows = [(str(case), str(case.clients),
                 *(times(self.ratio(case, figure)) for figure in (THROUGHPUT, P50, P99, CPU)),
                 times(self.ratio(case, CPU, FLOOR))) for case in self.cases()]
        return [row for row in rows if set(row[2:]) != {times(None)}]

    def errors(self, of_peer: bool = False) -> list[str]:
        """What went wrong, each once; of the peer, or of all others."""
        found: collections.Counter[str] = collections.Counter()
        for row in self.rows:
            if (row['target'] == PEER) is of_peer:
                for text, count in row['errors'].items():
                    found[f'{row["target"]}, {row["scenario"]}: {_ID.sub("ID", text)}'] += count
        return [f'{text} ({count} times)' for text, count in found.items()]


def times(value: float | None) -> str:
    """A ratio as it is read."""
    if value is None:
        return '-'
    return f'{value:.1f}x' if value >= 2 else f'{value:.3f}x' if value < 0.2 else f'{value:.2f}x'
