"""Flame graphs: call trees in which the width of a function is its number of samples."""
import dataclasses
import html
from collections.abc import Iterable
from collections.abc import Iterator

WIDTH, ROW = 1400, 17
_MARGIN = 24
_TOO_NARROW = 0.5
_LETTER = 6.5


@dataclasses.dataclass(slots=True)
class _Node:
    """Function within its callers."""

    samples: int = 0
    within: dict[str, '_Node'] = dataclasses.field(default_factory=dict)

    def depth(self) -> int:
        """Return the number of levels of the tree."""
        return 1 + max((node.depth() for node in self.within.values()), default=0)


def drawn(title: str, stacks: Iterable[tuple[list[str], int]]) -> str:
    """Return the SVG of a flame graph.

    :param stacks: stacks, outermost function first, with their numbers of samples
    """
    root = _Node()
    for frames, samples in stacks:
        root.samples += samples
        node = root
        for frame in frames:
            node = node.within.setdefault(frame, _Node())
            node.samples += samples
    height = _MARGIN + ROW * root.depth()
    return '\n'.join((
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="monospace" font-size="11">',
        f'<text x="4" y="15">{html.escape(title)}: {root.samples} samples</text>',
        *_boxes('all', root, root.samples, 0.0, 0), '</svg>\n'))


def _boxes(name: str, node: _Node, total: int, x: float, level: int) -> Iterator[str]:
    width = WIDTH * node.samples / total if total else 0
    if width < _TOO_NARROW:
        return
    top = _MARGIN + ROW * level
    text = html.escape(name)
    shown = html.escape(name[:max(0, int(width / _LETTER))])
    # The same function has the same colour everywhere.
    hue = 10 + sum(name.encode()) % 45
    yield (f'<g><title>{text}: {node.samples} samples, {100 * node.samples / total:.1f} %</title>'
           f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 1}" '
           f'fill="hsl({hue},80%,65%)"/><text x="{x + 2:.1f}" y="{top + 12}">{shown}</text>'
           '</g>')
    for called, below in sorted(node.within.items()):
        yield from _boxes(called, below, total, x, level + 1)
        x += WIDTH * below.samples / total
