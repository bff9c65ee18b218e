#!/usr/bin/env python3
"""Print the bounds of request bodies, field by field, here and in Cinder."""
import fnmatch
import functools
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import bounds
import rst
from blockattach.platform.http import operation
from blockattach.storage.api import routes

PEER = pathlib.Path(__file__).with_name('cinder_api.json')
V = operation.V

# Rejected whatever their bodies are.
NOT_OFFERED = ('*/backups*', '*/groups*', '*/group_snapshots*', '*/group_types*',
               '*/consistencygroups*', '*/cgsnapshots*')

# Requests whose first microversion differs.
FIRST_VERSIONS = {
    'GET /types/default': 'Cinder treats "default" as the ID of a volume type',
    'POST /groups/action': 'groups are not supported, and one operation covers all actions',
    'PUT /os-services/failover': 'only in earlier Cinder releases, rejected like failover_host',
}

REASONS: tuple[tuple[str, str, str], ...] = (
    ('*', '*connector.*', 'stored in columns of 255 characters'),
    ('*', 'os-reset_status.*', 'Cinder checks the values against lists, outside the schema'),
    ('*', 'os-update_snapshot_status.*', 'Cinder checks the values outside the schema'),
    ('*', '*_id', 'no ID is longer, so that Cinder finds nothing'),
    ('*/action os-retype', '*.new_type', 'no volume type has a longer name, so that '
                                             'Cinder finds nothing'),
    ('*/action os-attach', '*.host_name', 'no host has an empty name'),
    ('*/action os-set_image_metadata', '*.metadata.*', 'Cinder counts bytes, outside the '
                                                       'schema'),
    ('*', '*.auth_key', 'no key is longer'),
    ('*', '*.no_snapshots', 'both paths behave the same'),
    ('*/qos-specs*', 'qos_specs*', 'Cinder checks names and values outside the schema; numbers '
                                   'are accepted in each request'),
    ('*/snapshots/{}/metadata*', '', 'same bounds as the metadata of volumes'),
    ('POST /types', 'volume_type.extra_specs', 'null is accepted and means no extra specs'),
    ('*/types*', '*extra_specs.\\*', 'a spec without a value cannot be compared'),
    ('*/types*extra_specs*', '\\*', 'a spec without a value cannot be compared'),
    ('PUT /types/{}', 'volume_type.name', "rejected as well, with Cinder's message"),
    ('*', 'volume.ref', "null is rejected as well, with Cinder's message"),
    ('POST *', '*.name', 'Cinder checks the length outside the schema'),
    ('PUT /default-types/{}', '', 'the field is required, and other fields are rejected '
                                   'because they have no effect'),
    ('*/os-quota*', '*', 'Cinder checks numbers outside the schema, or checks all names in the '
                         'same way. This service checks each quota outside the schema'),
    ('PUT /os-services/*', 'cluster', 'a cluster is rejected where a host is expected'),
    ('PUT /os-services/*', '*host', 'null is not the same as a missing host'),
    ('PUT /os-services/disable-log-reason', '', 'a reason is the purpose of the request'),
    ('PUT /os-services/*', '', 'Cinder rejects the same values outside the schema'),
    ('PUT /os-services/?et-log', 'binary', 'null is accepted and means all services'),
    ('PUT /os-services/set-log', 'level', 'Cinder rejects null outside the schema'),
    ('PUT /clusters/*', 'disabled_reason', 'Cinder checks the length outside the schema'),
)


class Row(NamedTuple):
    """Field of a request body from a microversion on."""

    request: str
    field: str
    since: operation.V
    ours: Mapping[str, Any] | None
    peers: Mapping[str, Any] | None

    @property
    def differs(self) -> bool:
        """Return True if the bounds differ."""
        return self.ours != self.peers

    @property
    def reason(self) -> str:
        """Reason for the difference, or an empty string if unknown."""
        return next((reason for request, field, reason in REASONS
                     if _matches(self.request, request) and _matches(self.field, field)), '')


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern.replace('\\*', '[*]'))


