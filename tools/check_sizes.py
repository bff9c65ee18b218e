#!/usr/bin/env python3
"""Check the lengths of files and functions and the numbers of internal imports.

A very long file, a function that does not fit on a screen, or a module that imports most of the
project usually has more than one responsibility. The check prints what exceeds a limit, and exits
with 1 if there is anything.

    tools/check_sizes.py --count             lines of production code of the checkout, by package
    tools/check_sizes.py --count COMMIT      lines of production code of a commit

The counted lines are those with code, including imports. Blank lines, comments and docstrings do
not count. Tests, test support and conformance kits are no production code.
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

# Modules that list everything of a kind, one line each, and modules that assemble a whole:
# builders, fixtures and tests. Splitting them would hide the list or the assembly.
MAY_IMPORT_MORE = ('blockattach/storage/api/resources/volumes/__init__.py',
                   'blockattach/storage/api/routes.py', 'blockattach/storage/api/services.py',
                   'blockattach/compute/api/routes.py', 'blockattach/wiring/options.py',
                   'blockattach/storage/policy/rules.py', 'blockattach/cmd/manage_work.py',
                   'blockattach_tempest_plugin/cases/__init__.py',
                   'blockattach/wiring/', 'blockattach/tests/', 'lab/')

NO_PRODUCTION = ('tests', 'testing', 'conformance')
_NO_CODE = frozenset((tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
                      tokenize.DEDENT, tokenize.ENDMARKER))
# A string literal between two of these tokens is a statement of its own, which is a docstring.
_ENDS = frozenset((tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER))

_SCRIPT_FUNCTION = re.compile(
    r'^(?P<indent> *)(?:(?:export|async|static|get) )*(?:function\*? )?'
    r'(?P<name>[#\w]+)\([^()]*\) \{$', re.MULTILINE)


class Finding(NamedTuple):
    """File, function or import list that exceeds its limit.

    :ivar path: relative to the root of the checkout
    """

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: {self.text}'


def findings(root: pathlib.Path) -> Iterator[Finding]:
    """Yield everything under ``root`` that exceeds a limit, by file in the order of names."""
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        yield from check(name, path.read_text(encoding='utf-8'))


def sources(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the files that people write: code, tests, documents and scripts."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            hidden = '__pycache__' in path.parts or path.name.startswith('.')
            if path.is_file() and path.suffix in SUFFIXES and not hidden:
                yield path


def check(name: str, text: str) -> Iterator[Finding]:
    """Yield what exceeds a limit in one file."""
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
    """Yield the functions and methods of a JavaScript file that are too long.

    The last line of a function has the same indentation as its first line.
    """
    for begin in _SCRIPT_FUNCTION.finditer(text):
        body, end, _ = text[begin.start():].partition(f'\n{begin["indent"]}}}')
        length = body.count('\n') + 2
        if end and length > FUNCTION_LINES:
            yield Finding(name, text.count('\n', 0, begin.start()) + 1,
                          f'{begin["name"]} has {length} lines, at most {FUNCTION_LINES} are '
                          'allowed')


def internal_imports(tree: ast.Module) -> set[str]:
    """Return the modules and names of this project that a module imports anywhere."""
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
    """Return the number of lines of a module that have code.

    Blank lines, comments and docstrings do not count.
    """
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
    """Yield the path below the package and the text of each module.

    :param commit: commit to read; None for the checkout
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
    """Return the number of lines of production code by package.

    A module outside of the packages is counted under its own name.
    """
    counts: collections.Counter[str] = collections.Counter()
    for path, text in files:
        package = path.partition('/')[0]
        if package not in NO_PRODUCTION:
            counts[package] += code_lines(text)
    return dict(sorted(counts.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the sizes of the checkout of this file, or count its lines."""
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
