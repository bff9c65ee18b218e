#!/usr/bin/env python3
"""Print the page of microversions, and list the error statuses of operations."""
import sys

import rst
from blockattach.platform.http import operation
from blockattach.storage.api import versions

_WITHOUT_RIGHT = {True: 404, False: 403}

_VERSIONS = """
Clients select a microversion with the header ``OpenStack-API-Version: volume 3.44``. Requests
without the header use the first microversion. The extension of the Block Storage API has versions
of its own. Clients select them with a second item in the header, such as
``OpenStack-API-Version: volume 3.71, blockattach 1.0``.

Microversions marked *no effect* concern features that the service does not offer, such as backups
and groups. Clients may use these microversions.
"""

# Minor numbers of the microversions without effect.
_NOT_SERVED = frozenset((6, 9, 11, 18, 19, 20, 25, 29, 37, 38, 43, 47, 51, 56, 58))


def noun(row: operation.Operation) -> str:
    """Return the first part of the path of an operation, which names its resource."""
    return row.path.strip('/').split('/')[0] or 'versions'


def codes(row: operation.Operation) -> tuple[int, ...]:
    """Return the error statuses of an operation, by its row and the errors of its handler."""
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
    return tuple(sorted(found | {error.status for error in row.faults}))


def history() -> str:
    """Return the page of microversions."""
    parts = [rst.NOTICE, rst.heading('Microversions'), _VERSIONS]
    for title, rows in (('volume', versions.HISTORY), ('blockattach', versions.EXTENSION_HISTORY)):
        parts.append(rst.heading(title, '-'))
        unserved = _NOT_SERVED if rows is versions.HISTORY else ()
        parts.append(rst.table(('Version', 'Change', 'Support'), [
            (str(number), text, 'no effect' if number.minor in unserved else '')
            for number, text in rows], (10, 60, 14)))
    return ''.join(parts)


if __name__ == '__main__':
    sys.stdout.write(history())
