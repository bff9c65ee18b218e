#!/usr/bin/env python3
"""Print the API reference: a page for each group of operations.

What an operation takes and answers is rendered from its part of the OpenAPI document; its versions
and its rule from the row behind that; its example was played (tools/api_examples.py).
"""
import argparse
import functools
import http
import json
import pathlib
import sys
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import api_examples
import print_api
import print_openapi
import rst
from blockattach.api import routes
from blockattach.api.resources import not_offered
from blockattach.http import dispatch
from blockattach.http import operation
from blockattach.http import responses

FOLDER = 'doc/source/user/api'
_DOCUMENTS = pathlib.Path(__file__).parents[1] / 'doc/source'
_ACTIONS = 'volume_actions'
_NOT_OFFERED = 'not_offered'
_JSON = 'application/json'
_VARIANTS = ('anyOf', 'oneOf', 'allOf')
# Said once, on the first page.
_EVERYWHERE = tuple(f'#/components/parameters/{name}' for name in ('project_id', 'version'))
_BOUNDS = (('minimum', 'at least {}'), ('maximum', 'at most {}'),
           ('minLength', 'length from {}'), ('maxLength', 'length up to {}'))


class Group(NamedTuple):
    """One page."""

    title: str
    about: str


_NAMED = {
    'volumes': Group('Volumes', 'Create, list, show, change and delete volumes.'),
    'attachments': Group(
        'Attachments', 'Give hosts access to volumes, and take it away again. How the requests '
        'follow each other: :doc:`/user/attaching`.'),
    _ACTIONS: Group(
        'Volume actions', 'Attaching as clients do it that know of no attachments (before 3.27), '
        'and what an administrator does to a volume.'),
    'snapshots': Group('Snapshots', 'Keep what volumes were at one moment. More: '
                       ':doc:`/user/snapshots`.'),
    'types': Group('Volume types', 'What volumes are like, and who may use them: '
                   ':doc:`/admin/volume_types`. Their meaning for placing: '
                   ':doc:`/admin/scheduling`; for encryption: :doc:`/admin/encryption`.'),
    'default-types': Group('Default types', 'The types of volumes that name none, by project: '
                           ':doc:`/admin/volume_types`.'),
    'qos-specs': Group('QoS specs', 'Limits that volume types bring: :doc:`/admin/qos`.'),
    'limits': Group('Limits', 'Quotas of a project, and how much of them is used.'),
    'os-quota-sets': Group('Quota sets', 'How much a project may have: :doc:`/admin/quotas`.'),
    'os-quota-class-sets': Group('Quota class sets', 'How much projects may have that were given '
                                 'no limits: :doc:`/admin/quotas`.'),
    'messages': Group('Messages', 'What went wrong after a request was answered.'),
    'os-services': Group('Services', 'The processes behind the API: :doc:`/admin/processes`.'),
    'scheduler-stats': Group('Pools', 'What the pools of the backends have reported.'),
    'resource_filters': Group('Resource filters', 'By what users may filter lists: '
                              ':doc:`/user/metadata`.'),
    'capabilities': Group('Capabilities', 'What a backend can do.'),
    'clusters': Group('Clusters', 'Volume services that keep a backend together: '
                      ':doc:`/admin/clusters`.'),
    'os-hosts': Group('Hosts', 'Services by their hosts, and what is on a backend.'),
    'os-availability-zone': Group('Availability zones', 'Where volumes can be.'),
    'workers': Group('Workers', 'Work that services have left: :doc:`/admin/services`.'),
    'extensions': Group('Extensions', 'Parts of the API, as clients look for them.'),
    _NOT_OFFERED: Group('Not offered', 'What there is none of: :doc:`/user/not_offered`.'),
    'versions': Group('Versions of the API', 'Where a client begins. The microversions: '
                      ':doc:`/user/versions`.'),
}


class Field(NamedTuple):
    """A key of a body, by its place: ``volume.metadata``; ``[]`` is any element of a list."""

    place: str
    kind: str
    required: bool
    text: str = ''


def group_of(row: operation.Operation) -> str:
    """The page that an operation is on."""
    if row.path == '/volumes/{id}/action':
        return _ACTIONS
    if row in not_offered.OPERATIONS:
        return _NOT_OFFERED
    return 'versions' if row.root else print_api.noun(row)


