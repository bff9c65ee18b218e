"""Diagrams of latency and throughput by number of clients, attachments or volumes."""
import pathlib
import statistics
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from bench import measure
from bench import results

_INCHES = (7.0, 4.2)
_FORMATS = ('svg', 'png')
Value = Callable[[measure.Row], float | None]


class Line(NamedTuple):
    """Line of a diagram: a figure of the rows of a scenario.

    :param step: step of an operation whose median is drawn; empty for the figure of the row
    """

    label: str
    scenario: str
    step: str = ''
    figure: str = results.P50


class Curve(NamedTuple):
    """Diagram.

    :ivar by: key of the rows on the horizontal axis
    :ivar across: label of the horizontal axis
    :ivar up: label of the vertical axis
    """

    name: str
    title: str
    by: str
    across: str
    up: str
    lines: tuple[Line, ...]


CURVES = (
    Curve('attachments_per_volume', 'Operations on a volume with existing attachments',
          'attachments', 'existing attachments of the volume', 'median latency (ms)', (
              Line('create with connector', 'crowd attach-cycle', 'create'),
              Line('reserve', 'crowd reserve-cycle', 'reserve'),
              Line('update', 'crowd reserve-cycle', 'update'),
              Line('complete', 'crowd attach-cycle', 'complete'),
              Line('delete', 'crowd attach-cycle', 'delete'),
              Line('show volume', 'crowd show-volume', 'show volume'))),
    Curve('number_of_volumes', 'Size of the database (half as many attachments, and as many '
          'deleted rows)', 'volumes', 'volumes', 'median latency (ms)', (
              Line('list of 1,000 volumes in detail', 'size list-detail'),
              Line('list of 1,000 attachments in detail', 'size list-attachments'),
              Line('attach cycle', 'size attach-cycle'),
              Line('show volume', 'size show-volume'),
              Line('show attachment', 'size show-attachment'))),
    Curve('concurrency', 'Latency by number of clients', 'clients', 'concurrent clients',
          'median latency (ms)', (
        Line('attach cycle', 'attach-cycle'), Line('reserve cycle', 'reserve-cycle'),
        Line('show volume', 'show-volume'), Line('show attachment', 'show-attachment'))),
    Curve('throughput', 'Throughput by number of clients', 'clients', 'concurrent clients',
          'operations per second', (
        Line('attach cycle', 'attach-cycle', figure=results.THROUGHPUT),
        Line('reserve cycle', 'reserve-cycle', figure=results.THROUGHPUT),
        Line('show volume', 'show-volume', figure=results.THROUGHPUT),
        Line('show attachment', 'show-attachment', figure=results.THROUGHPUT))),
)


def points(measured: results.Results, curve: Curve, line: Line) -> list[tuple[float, float]]:
    """Return the points of a line from left to right, as medians of all rounds."""
    found: dict[float, list[float]] = {}
    for row in measured.rows:
        if row['scenario'] == line.scenario and curve.by in row and (
                curve.by == 'volumes' or row['target'] == results.OWN):
            value = row['steps'].get(line.step, {}).get('p50_ms') if line.step \
                else row[line.figure]
            if value is not None:
                found.setdefault(row[curve.by], []).append(value)
    return [(across, statistics.median(values)) for across, values in sorted(found.items())]


def draw(measured: results.Results, folder: pathlib.Path) -> list[str] | None:
    """Write the diagrams that have enough points, and return their names.

    :returns: None if matplotlib is not installed
    """
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use('Agg')
    # Make the SVG reproducible: without a salt, matplotlib generates random ids.
    matplotlib.rcParams['svg.hashsalt'] = 'blockattach'
    drawn = []
    for curve in CURVES:
        lines = [(line, points(measured, curve, line)) for line in curve.lines]
        lines = [(line, where) for line, where in lines if len(where) > 1]
        if lines:
            _draw(curve, lines, folder)
            drawn.append(curve.name)
    return drawn


def _draw(curve: Curve, lines: list[tuple[Line, list[tuple[float, float]]]],
          folder: pathlib.Path) -> None:
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=_INCHES)
    for line, where in lines:
        axes.plot([across for across, _ in where], [up for _, up in where], marker='o',
                  markersize=3, label=line.label)
    axes.set_xscale('log')
    axes.set_xticks(sorted({across for _, where in lines for across, _ in where}))
    axes.get_xaxis().set_major_formatter(lambda value, _: f'{value:,.0f}')
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set(title=curve.title, xlabel=curve.across, ylabel=curve.up)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    folder.mkdir(parents=True, exist_ok=True)
    for kind in _FORMATS:
        facts: dict[str, Any] = {'metadata': {'Date': None}} if kind == 'svg' else {}
        figure.savefig(folder / f'{curve.name}.{kind}', bbox_inches='tight', dpi=100, **facts)
    pyplot.close(figure)
