"""Files of the project as text, and Python files as syntax trees.

Files are found by walking the tree without git, so that the rules also work in an unpacked
archive.
"""
import ast
import fnmatch
import functools
import gc
import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = 'blockattach'


class Module(NamedTuple):
    """Python file.

    :ivar path: path relative to the root
    :ivar aliases: full names of the imported modules and objects, by their names in the file
    """

    path: str
    text: str
    tree: ast.Module
    aliases: dict[str, str]

    def dotted(self, node: ast.expr) -> str:
        """Return the full name of an expression, like ``sqlalchemy.Table`` for ``sa.Table``.

        An expression that is not a name gives an empty string.
        """
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return f'{owner}.{node.attr}' if owner else ''
        return ''

    def imported(self, node: ast.expr) -> str:
        """Return the full name of an imported expression, or an empty string for another one."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        known = isinstance(root, ast.Name) and root.id in self.aliases
        return self.dotted(node) if known else ''

    def at(self, node: ast.AST) -> str:
        """Return path and line of a node, for the message of a failure."""
        return f'{self.path}:{getattr(node, "lineno", 1)}'


def parse(text: str, path: str = 'blockattach/example.py') -> Module:
    """Return a module with this text, as the tests of the rules need it."""
    tree = ast.parse(text, path)
    return Module(path, text, tree, _aliases(tree))


PICTURES = ('.png',)
"""Suffixes of files without text. A drawing in SVG is text."""

DOCUMENTS = {'.json', '.rst', '.svg', '.txt'}
"""Suffixes of built documents. Other files are read without the generators, which take seconds."""


@functools.cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Return the Python files below the folders (default: everywhere)."""
    # The trees are kept until the end of the tests. A garbage collection that traverses them takes
    # seconds.
    gc.disable()
    try:
        return tuple(_module(name, path) for name, path in _files()
                     if name.endswith('.py') and (not folders or name.startswith(folders)))
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def _module(name: str, path: pathlib.Path) -> Module:
    return parse(path.read_text(encoding='utf-8'), name)


def texts(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each text file whose name has one of the suffixes (default: all).

    Includes the documents that are built and not committed.
    """
    for name, path in _files():
        if name.endswith(suffixes) if suffixes else not name.endswith(PICTURES):
            yield name, path.read_text(encoding='utf-8')
    if not suffixes or set(suffixes) & DOCUMENTS:
        for name in documents().BUILT:
            if not suffixes or name.endswith(suffixes):
                yield name, built(name)


@functools.cache
def documents() -> types.ModuleType:
    """Return the table of the generated files (``tools/docs/documents.py``)."""
    return load_tool('documents')


@functools.cache
def built(name: str) -> str:
    """Return the text of a document that is built and not committed."""
    return str(documents().BUILT[name]())


def product() -> Iterator[Module]:
    """Yield the installed modules that are not tests."""
    tests = f'{PACKAGE}/tests/'
    return (module for module in modules(f'{PACKAGE}/') if not module.path.startswith(tests))


def load_tool(name: str) -> types.ModuleType:
    """Return a script of ``tools`` as a module.

    The script finds the modules beside it, as it does when it is run.

    :param name: path below ``tools`` without the suffix; without the folder for those in
        ``tools/docs`` and ``tools/gate``
    """
    folders = [ROOT / 'tools', ROOT / 'tools' / 'docs', ROOT / 'tools' / 'gate']
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
    [path] = [path for folder in folders if (path := folder / f'{name}.py').exists()]
    spec = importlib.util.spec_from_file_location(f'tool_{path.stem}', path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _files() -> tuple[tuple[str, pathlib.Path], ...]:
    return tuple((path.relative_to(ROOT).as_posix(), path) for path in _walk(ROOT))


def _walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for path in sorted(folder.iterdir()):
        if is_ignored(path.relative_to(ROOT).as_posix() + ('/' if path.is_dir() else '')):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path


def is_ignored(name: str) -> bool:
    """Return True if git ignores a file, or a folder whose name ends with a slash."""
    return any(_matches(name, pattern) for pattern in _ignored())


@functools.cache
def _ignored() -> tuple[str, ...]:
    lines = (ROOT / '.gitignore').read_text(encoding='utf-8').splitlines()
    return ('.git/', *(line for line in lines if line and not line.startswith('#')))


def _matches(name: str, pattern: str) -> bool:
    """Return True if a pattern of .gitignore matches. A slash inside anchors it at the root."""
    bare = pattern.rstrip('/')
    if '/' in bare:
        return fnmatch.fnmatch(name.rstrip('/'), bare.lstrip('/'))
    last = pathlib.PurePosixPath(name).name
    return fnmatch.fnmatch(last, bare) and (name.endswith('/') or not pattern.endswith('/'))


def _aliases(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f'{node.module}.{alias.name}'
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition('.')[0]] = (
                    alias.name if alias.asname else alias.name.partition('.')[0])
    return found
