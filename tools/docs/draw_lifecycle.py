#!/usr/bin/env python3
"""Print the attachment lifecycle from its table of transitions, as a figure (SVG) or a page."""
import argparse
import html
import itertools
import sys
from typing import NamedTuple

import rst
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import volume_lifecycle

STEP = 192
MARGIN = 100
BOX_WIDTH = 172
BOX_HEIGHT = 44
RISE = 40
LINE = 22
LOOP = 60

COLOURS = {lifecycle.Writer.CONTROL: '#1f5fa8', lifecycle.Writer.VOLUME: '#b3541e'}

STYLE = """\
text { font: 19px sans-serif; text-anchor: middle; }
.state { font-weight: bold; }
.box { fill: #f4f4f4; stroke: #444; }
.busy { fill: #fff3d6; }
.move { fill: none; stroke-width: 1.4; }
.label { paint-order: stroke; stroke: white; stroke-width: 4px; }
"""


class Move(NamedTuple):
    """Arrow for all events with which one writer moves attachments from one state to another."""

    source: lifecycle.State
    target: lifecycle.State
    writer: lifecycle.Writer
    events: tuple[str, ...]


def moves() -> list[Move]:
    """Return the arrows of the figure. Rejections return along another arrow and are not drawn."""
    found: dict[tuple[lifecycle.State, lifecycle.State, lifecycle.Writer], list[str]] = {}
    for row in lifecycle.TRANSITIONS:
        if row.target is not None:
            found.setdefault((row.source, row.target, row.writer), []).append(row.event.value)
    return [Move(*key, tuple(events)) for key, events in found.items()]


def picture() -> str:
    """Return the figure: states in a line, forward transitions above, backward ones below."""
    states = list(lifecycle.State)
    places = {state: MARGIN + STEP * number for number, state in enumerate(states)}
    arrows = moves()
    spans = [(places[move.target] - places[move.source]) // STEP for move in arrows]
    above = RISE * max(0, *spans) + 2 * LINE + BOX_HEIGHT
    below = RISE * -min(0, *spans) + 3 * LINE + BOX_HEIGHT
    width = 2 * MARGIN + STEP * (len(states) - 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {above + below}" '
             f'role="img" aria-label="The lifecycle of an attachment">',
             f'<style>\n{STYLE}</style>', _markers()]
    parts += [_arrow(move, places, above) for move in arrows]
    parts += [_box(state, places[state], above) for state in states]
    return '\n'.join([*parts, _legend(above + below), '</svg>', ''])


def _markers() -> str:
    heads = [f'<marker id="{writer.value}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
             f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{colour}"/>'
             '</marker>'
             for writer, colour in COLOURS.items()]
    return f'<defs>{"".join(heads)}</defs>'


def _box(state: lifecycle.State, middle: int, line: int) -> str:
    kind = 'box busy' if state in lifecycle.TRANSITIONAL else 'box'
    return (f'<rect class="{kind}" x="{middle - BOX_WIDTH // 2}" y="{line - BOX_HEIGHT // 2}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
            f'<text class="state" x="{middle}" y="{line + 4}">{state.value}</text>')


def _arrow(move: Move, places: dict[lifecycle.State, int], line: int) -> str:
    begin, end = places[move.source], places[move.target]
    span = (end - begin) // STEP
    edge, sign = BOX_HEIGHT // 2, -1 if span > 0 else 1
    label = html.escape(', '.join(move.events))
    colour = COLOURS[move.writer]
    if span == 0:
        top = line + edge
        # The label must be below the label of an arrow to the next state.
        path = (f'M{begin - 18} {top} C{begin - 26} {top + LOOP} {begin + 26} {top + LOOP} '
                f'{begin + 18} {top}')
        middle, height = begin, top + LOOP * 3 // 4 + LINE * 3 // 4
    else:
        # The middle of a cubic curve is at three quarters of the distance to its handles.
        reach = edge + RISE * abs(span)
        handle = edge + RISE * abs(span) * 4 // 3
        shift = 22 if span > 0 else -22
        path = (f'M{begin + shift} {line + sign * edge} '
                f'C{begin + shift} {line + sign * handle} {end - shift} {line + sign * handle} '
                f'{end - shift} {line + sign * edge}')
        middle, height = (begin + end) // 2, line + sign * reach + 4
    return (f'<path class="move" stroke="{colour}" marker-end="url(#{move.writer.value})" '
            f'd="{path}"/><text class="label" fill="{colour}" x="{middle}" y="{height}">'
            f'{label}</text>')


def _legend(bottom: int) -> str:
    parts = [f'<text x="{MARGIN + STEP * number}" y="{bottom - LINE}" fill="{colour}">written by '
             f'{writer.value}</text>' for number, (writer, colour) in enumerate(COLOURS.items())]
    return ''.join(parts)


def document() -> str:
    """Return the page with the figure, the states and the transitions."""
    states = [[rst.literal(state.value), rst.literal(lifecycle.WIRE_STATUS[state]),
               str(lifecycle.RANKS.get(state, '')),
               'yes' if state in lifecycle.TRANSITIONAL else '',
               'yes' if state in lifecycle.GRANTED else ''] for state in lifecycle.State]
    table = [[rst.literal(row.source.value), rst.literal(row.event.value),
              rst.literal(row.target.value) if row.target else 'the previous state',
              row.writer.value] for row in lifecycle.TRANSITIONS]
    return ''.join((
        rst.NOTICE, rst.heading('Attachment lifecycle'), _INTRODUCTION,
        '\n.. container:: picture\n\n   .. image:: lifecycle.svg\n'
        '      :alt: states in a line, transitions as arrows between them\n',
        rst.heading('States', '-'),
        rst.table(('state', 'attach_status', 'rank', 'transitional', 'granted'), states,
                  (20, 20, 8, 10, 10)),
        rst.heading('Transitions', '-'),
        rst.table(('from', 'event', 'to', 'written by'), table, (20, 20, 20, 12)),
        rst.heading('Volumes', '-'), _VOLUMES,
        rst.table(('from', 'event', 'to'), [
            [', '.join(rst.literal(move.source.value) for move in moves), event.value,
             rst.literal(target.value) if target else 'see below']
            for (event, target), moves in itertools.groupby(
                volume_lifecycle.TRANSITIONS, lambda move: (move.event, move.target))],
            (40, 20, 20)), _CHOSEN))


_VOLUMES = """
``blockattach/storage/domain/volume_lifecycle.py`` contains the transitions of a volume's *own
status*. The status that clients see is derived from the own status and from the lowest rank of
the attachments of the volume.
"""
_CHOSEN = """
A cancelled deletion returns the volume to its previous status. A reset moves the volume to the
status that the administrator requests, if ``blockattach/storage/domain/reset_rule.py`` permits it.
"""
_INTRODUCTION = """
``blockattach/storage/domain/attachment_lifecycle.py`` contains the table of transitions, and
describes each state. Only ``blockattach/storage/db/attachments/attachments.py`` changes the state
of an attachment.

In a *transitional* state, the service works on the attachment, and the row has an owner and a
deadline. In a *granted* state, the target must give the initiator of the attachment access to the
volume. The lowest *rank* of the attachments of a volume determines the status of the volume. A
rejection returns the attachment to its previous state, and is not drawn.
"""


def main() -> int:
    """Print the figure or the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=('picture', 'document'))
    sys.stdout.write({'picture': picture, 'document': document}[parser.parse_args().what]())
    return 0


if __name__ == '__main__':
    sys.exit(main())
