#!/usr/bin/env python3
"""Print what the tests of the lab have reported: texts, then tables of what the kits prove, a row
for each behaviour and a column for each backend. tools/run-lab ends with it.
"""
import json
import pathlib
import sys
from collections.abc import Iterator
from collections.abc import Mapping

# What a backend's kit does not ask of it.
NOT_ASKED = '-'


def main() -> None:
    """The folder is the argument."""
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.glob('*.txt')):
        if text := path.read_text(encoding='utf-8'):
            print(text)
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for path in sorted(folder.glob('*.json')):
        told = json.loads(path.read_text(encoding='utf-8'))
        tables.setdefault(told['heading'], {})[told['backend']] = told['behaviours']
    for heading, backends in sorted(tables.items()):
        for line in table(heading, backends):
            print(line)
        print()


def table(heading: str, backends: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The lines of a table; ``backends`` are its columns."""
    names = sorted({name for behaviours in backends.values() for name in behaviours})
    first = max(map(len, [heading, *names]))
    widths = {backend: max(len(backend), len('skipped')) for backend in backends}
    yield '  '.join([heading.ljust(first), *(name.ljust(width) for name, width in widths.items())])
    yield '  '.join('-' * width for width in (first, *widths.values()))
    for name in names:
        yield '  '.join([name.ljust(first), *(
            backends[backend].get(name, NOT_ASKED).ljust(width)
            for backend, width in widths.items())]).rstrip()
    yield '  '.join([f'{len(names)} behaviours, ok'.ljust(first), *(
        str(list(backends[backend].values()).count('ok')).ljust(width)
        for backend, width in widths.items())]).rstrip()


if __name__ == '__main__':
    main()
