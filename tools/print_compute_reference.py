#!/usr/bin/env python3
"""Print the reference of the compute API: a page for each group of operations."""

import api_reference
import compute_api_examples
from blockattach.compute.api import routes
from blockattach.compute.api import versions
from blockattach.http import operation

FOLDER = 'doc/source/user/compute_api'
EXAMPLES = 'doc/source/user/compute_api_examples.json'
Group = api_reference.Group

GROUPS: dict[str, Group] = {
    'servers': Group('Servers', 'Create, list, show, change and delete servers.'),
    'action': Group(
        'Server actions', 'Start, stop and move servers. Actions continue after the response, and '
        'the instance actions show their results.'),
    'os-volume_attachments': Group(
        'Volumes of servers', 'Attach volumes to servers, and detach them. From 2.101 on, volumes '
        'are attached after the response, which is 202 without a body. With '
        f'``{operation.EXTENSION} {versions.ATTACH_MODE}``, requests and responses have modes.'),
    'metadata': Group(
        'Metadata of servers', 'Key and value pairs that clients store with servers.'),
    'os-instance-actions': Group(
        'Instance actions', 'List actions on a server, and reasons of failures.'),
    'flavors': Group('Flavors', 'Sizes of servers, as ``[compute] flavors`` lists them.'),
    'os-services': Group('Services', 'List compute agents.'),
    'os-server-external-events': Group(
        'External events', 'Report changes of volumes by block storage.'),
    'versions': Group('Versions of the compute API', 'Discover API versions.'),
}
"""Pages by the first part of the path."""

_BEYOND = f'{operation.EXTENSION} {versions.EXTENSION_MAXIMUM}'
_OVERVIEW = f"""
``blockattach-compute-api`` (:doc:`/admin/compute`) serves this part of the Compute API, in
microversions {versions.MINIMUM} to {versions.MAXIMUM}. All paths are relative to
``{versions.PREFIX}``. Clients send the microversion in a header,
``OpenStack-API-Version: {versions.SERVICE} {versions.MAXIMUM}``, and request extensions of Nova's
API by a second item, ``{_BEYOND}``. Errors have the same form as those of block storage
(:doc:`errors`).

.. tip::

   The requests and answers of these pages: :download:`compute_api_examples.json`. A test plays
   them anew and compares.

.. toctree::
   :maxdepth: 1

"""


def group_of(row: operation.Operation) -> str:
    """The page that an operation is on."""
    if row.root:
        return 'versions'
    parts = row.path.strip('/').split('/')
    return parts[2] if parts[0] == 'servers' and parts[2:] else parts[0]


REFERENCE = api_reference.Reference(
    lambda: routes.OPERATIONS, GROUPS, group_of, compute_api_examples.recorded, {},
    'Compute API reference', _OVERVIEW, 'compute_api', versions.PREFIX, versions.MAXIMUM,
    'compute-api')


if __name__ == '__main__':
    api_reference.print_page(REFERENCE, GROUPS, __doc__)
