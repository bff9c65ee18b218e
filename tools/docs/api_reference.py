"""Rendering of an API reference, one page for each group of operations.

Requests and responses are rendered from the OpenAPI description of an operation, its versions and
its policy from its row of the table of operations, and its example from the recorded examples
(tools/docs/api_player.py).
"""
import argparse
import functools
import http
import json
import pathlib
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import print_api
import print_openapi
import rst
from blockattach.platform.http import operation

_JSON = 'application/json'
_VARIANTS = ('anyOf', 'oneOf', 'allOf')
# The first page describes these parameters.
_EVERYWHERE = tuple(f'#/components/parameters/{name}' for name in ('project_id', 'version'))
_BOUNDS = (('minimum', 'minimum {}'), ('maximum', 'maximum {}'),
           ('minLength', 'minimum length {}'), ('maxLength', 'maximum length {}'))
_SINCE = """
*Since* is the first microversion that supports an operation.
"""


class Group(NamedTuple):
    """Group of operations that share a page."""

    title: str
    about: str


class Field(NamedTuple):
    """Key of a body by its path, such as ``volume.metadata``. ``[]`` is any item of a list."""

    place: str
    kind: str
    required: bool
    text: str = ''


class Reference:
    """Pages of the reference of one API."""

    def __init__(self, rows: Callable[[], Sequence[operation.Operation]],
                 groups: Mapping[str, Group], group_of: Callable[[operation.Operation], str],
                 play: Callable[[], Mapping[str, Any]], recorded: pathlib.Path,
                 refused: Mapping[str, str], title: str, about: str, folder: str, prefix: str,
                 latest: operation.V, label: str = 'api') -> None:
        """
        :param groups: pages by name, in the order of the table of contents
        :param group_of: returns the name of the page that describes an operation
        :param play: sends the example requests, and returns the examples by operation
        :param recorded: JSON file with the examples of an earlier run of ``play``
        :param refused: reason why the example of an operation is rejected, by operation
        :param about: introduction of the first page, before the table of contents
        :param folder: folder of the other pages, relative to the first page
        :param prefix: prefix of the paths of operations
        :param latest: microversion to describe
        :param label: prefix of the Sphinx labels of operations
        """
        self._rows, self._groups, self._group_of = rows, groups, group_of
        self._refused, self._title, self._about = refused, title, about
        self._folder, self._prefix, self._latest, self._label = folder, prefix, latest, label
        self._play, self._recorded = play, recorded

    @functools.cached_property
    def examples(self) -> Mapping[str, Any]:
        """Recorded examples by operation."""
        return json.loads(self._recorded.read_text(encoding='utf-8'))

    def record(self) -> str:
        """Send the example requests, and return the examples as JSON."""
        return json.dumps(self._play(), indent=1, ensure_ascii=False) + '\n'

    def rows_of(self, group: str) -> list[operation.Operation]:
        """Return the operations of a group."""
        return [row for row in self._rows() if self._group_of(row) == group]

    def label(self, row: operation.Operation) -> str:
        """Return the Sphinx label of an operation."""
        words = ''.join(letter if letter.isalnum() else ' ' for letter in row.name).split()
        slash = ['slash'] if row.root and row.path != '/' and row.path.endswith('/') else []
        return '-'.join([self._label, *words, *slash]).lower()

    def overview(self) -> str:
        """Return the page that lists all operations."""
        parts = [rst.NOTICE, rst.heading(self._title), self._about]
        parts += [f'   {self._folder}/{name}\n' for name in self._groups]
        parts.append(_SINCE)
        for name, group in self._groups.items():
            parts.append(rst.heading(group.title, '-'))
            parts.append(rst.table(('Operation', 'Since', 'Description'), [
                (f':ref:`{_title(row)} <{self.label(row)}>`', _versions(row), row.summary)
                for row in self.rows_of(name)], (40, 20, 40)))
        return ''.join(parts)

    def page(self, name: str) -> str:
        """Return the page of a group of operations."""
        group = self._groups[name]
        parts = [rst.NOTICE, rst.heading(group.title), f'\n{group.about}\n']
        for row in self.rows_of(name):
            parts.append(self._operation(row))
        return ''.join(parts)

    def _operation(self, row: operation.Operation) -> str:
        path = row.path if row.root else f'{self._prefix}{row.path}'
        described = print_openapi.one(path, row, self._latest)
        example = self._example(row)
        return ''.join((
            f'\n.. _{self.label(row)}:\n', rst.heading(_title(row), '-'), f'\n{row.summary}\n',
            self._refusal(row), _facts(path, row), _request(row, described, example['request']),
            _answer(row, described, example['answer']), _failures(row)))

    def _example(self, row: operation.Operation) -> Mapping[str, Any]:
        if row.name not in self.examples:
            raise LookupError(
                f'{self._recorded.name} has no example of {row.name}. Run "tox -e gen".')
        return self.examples[row.name]

    def _refusal(self, row: operation.Operation) -> str:
        reason = self._refused.get(row.name)
        return f'\nThe example request is rejected because {reason}.\n' if reason else ''


def _title(row: operation.Operation) -> str:
    return f'{row.method} {row.path}' + (f' ({row.action})' if row.action else '')


def _versions(row: operation.Operation) -> str:
    if row.extension is not None:
        return f'{operation.EXTENSION} {row.extension}'
    return f'{row.since}' if row.until is None else f'{row.since} to {row.until}'


