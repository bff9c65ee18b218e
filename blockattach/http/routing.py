"""From method and path to an operation: declared with Routes, looked up in a tree.

Routes tries one route after the other, which costs more the more routes there are. So its Mapper
only declares the paths, and a tree over their segments is made from it: a lookup costs what the
path is long. Where a literal and a variable both fit, the literal is tried first.
"""
import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import routes
from routes import route as routes_route

from blockattach.http import operation

PREFIX = '/v3'
PROJECT = 'project_id'


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """The operations of one method and path; several that differ in versions or actions."""

    template: str
    variables: tuple[str, ...]
    operations: tuple[operation.Operation, ...]
    public: bool
    """Whether every one of the operations is."""
    root: bool
    """Whether every one of the operations is."""


class Match(NamedTuple):
    """What a path means. ``project_id`` is None where the path names none."""

    entry: Entry
    variables: dict[str, str]
    project_id: str | None


class _Node:
    __slots__ = ('entries', 'literals', 'variable')

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.entries: dict[str, Entry] = {}


class Table:
    """Every path of the API."""

    def __init__(self, operations: Iterable[operation.Operation]) -> None:
        """Declare the operations' paths.

        :raises ValueError: two operations cannot be distinguished
        """
        by_key: dict[str, list[operation.Operation]] = {}
        self.mapper = routes.Mapper(controller_scan=None, register=False)
        for row in operations:
            for template in _templates(row):
                key = f'{row.method} {template}'
                if key not in by_key:
                    # The route's name is the key: of defaults Routes keeps only strings.
                    self.mapper.connect(key, template, controller=key,
                                        conditions={'method': [row.method]})
                by_key.setdefault(key, []).append(row)
        for rows in by_key.values():
            _refuse_ambiguous(rows)
        self._root = _Node()
        for declared in self.mapper.matchlist:
            self._add(declared, tuple(by_key[declared.name]))

    def _add(self, declared: routes_route.Route,
             operations: tuple[operation.Operation, ...]) -> None:
        node = self._root
        variables = []
        for segment in _segments(declared.routepath):
            if segment.startswith('{'):
                variables.append(segment[1:-1])
                if node.variable is None:
                    node.variable = _Node()
                node = node.variable
            else:
                node = node.literals.setdefault(segment, _Node())
        for method in declared.conditions['method']:
            if method in node.entries:
                raise ValueError(f'{declared.name} is like {node.entries[method].template}')
            node.entries[method] = Entry(
                declared.routepath, tuple(variables), operations,
                public=all(row.public for row in operations),
                root=all(row.root for row in operations))

    def match(self, method: str, path: str) -> Match | None:
        """What a method and path mean, or None. HEAD is GET where it is nothing of its own."""
        if not path.startswith('/') or '\0' in path:
            return None
        segments = _segments(path)
        found = _find(self._root, segments, 0, method, ())
        if found is None and method == 'HEAD':
            found = _find(self._root, segments, 0, 'GET', ())
        if found is None:
            return None
        entry, values = found
        variables = dict(zip(entry.variables, values, strict=True))
        return Match(entry, variables, variables.pop(PROJECT, None))


def _templates(row: operation.Operation) -> tuple[str, ...]:
    if row.root:
        return (row.path,)
    return (f'{PREFIX}/{{{PROJECT}}}{row.path}', f'{PREFIX}{row.path}')


def _segments(path: str) -> list[str]:
    """The parts of a path. A slash at its end makes an empty last part, and so another path, as
    with Routes: a client with an empty id gets no list instead of one resource."""
    return path[1:].split('/')


def _find(node: _Node, segments: list[str], index: int, method: str,
          values: tuple[str, ...]) -> tuple[Entry, tuple[str, ...]] | None:
    if index == len(segments):
        entry = node.entries.get(method)
        return None if entry is None else (entry, values)
    segment = segments[index]
    literal = node.literals.get(segment)
    if literal is not None:
        found = _find(literal, segments, index + 1, method, values)
        if found is not None:
            return found
    if node.variable is not None and segment:
        return _find(node.variable, segments, index + 1, method, (*values, segment))
    return None


def _refuse_ambiguous(rows: list[operation.Operation]) -> None:
    for index, one in enumerate(rows):
        for other in rows[index + 1:]:
            if (one.action is None) != (other.action is None):
                raise ValueError(f'{one.name} and {other.name}: an action beside none')
            apart = (one.action != other.action
                     or (one.until is not None and one.until < other.since)
                     or (other.until is not None and other.until < one.since))
            if not apart:
                raise ValueError(f'{one.name} is there twice at one version')