def rows_of(group: str) -> list[operation.Operation]:
    """The operations of a page."""
    return [row for row in routes.operations() if group_of(row) == group]


def _described(name: str) -> Group:
    """A page on what a module of the API says of itself: a title, a colon, a sentence."""
    row = rows_of(name)[0]
    module = row.handler.__module__
    title, _, about = str(sys.modules[module].__doc__).partition(': ')
    page = f'/user/{module.rpartition(".")[2]}'
    more = f' See :doc:`{page}`.' if pathlib.Path(f'{_DOCUMENTS}{page}.rst').exists() else ''
    since = '' if row.since == operation.BASE else f' ({row.since})'
    return Group(f'{title}{since}', f'{about[:1].upper()}{about[1:]}{more}')


GROUPS: dict[str, Group] = _NAMED | {
    name: _described(name) for name in map(group_of, routes.operations()) if name not in _NAMED}
"""The pages, those with a text of their own first."""


def label(row: operation.Operation) -> str:
    """By which an operation is referred to from other pages."""
    words = ''.join(letter if letter.isalnum() else ' ' for letter in row.name).split()
    slash = ['slash'] if row.root and row.path != '/' and row.path.endswith('/') else []
    return '-'.join(['api', *words, *slash]).lower()


@functools.cache
def examples() -> Mapping[str, Any]:
    """Played once for all pages."""
    return api_examples.recorded()


def examples_document() -> str:
    """All of them, for programs."""
    return json.dumps(examples(), indent=1, ensure_ascii=False) + '\n'


def overview() -> str:
    """The first page: what there is."""
    parts = [rst.NOTICE, rst.heading('API reference'), _OVERVIEW]
    parts += [f'   api/{name}\n' for name in GROUPS]
    parts.append(_ALL)
    for name, group in GROUPS.items():
        parts.append(rst.heading(group.title, '-'))
        parts.append(rst.table(('operation', 'since', 'what it does'), [
            (f':ref:`{_title(row)} <{label(row)}>`', _versions(row), row.summary)
            for row in rows_of(name)], (40, 20, 40)))
    return ''.join(parts)


_OVERVIEW = """
Every path stands below ``/v3`` and, for clients that put it there, below ``/v3/{project_id}``. A
client names the :doc:`microversion <versions>` that it speaks in a header; what it gets beyond the
Block Storage API is in :doc:`extension`, and what failures look like in :doc:`errors`.

.. tip::

   The same as an OpenAPI 3.1 document, for generators of clients and for tools that test:
   :download:`openapi.json`. The requests and answers of these pages:
   :download:`api_examples.json`. A test plays them anew and compares.

.. toctree::
   :maxdepth: 1

"""

_ALL = """
*Since* is the microversion from which on an operation exists.
"""


def page(name: str) -> str:
    """One page."""
    group = GROUPS[name]
    parts = [rst.NOTICE, rst.heading(group.title), f'\n{group.about}\n']
    for row in rows_of(name):
        parts.append(_operation(row))
    return ''.join(parts)


def _title(row: operation.Operation) -> str:
    return f'{row.method} {row.path}' + (f' ({row.action})' if row.action else '')


def _versions(row: operation.Operation) -> str:
    if row.extension is not None:
        return f'{operation.EXTENSION} {row.extension}'
    return f'{row.since}' if row.until is None else f'{row.since} to {row.until}'


def _operation(row: operation.Operation) -> str:
    path = row.path if row.root else f'{operation.PREFIX}/{{{dispatch.PROJECT}}}{row.path}'
    described = print_openapi.one(path, row)
    return ''.join((
        f'\n.. _{label(row)}:\n', rst.heading(_title(row), '-'), f'\n{row.summary}\n',
        _refused(row), _facts(path, row), _request(row, described), _answer(row, described),
        _failures(row)))


def _refused(row: operation.Operation) -> str:
    reason = api_examples.REFUSED.get(row.name)
    return f'\nThe example is refused: {reason}.\n' if reason else ''


