#!/usr/bin/env python3
"""Write doc/source/user/sanity.txt, which compares services by the cases of blockattach-sanity.

    tools/docs/sanity_table.py blockattach=FILE cinder=FILE

``blockattach-sanity --differences --json FILE`` writes FILE. Each service has a column.
"""
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / 'doc/source/user/sanity.txt'
WORDS = {'passed': 'yes', 'failed': 'NO', 'differs': 'no', 'skipped': '-'}
LEGEND = 'yes: conforms. no: guaranteed by blockattach only. NO: does not conform. -: not run.'


def table(columns: dict[str, list[dict[str, Any]]]) -> str:
    """Return the cases of all services, in the order of the first service."""
    names = list(columns)
    outcomes = {name: {case['name']: case for case in found} for name, found in columns.items()}
    widths = [max(len(name), 4) for name in names]
    lines, group = [LEGEND], None
    for case in columns[names[0]]:
        if case['group'] != group:
            group = case['group']
            heads = '  '.join(name.ljust(width)
                              for name, width in zip(names, widths, strict=True))
            lines += ['', f'{heads}  {group}'.rstrip()]
        cells = (WORDS[found['status']] if (found := outcomes[name].get(case['name'])) else '-'
                 for name in names)
        row = '  '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f'{row}    {case["sentence"]}')
    lines += ['', *(f'{name}: {_counts(found)}' for name, found in columns.items())]
    return '\n'.join(lines) + '\n'


def _counts(found: list[dict[str, Any]]) -> str:
    statuses = [case['status'] for case in found]
    return ', '.join(f'{statuses.count(status)} {status}' for status in WORDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the files and write the table."""
    asked = sys.argv[1:] if arguments is None else arguments
    if not asked or not all('=' in one for one in asked):
        print(__doc__, file=sys.stderr)
        return 2
    columns = {}
    for one in asked:
        name, _, file = one.partition('=')
        columns[name] = json.loads(pathlib.Path(file).read_text('utf-8'))['cases']
    DOCUMENT.write_text(table(columns), 'utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
