#!/usr/bin/env python3
"""Print the reference of the compute API: a page for each group of operations."""
import pathlib

import api_reference
import compute_api_examples
from blockattach.compute.api import routes
from blockattach.compute.api import versions
from blockattach.platform.http import operation

FOLDER = 'doc/source/user/compute_api'
EXAMPLES = 'doc/source/user/compute_api_examples.json'
Group = api_reference.Group

GROUPS: dict[str, Group] = {
    'servers': Group('Servers', 'Create, list, show, update and delete servers.'),
    'action': Group(
        'Server actions', 'Start, stop and move servers. Actions continue after the response. The '
        'results are available as instance actions.'),
    'os-volume_attachments': Group(
        'Volume attachments of servers', 'Attach volumes to servers, and detach volumes. Since '
        '2.101, volumes are attached after the response, which is 202 without a body. With '
        f'``{operation.EXTENSION} {versions.ATTACH_MODE}``, requests and responses contain the '
        'attach mode.'),
    'metadata': Group(
        'Server metadata', 'Manage the key and value pairs that clients store with servers.'),
    'os-instance-actions': Group(
        'Instance actions', 'List the actions on a server, and the reasons of failures.'),
    'flavors': Group('Flavors', 'List and show the flavors in ``[compute] flavors``.'),
    'os-services': Group('Services', 'List compute services.'),
    'os-server-external-events': Group(
        'External events', 'Receive events of volumes from the block storage service.'),
    'versions': Group('Compute API versions', 'Discover API versions.'),
}
"""Pages by the first part of the path."""

_BEYOND = f'{operation.EXTENSION} {versions.EXTENSION_MAXIMUM}'
_OVERVIEW = f"""
``blockattach-compute-api`` (:doc:`/admin/compute`) implements this part of the Compute API, in
microversions {versions.MINIMUM} to {versions.MAXIMUM}. All paths are relative to
``{versions.PREFIX}``. Clients select the microversion with the header
``OpenStack-API-Version: {versions.SERVICE} {versions.MAXIMUM}``, and extensions of Nova's API with
a second item in the header, ``{_BEYOND}``. Errors have the same format as in the Block Storage API
(:doc:`errors`).

.. tip::

   The example requests and responses are available in :download:`compute_api_examples.json`. A
   test repeats the requests and compares the responses.

.. toctree::
   :maxdepth: 1

"""


def group_of(row: operation.Operation) -> str:
    """Return the name of the page that describes an operation."""
    if row.root:
        return 'versions'
    parts = row.path.strip('/').split('/')
    return parts[2] if parts[0] == 'servers' and parts[2:] else parts[0]


REFERENCE = api_reference.Reference(
    lambda: routes.OPERATIONS, GROUPS, group_of, compute_api_examples.recorded,
    pathlib.Path(__file__).parents[2] / EXAMPLES, {}, 'Compute API reference', _OVERVIEW,
    'compute_api', versions.PREFIX, versions.MAXIMUM, 'compute-api')


if __name__ == '__main__':
    api_reference.print_page(REFERENCE, GROUPS, __doc__)
