#!/usr/bin/env python3
"""Print the reports of the tests in guests: texts, then tables of the tested behaviors.

A table has a row for each behavior and a column for each backend. Used by tools/run-lab.
"""
import json
import pathlib
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# Cell of a behavior that the kit of a backend does not test.
NOT_ASKED = '-'


def main() -> None:
    """Print the reports of the directory that the argument names."""
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.glob('*.txt')):
        if text := path.read_text(encoding='utf-8'):
            print(text)
    tables: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob('*.json')):
        report = json.loads(path.read_text(encoding='utf-8'))
        tables.setdefault(report['heading'], []).append(report)
    for heading, kits in sorted(tables.items()):
        for line in table(heading, kits):
            print(line)
        print()


def table(heading: str, kits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table with a column for each backend and a row for each behavior.

    The last lines list the optional capabilities of each backend.
    """
    names = sorted({name for kit in kits for name in kit['behaviors']})
    first = max(map(len, [heading, *names]))
    widths = [max(len(kit['backend']), len('skipped')) for kit in kits]

    def row(head: str, cells: Iterable[str]) -> str:
        filled = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return '  '.join([head.ljust(first), *filled]).rstrip()

    yield row(heading, [kit['backend'] for kit in kits])
    yield '  '.join('-' * width for width in (first, *widths))
    for name in names:
        yield row(name, [kit['behaviors'].get(name, NOT_ASKED) for kit in kits])
    yield row(f'{len(names)} behaviors, ok', [
        str(list(kit['behaviors'].values()).count('ok')) for kit in kits])
    for kit in kits:
        for noun in ('declared', 'proved'):
            if kit[noun]:
                yield f'{kit["backend"]}: {noun}: {", ".join(kit[noun])}'


if __name__ == '__main__':
    main()
