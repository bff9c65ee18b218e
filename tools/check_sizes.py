#!/usr/bin/env python3
"""Check the sizes that keep the code readable; prints what is too large, exits 1 if anything is.

A file that has to be scrolled for minutes, a function that does not fit on a screen, a module that
leans on everything: each is a sign of two things in one place.

    tools/check_sizes.py --count             lines of production code here, by package
    tools/check_sizes.py --count COMMIT      the same of a commit

Counted are lines with code, imports among them; blank lines, comments and docstrings are not, and
neither are tests, what they stand on, and the conformance kits.
"""
import argparse
import ast
import collections
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import tokenize
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

FILE_LINES = 500
FUNCTION_LINES = 50
INTERNAL_IMPORTS = 12

PACKAGE = 'blockattach'
PACKAGES = (PACKAGE, 'blockattachclient', 'blockattach_tempest_plugin')
FOLDERS = (*PACKAGES, 'lab', 'tools', 'doc/source', 'releasenotes/source', '.ci', 'devstack')
SUFFIXES = ('.py', '.sh', '.yaml', '.js', '.css', '')

# Lists of everything there is, one line each, and what puts a whole together: builders, fixtures
# and tests. Splitting them would hide what they show.
MAY_IMPORT_MORE = ('blockattach/storage/api/resources/volumes/__init__.py',
                   'blockattach/storage/api/routes.py', 'blockattach/storage/api/services.py',
                   'blockattach/compute/api/routes.py', 'blockattach/wiring/options.py',
                   'blockattach/storage/policy/rules.py', 'blockattach/cmd/manage_work.py',
                   'blockattach_tempest_plugin/cases/__init__.py',
                   'blockattach/wiring/', 'blockattach/tests/', 'lab/')

NO_PRODUCTION = ('tests', 'testing', 'conformance')
_NO_CODE = frozenset((tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
                      tokenize.DEDENT, tokenize.ENDMARKER))
# A text that is a statement by itself stands between these: a docstring.
_ENDS = frozenset((tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER))

_SCRIPT_FUNCTION = re.compile(
    r'^(?P<indent> *)(?:(?:export|async|static|get) )*(?:function\*? )?'
    r'(?P<name>[#\w]+)\([^()]*\) \{$', re.MULTILINE)


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
    if name.endswith('.js'):
        yield from _check_script(name, text)
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


def _check_script(name: str, text: str) -> Iterator[Finding]:
    """Functions and methods of JavaScript: their last line is indented as their first one is."""
    for begin in _SCRIPT_FUNCTION.finditer(text):
        body, end, _ = text[begin.start():].partition(f'\n{begin["indent"]}}}')
        length = body.count('\n') + 2
        if end and length > FUNCTION_LINES:
            yield Finding(name, text.count('\n', 0, begin.start()) + 1,
                          f'{begin["name"]} has {length} lines, at most {FUNCTION_LINES} are '
                          'allowed')


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
    return module.partition('.')[0] in PACKAGES


def code_lines(text: str) -> int:
    """How many lines of a module have code: no blank ones, comments or docstrings."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline)
              if token.type not in (tokenize.COMMENT, tokenize.NL)]
    lines: set[int] = set()
    before = tokenize.NEWLINE
    for token, after in zip(tokens, [*tokens[1:], *tokens[-1:]], strict=True):
        is_docstring = (token.type == tokenize.STRING and before in _ENDS
                        and after.type in _ENDS)
        if token.type not in _NO_CODE and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        before = token.type
    blank = (number for number, line in enumerate(text.splitlines(), 1) if not line.strip())
    return len(lines.difference(blank))


def production(root: pathlib.Path, commit: str | None) -> Iterator[tuple[str, str]]:
    """Paths below the package, and texts.

    :param commit: None: what lies in the checkout
    """
    if commit is None:
        for path in sorted((root / PACKAGE).rglob('*.py')):
            yield path.relative_to(root / PACKAGE).as_posix(), path.read_text(encoding='utf-8')
        return
    archive = subprocess.run(['git', 'archive', commit, PACKAGE], cwd=root, check=True,
                             stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.endswith('.py') else None
            if file is not None:
                yield member.name.partition('/')[2], file.read().decode()


def count(files: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Lines of production code by package; a module beside the packages counts for itself."""
    counts: collections.Counter[str] = collections.Counter()
    for path, text in files:
        package = path.partition('/')[0]
        if package not in NO_PRODUCTION:
            counts[package] += code_lines(text)
    return dict(sorted(counts.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or count the checkout that this file is in."""
    parser = argparse.ArgumentParser(description='Check the sizes of files, functions and imports')
    parser.add_argument('--count', nargs='?', const='', metavar='COMMIT',
                        help='count the lines of production code instead')
    asked = parser.parse_args(arguments)
    root = pathlib.Path(__file__).resolve().parent.parent
    if asked.count is not None:
        counts = count(production(root, asked.count or None))
        for name, lines in [*counts.items(), ('in all', sum(counts.values()))]:
            print(f'{lines:6} {name}')
        return 0
    found = list(findings(root))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
