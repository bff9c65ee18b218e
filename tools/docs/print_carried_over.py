#!/usr/bin/env python3
"""Print tables of the renamed and unsupported options of a cinder.conf."""
import sys

import rst
from blockattach.storage.conf import cinder_options


def document() -> str:
    """Return the tables of renamed options and of options that prevent the start."""
    renamed = [[rst.literal(f'[{group}] {name}'), rst.literal(now)]
               for group, rows in cinder_options.GROUPS.items()
               for name, now in sorted(rows.renamed.items())]
    stops = [[rst.literal(f'[{group}] {name}'),
              rst.literal(stop.now) if stop.now else 'not supported']
             for group, rows in cinder_options.GROUPS.items()
             for name, stop in sorted(rows.stops.items())]
    return ''.join((rst.heading('Renamed options', '~'),
                    rst.table(('option of Cinder', 'option of blockattach'), renamed, (50, 50)),
                    rst.heading('Options that prevent the start', '~'),
                    rst.table(('option of Cinder', 'replacement'), stops, (50, 50))))


if __name__ == '__main__':
    sys.stdout.write(document())
