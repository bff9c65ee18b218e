#!/usr/bin/env python3
"""Print the figure of the README: the parts of blockattach and their connections (SVG)."""
import html
import sys
from typing import NamedTuple

WIDTH = 920
HEIGHT = 420
LINE = 17

STYLE = """\
text { font: 13px sans-serif; text-anchor: middle; fill: #222; }
.name { font-weight: bold; font-size: 14px; }
.note { font-size: 12px; fill: #555; }
.box { fill: #e8f0fa; stroke: #1f5fa8; }
.outside { fill: #f4f4f4; stroke: #888; }
.kept { fill: #fff3d6; stroke: #b3541e; }
.whole { fill: none; stroke: #888; stroke-dasharray: 6 4; }
.arrow { fill: none; stroke: #444; stroke-width: 1.5; marker-end: url(#head); }
.both { marker-start: url(#head); }
.label { font-size: 12px; fill: #444; paint-order: stroke; stroke: white; stroke-width: 4px; }
"""

HEAD = ('<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="#444"/>'
        '</marker></defs>')


class Box(NamedTuple):
    """Box of a part: position, name, and notes of one line each."""

    kind: str
    left: int
    top: int
    width: int
    height: int
    name: str
    notes: tuple[str, ...] = ()

    def draw(self) -> str:
        """Return the frame with the name and the notes in its middle."""
        middle = self.left + self.width // 2
        first = self.top + self.height // 2 - LINE * len(self.notes) // 2 + 5
        return (f'<rect class="{self.kind}" x="{self.left}" y="{self.top}" width="{self.width}" '
                f'height="{self.height}" rx="6"/>'
                f'<text class="name" x="{middle}" y="{first}">{html.escape(self.name)}</text>'
                + ''.join(f'<text class="note" x="{middle}" y="{first + LINE * number}">'
                          f'{html.escape(note)}</text>'
                          for number, note in enumerate(self.notes, 1)))


class Arrow(NamedTuple):
    """Arrow from a caller to the called part (or in both directions), with a label."""

    path: str
    label: str = ''
    x: int = 0
    y: int = 0
    both: bool = False

    def draw(self) -> str:
        """Return the line and its label."""
        line = f'<path class="arrow{" both" if self.both else ""}" d="{self.path}"/>'
        if not self.label:
            return line
        words = html.escape(self.label)
        return f'{line}<text class="label" x="{self.x}" y="{self.y}">{words}</text>'


BOXES = (
    Box('outside', 20, 20, 190, 76, 'Clients',
        ('openstack, Nova, SDKs:', 'Block Storage API v3')),
    Box('box', 290, 20, 220, 76, 'API',
        ('checks, decides, and writes', 'the intent before the act')),
    Box('kept', 650, 20, 220, 76, 'Database',
        ('one row per attachment:', 'the truth of its state')),
    Box('box', 290, 170, 220, 76, 'Scheduler',
        ('chooses a pool for a volume,', 'claims its room')),
    Box('box', 650, 170, 220, 76, 'Volume service',
        ('acts on the backend, holds', 'the target to the rows')),
    Box('kept', 520, 320, 170, 76, 'Target',
        ('grants access to hosts:', 'tgt, LIO; fake for trials')),
    Box('kept', 724, 312, 176, 92, 'Store',
        ('keeps the bytes:', 'sparse files, LVM thin or', 'thick; fake for trials')),
    Box('outside', 20, 320, 190, 76, 'Hosts',
        ('each with its own mode', 'and its own credential')),
)

ARROWS = (
    Arrow('M210 58 L288 58', 'HTTP', 238, 50),
    Arrow('M510 58 L648 58', 'SQL', 580, 50, both=True),
    Arrow('M400 96 L400 168', 'bus', 420, 137),
    Arrow('M505 96 L655 168', 'bus', 598, 126),
    Arrow('M510 200 L648 200', 'bus', 580, 192),
    Arrow('M760 168 L760 98', 'SQL', 782, 137, both=True),
    Arrow('M710 246 L620 318', 'grant, revoke', 616, 278),
    Arrow('M790 246 L812 310', 'create, delete', 852, 286),
    Arrow('M722 358 L692 358', both=True),
    Arrow('M115 96 L115 318', 'portal, IQN, CHAP secret', 115, 210),
    Arrow('M210 358 L518 358', 'iSCSI', 400, 350, both=True),
)


def picture() -> str:
    """Return the figure of the service as blockattach-all runs it, with clients and hosts."""
    whole = (f'<rect class="whole" x="262" y="6" width="{WIDTH - 272}" height="{HEIGHT - 16}" '
             'rx="10"/>'
             '<text class="note" x="400" y="290">blockattach-all: these in one process,</text>'
             '<text class="note" x="400" y="307">SQLite, and a tgtd of its own</text>')
    return '\n'.join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'role="img" aria-label="The parts of blockattach">',
        f'<style>\n{STYLE}</style>', HEAD,
        # A dark page needs a white background.
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', whole,
        *(arrow.draw() for arrow in ARROWS), *(box.draw() for box in BOXES), '</svg>', ''])


def main() -> int:
    """Print the figure."""
    sys.stdout.write(picture())
    return 0


if __name__ == '__main__':
    sys.exit(main())