def _facts(path: str, row: operation.Operation) -> str:
    added = {*(row.extended or ()), *(row.parameters or ())} - {row.extension}
    rights = rst.literal(row.policy or '') or (
        'none (no token required)' if row.public else 'none (any valid token)')
    lines = [f':path: ``{row.method} {path}``',
             f':since: {_versions(row)}' + (
                 f', extended in {operation.EXTENSION} {min(added)}' if added else ''),
             f':policy: {rights}', f':success: {row.status}' + (
                 ' with an ``ETag`` header, or 304 if the ``If-None-Match`` header matches'
                 if row.facts else '')]
    return '\n' + '\n'.join(lines) + '\n'


def _request(row: operation.Operation, described: Mapping[str, Any],
             asked: Mapping[str, Any]) -> str:
    found = [_parameter(one) for one in described['parameters']
             if one.get('$ref') not in _EVERYWHERE]
    body = described.get('requestBody')
    if body:
        found += [(one.place, 'body', one.kind, one.required, one.text)
                  for one in _fields(body['content'][_JSON]['schema'])]
    table = rst.table(('Name', 'In', 'Type', 'Required', 'Description'), [
        (rst.literal(name), place, kind, 'yes' if required else '', text)
        for name, place, kind, required, text in found], (28, 9, 32, 11, 20)) if found else ''
    return f'\n.. rubric:: Request\n{table}{_block(_asked(row, asked))}'


def _parameter(one: Mapping[str, Any]) -> tuple[str, str, str, bool, str]:
    if '$ref' in one:
        one = print_openapi.parameter(one['$ref'])
    return (one['name'], one['in'], _kind(one['schema']), one.get('required', False),
            one.get('description', ''))


def _answer(row: operation.Operation, described: Mapping[str, Any],
            answered: Mapping[str, Any]) -> str:
    content = described['responses'][str(row.status)].get('content')
    schema = content[_JSON]['schema'] if content else {}
    plain = {one.place for one in _fields(schema['anyOf'][0] if row.extended else schema)}
    found = [(rst.literal(one.place), one.kind, _when(one, plain)) for one in _fields(schema)]
    table = rst.table(('Name', 'Type', 'Always present'), found, (42, 42, 16)) if found else ''
    return f'\n.. rubric:: Response\n{table}{_block(_answered(answered))}'


def _when(field: Field, plain: Collection[str]) -> str:
    """Return the condition under which a response has a key."""
    if field.place not in plain:
        return f'if the request has a {operation.EXTENSION} version'
    return 'yes' if field.required else ''


def _failures(row: operation.Operation) -> str:
    named: dict[int, list[str]] = {}
    for error in row.faults:
        status = error.status
        named.setdefault(status, []).append(rst.literal(error.code))
    rows = [(str(code), print_openapi.REASONS[code], ', '.join(sorted(named.get(code, ()))))
            for code in print_api.codes(row)]
    return '\n.. rubric:: Errors\n' + rst.table(
        ('Status', 'Description', ':doc:`Error codes </user/errors>`'), rows, (10, 50, 40))


def _fields(schema: Mapping[str, Any]) -> Iterable[Field]:
    """Return each key once, described by the first variant of the schema that contains the key."""
    found: dict[str, Field] = {}
    for one in _walk(schema, '', True):
        found.setdefault(one.place, one)
    return found.values()


def _walk(schema: Mapping[str, Any], place: str, required: bool) -> Iterable[Field]:
    variants = [inner for key in _VARIANTS for inner in schema.get(key, ())]
    needed = schema.get('required', ())
    if 'properties' in schema:
        for name, inner in schema['properties'].items():
            inside = f'{place}.{name}' if place else name
            yield Field(inside, _kind(inner), required and name in needed,
                        inner.get('description', ''))
            yield from _walk(inner, inside, required and name in needed)
    if 'items' in schema:
        yield from _walk(schema['items'], f'{place}[]', required)
    for variant in variants:
        yield from _walk(variant, place, required)


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if 'enum' in schema or 'const' in schema:
        values = schema.get('enum', [schema.get('const')])
        return ', '.join(rst.literal(json.dumps(value)) for value in values)
    for key in _VARIANTS:
        if key in schema:
            return ' or '.join(dict.fromkeys(_kind(inner) for inner in schema[key]))
    kinds = schema.get('type', 'any')
    words = ' or '.join(kinds) if isinstance(kinds, list) else kinds
    more = [schema['format']] if 'format' in schema else []
    more += [text.format(schema[key]) for key, text in _BOUNDS if key in schema]
    return f'{words} ({", ".join(more)})' if more else words


def _asked(row: operation.Operation, asked: Mapping[str, Any]) -> str:
    lines = [f'{asked["method"]} {asked["path"]} HTTP/1.1']
    if not row.public:
        lines.append('X-Auth-Token: TOKEN')
    if asked['version'] is not None:
        lines.append(f'{operation.VERSION_HEADER}: {asked["version"]}')
    return _message(lines, asked['body'])


def _answered(answered: Mapping[str, Any]) -> str:
    status = http.HTTPStatus(answered['status'])
    return _message([f'HTTP/1.1 {status.value} {status.phrase}'], answered['body'])


def _message(lines: list[str], body: Any) -> str:
    if body is not None:
        lines = [*lines, f'Content-Type: {_JSON}', '', json.dumps(body, indent=2)]
    return '\n'.join(lines)


def _block(text: str) -> str:
    indented = ''.join(f'   {line}'.rstrip() + '\n' for line in text.splitlines())
    return f'\n.. code-block:: http\n\n{indented}'


def print_page(reference: Reference, groups: Iterable[str], description: str | None) -> None:
    """Print the page of the group that the command line names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('group', choices=list(groups))
    print(reference.page(parser.parse_args().group), end='')