def _facts(path: str, row: operation.Operation) -> str:
    added = [*(row.extended or ()), *(row.parameters or ())]
    rights = rst.literal(row.policy or '') or ('no token is needed' if row.public else 'any token')
    lines = [f':path: ``{row.method} {path}``',
             f':since: {_versions(row)}' + (
                 f'; more with {operation.EXTENSION} {min(added)}' if added else ''),
             f':policy: {rights}', f':success: {row.status}' + (
                 ' with an ``ETag``; 304 without a body for who has it' if row.facts else '')]
    return '\n' + '\n'.join(lines) + '\n'


def _request(row: operation.Operation, described: Mapping[str, Any]) -> str:
    found = [_parameter(one) for one in described['parameters']
             if one.get('$ref') not in _EVERYWHERE]
    body = described.get('requestBody')
    if body:
        found += [(one.place, 'body', one.kind, one.required, one.text)
                  for one in _fields(body['content'][_JSON]['schema'])]
    table = rst.table(('name', 'in', 'type', 'required', 'meaning'), [
        (rst.literal(name), place, kind, 'yes' if required else '', text)
        for name, place, kind, required, text in found], (28, 9, 32, 11, 20)) if found else ''
    return f'\n.. rubric:: Request\n{table}{_block(_asked(row))}'


def _parameter(one: Mapping[str, Any]) -> tuple[str, str, str, bool, str]:
    if '$ref' in one:
        one = print_openapi.parameter(one['$ref'])
    return (one['name'], one['in'], _kind(one['schema']), one.get('required', False),
            one.get('description', ''))


def _answer(row: operation.Operation, described: Mapping[str, Any]) -> str:
    content = described['responses'][str(row.status)].get('content')
    schema = content[_JSON]['schema'] if content else {}
    plain = {one.place for one in _fields(schema['anyOf'][0] if row.extended else schema)}
    found = [(rst.literal(one.place), one.kind, _when(one, plain)) for one in _fields(schema)]
    table = rst.table(('name', 'type', 'always'), found, (42, 42, 16)) if found else ''
    return f'\n.. rubric:: Answer\n{table}{_block(_answered(row))}'


def _when(field: Field, plain: Collection[str]) -> str:
    """Whether a key is always there, or only for clients that ask for the extension."""
    if field.place not in plain:
        return f'with {operation.EXTENSION}'
    return 'yes' if field.required else ''


def _failures(row: operation.Operation) -> str:
    named: dict[int, list[str]] = {}
    for error in row.faults:
        status = responses.fault(error.__new__(error)).status
        named.setdefault(status, []).append(rst.literal(error.code))
    rows = [(str(code), print_openapi.REASONS[code], ', '.join(sorted(named.get(code, ()))))
            for code in print_api.codes(row)]
    return '\n.. rubric:: Failures\n' + rst.table(
        ('status', 'because', ':doc:`codes </user/errors>` of this operation'), rows, (10, 50, 40))


def _fields(schema: Mapping[str, Any]) -> Iterable[Field]:
    """Every key once, as the first variant of the schema that has it describes it."""
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
    """The type of a value, in words."""
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


def _asked(row: operation.Operation) -> str:
    asked = examples()[row.name]['request']
    lines = [f'{asked["method"]} {asked["path"]} HTTP/1.1']
    if not row.public:
        lines.append('X-Auth-Token: TOKEN')
    if asked['version'] is not None:
        lines.append(f'{operation.VERSION_HEADER}: {asked["version"]}')
    return _message(lines, asked['body'])


def _answered(row: operation.Operation) -> str:
    answered = examples()[row.name]['answer']
    status = http.HTTPStatus(answered['status'])
    return _message([f'HTTP/1.1 {status.value} {status.phrase}'], answered['body'])


def _message(lines: list[str], body: Any) -> str:
    if body is not None:
        lines = [*lines, f'Content-Type: {_JSON}', '', json.dumps(body, indent=2)]
    return '\n'.join(lines)


def _block(text: str) -> str:
    indented = ''.join(f'   {line}'.rstrip() + '\n' for line in text.splitlines())
    return f'\n.. code-block:: http\n\n{indented}'


def main() -> int:
    """Print one page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('group', choices=GROUPS)
    sys.stdout.write(page(parser.parse_args().group))
    return 0


if __name__ == '__main__':
    sys.exit(main())