@functools.cache
def peer() -> Mapping[str, Any]:
    """Return the requests of Cinder by name."""
    found: Mapping[str, Any] = json.loads(PEER.read_text(encoding='utf-8'))['requests']
    return found


def ours() -> dict[str, list[operation.Operation]]:
    """Return the operations here by Cinder's name of the request."""
    found: dict[str, list[operation.Operation]] = {}
    for row in routes.operations():
        if not row.root and row.extension is None:
            path = re.sub(r'\{[^}]*\}', '{}', row.path)
            found.setdefault(f'{row.method} {path} {row.action or ""}'.rstrip(), []).append(row)
    return found


def first_versions() -> Iterator[tuple[str, str, str]]:
    """Yield each request with its first microversions here and in Cinder ('' if missing)."""
    for name, found in ours().items():
        yield (name, str(min(row.since for row in found)),
               str(peer().get(name, {}).get('since', '')))


def rows() -> Iterator[Row]:
    """Yield a row for each change of a field, for the requests that both services have."""
    for name, found in sorted(ours().items()):
        if name in peer() and not any(_matches(name, one) for one in NOT_OFFERED):
            for row in found:
                yield from _of_request(name, row)


def _of_request(name: str, row: operation.Operation) -> Iterator[Row]:
    theirs = {V(*map(int, since.split('.'))): fields
              for since, fields in peer()[name]['bodies'].items()}
    seen: dict[str, tuple[Any, Any]] = {}
    for since in sorted({max(one, row.since) for one in (*(row.body or {}), *theirs)}):
        body = operation.at_version(row.body, since)
        here = {} if body is None else bounds.of(body)
        there = operation.at_version(theirs, since) or {}
        for field in sorted({*here, *there, *seen}):
            pair = here.get(field), there.get(field)
            if seen.get(field, (None, None)) != pair:
                seen[field] = pair
                yield Row(name, field, since, *pair)


def shown(field: Mapping[str, Any] | None) -> str:
    """Return the bounds as text."""
    if field is None:
        return ''
    parts = [' or '.join(field['types']) if field['types'] != bounds.ANY else 'any']
    for least, most, noun in (('minLength', 'maxLength', 'characters'),
                              ('minimum', 'maximum', ''), ('minItems', 'maxItems', 'items'),
                              ('minProperties', 'maxProperties', 'properties')):
        if least in field and most in field:
            parts.append(f'{field[least]} to {field[most]} {noun}'.strip())
        else:
            parts += [f'{word} {field[key]} {noun}'.strip()
                      for word, key in (('at least', least), ('at most', most)) if key in field]
    if field.get('required'):
        parts.append('requires ' + ' and '.join(field['required']))
    if field.get('others') == 'taken':
        parts.append('other properties are accepted')
    return ', '.join(parts)


_INTRODUCTION = """
This page lists the values that request bodies accept in blockattach and in Cinder 29: types,
lengths in characters, minimum and maximum values, required properties, and whether properties
with other names are accepted. ``*`` is a property with any name or with a name that matches a
pattern, and ``[]`` is an item of a list. The last column gives the reason for a difference.
Requests for features that the service does not offer (:doc:`not_offered`) are rejected regardless
of the body.
"""


def document() -> str:
    """Return the page."""
    lines = [(rst.literal(row.request), rst.literal(row.field) or 'body', str(row.since),
              shown(row.ours), *((shown(row.peers) or 'not in the schema', row.reason)
                                 if row.differs else ('same', ''))) for row in rows()]
    return ''.join((rst.NOTICE, rst.heading('Request body bounds'), _INTRODUCTION, rst.table(
        ('Request', 'Field', 'Since', 'blockattach', 'Cinder', 'Reason'), lines,
        (20, 20, 6, 22, 16, 16))))


if __name__ == '__main__':
    sys.stdout.write(document())
