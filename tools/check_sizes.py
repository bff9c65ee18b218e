#!/usr/bin/env python3
"""Check the sizes that keep the code readable; prints what is too large, exits 1 if anything is.

A file that has to be scrolled for minutes, a function that does not fit on a screen, a module that
leans on everything: each is a sign of two things in one place.
"""
import ast
import pathlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

FILE_LINES = 500
FUNCTION_LINES = 50
INTERNAL_IMPORTS = 12

PACKAGE = 'blockattach'
FOLDERS = (PACKAGE, 'tools', 'doc/source', 'releasenotes/source', '.ci')
SUFFIXES = ('.py', '.sh', '.yaml', '')

# Lists of everything there is, one line each, and what puts a whole together: builders, fixtures
# and tests. Splitting them would hide what they show.
MAY_IMPORT_MORE = ('blockattach/api/routes.py', 'blockattach/conf/options.py',
                   'blockattach/wiring/', 'blockattach/tests/')


class Finding(NamedTuple):
    """One thing that is too large. ``path`` is relative to the root of the checkout."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: {self.text}'


def findings(root: pathlib.Path) -> Iterator[Finding]:
    """What is too large under ``root``, file by file in the order of their names."""
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        yield from check(name, path.read_text(encoding='utf-8'))


def sources(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The files that people write: code, tests, stories, scripts."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            hidden = '__pycache__' in path.parts or path.name.startswith('.')
            if path.is_file() and path.suffix in SUFFIXES and not hidden:
                yield path


def check(name: str, text: str) -> Iterator[Finding]:
    """What is too large in one file."""
    lines = text.count('\n')
    if lines > FILE_LINES:
        yield Finding(name, 1, f'{lines} lines, at most {FILE_LINES} are allowed')
    if not name.endswith('.py'):
        return
    tree = ast.parse(text, name)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield Finding(name, node.lineno, f'{node.name} has {length} lines, at most '
                                                 f'{FUNCTION_LINES} are allowed')
    count = len(internal_imports(tree))
    if count > INTERNAL_IMPORTS and not name.startswith(MAY_IMPORT_MORE):
        yield Finding(name, 1, f'{count} internal imports, at most {INTERNAL_IMPORTS} are allowed')


def internal_imports(tree: ast.Module) -> set[str]:
    """The modules (or names) of the package that a module imports, wherever it does so."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_internal(node.module or ''):
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if _is_internal(alias.name)}
    return found


def _is_internal(module: str) -> bool:
    return module == PACKAGE or module.startswith(f'{PACKAGE}.')


def main() -> int:
    """Check the checkout that this file is in."""
    found = list(findings(pathlib.Path(__file__).resolve().parent.parent))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
