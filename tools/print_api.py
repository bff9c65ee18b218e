#!/usr/bin/env python3
"""Print the API: every operation, from the rows that are enforced, and every version."""
import itertools
import sys

import rst
from blockattach.api import routes
from blockattach.api import versions
from blockattach.http import faults
from blockattach.http import operation

_INTRODUCTION = """
Every path stands below ``/v3`` and, for clients that put it there, below ``/v3/{project_id}``.
*Since* is the microversion from which on an operation exists. The rules under *policy* are
described in ``etc/blockattach/policy.yaml.sample``. *Status* is that of success, *faults* are
those of failures; what the service itself gets wrong is 500. Where ``blockattach`` stands under
*since*, clients of that item in the version header get more (:doc:`extension`); which parameters
of the query string it adds stands beside the operation. The same as an OpenAPI document is
:download:`openapi.json`.
"""

_WITHOUT_RIGHT = {True: 404, False: 403}

_VERSIONS = """
A client names the version that it speaks in a header, ``OpenStack-API-Version: volume 3.44``; one
that names none speaks the first. What goes beyond the Block Storage API is an item of its own in
the same header: ``OpenStack-API-Version: volume 3.71, blockattach 1.0``.
"""


def noun(row: operation.Operation) -> str:
    """What the operation is about: the first part of its path."""
    return row.path.strip('/').split('/')[0] or 'versions'


def codes(row: operation.Operation) -> tuple[int, ...]:
    """The statuses of its failures: what follows from the row, and what its handler may raise."""
    if row.root:
        return (400,)
    found = {400, 406}
    if not row.public:
        found.add(401)
    if row.policy is not None:
        found.add(_WITHOUT_RIGHT[row.refusal is not None])
    if row.target is not None or row.since > operation.BASE or row.extension is not None:
        found.add(404)
    if row.body is not None:
        found |= {413, 415}
    return tuple(sorted(found | {faults.fault(error.__new__(error)).status
                                 for error in row.faults}))


def line(row: operation.Operation) -> list[str]:
    """One line of a table."""
    action = f' ({rst.literal(row.action)})' if row.action else ''
    versions = str(row.since) if row.until is None else f'{row.since} to {row.until}'
    if row.extension is not None:
        versions = f'blockattach {row.extension}'
    elif added := [*(row.extended or ()), *(row.parameters or ())]:
        versions = f'{versions}, blockattach {min(added)}'
    policy = rst.literal(row.policy or '') or ('no token' if row.public else 'any token')
    return [row.method, f'{rst.literal(row.path)}{action}', versions, policy, str(row.status),
            ', '.join(map(str, codes(row))), f'{row.summary}{_added(row)}']


def _added(row: operation.Operation) -> str:
    """What the extension adds to the query string, in a sentence each."""
    return ''.join(f' With blockattach {since} {rst.literal(name)}: {schema["description"]}.'
                   for since, added in (row.parameters or {}).items()
                   for name, schema in added.items())


def document() -> str:
    """The page."""
    parts = [rst.NOTICE, rst.heading('Operations'), _INTRODUCTION]
    rows = sorted(routes.operations(), key=noun)
    for name, group in itertools.groupby(rows, noun):
        parts.append(rst.heading(name, '-'))
        parts.append(rst.table(('method', 'path', 'since', 'policy', 'status', 'faults',
                                'what it does'),
                               [line(row) for row in group], (9, 28, 12, 26, 8, 12, 28)))
    return ''.join(parts)


def history() -> str:
    """The page of versions."""
    parts = [rst.NOTICE, rst.heading('Versions'), _VERSIONS]
    for title, rows in (('volume', versions.HISTORY), ('blockattach', versions.EXTENSION_HISTORY)):
        parts.append(rst.heading(title, '-'))
        parts.append(rst.table(('version', 'what came with it'),
                               [(str(number), text) for number, text in rows], (10, 60)))
    return ''.join(parts)


if __name__ == '__main__':
    sys.stdout.write(document())
