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
        'Server actions', 'Run a server, stop it, and move it. They go on after the answer; '
        'what came of one is among the instance actions.'),
    'os-volume_attachments': Group(
        'Volumes of servers', 'Attach volumes to servers, and detach them. From 2.101 on '
        'a volume is attached after the answer, which is 202 without a body. A client that asks '
        f'for ``{operation.EXTENSION} {versions.ATTACH_MODE}`` names modes and is shown them.'),
    'metadata': Group('Metadata of servers', 'Notes of clients about servers.'),
    'os-instance-actions': Group(
        'Instance actions', 'What was done with a server, and why it failed.'),
    'flavors': Group('Flavors', 'Sizes of servers, as ``[compute] flavors`` lists them.'),
    'os-services': Group('Services', 'The agents.'),
    'os-server-external-events': Group('External events', 'What block storage tells of volumes.'),
    'versions': Group('Versions of the compute API', 'Where a client begins.'),
}
"""The pages."""

_BEYOND = f'{operation.EXTENSION} {versions.EXTENSION_MAXIMUM}'
_OVERVIEW = f"""
What ``blockattach-compute-api`` (:doc:`/admin/compute`) serves of the Compute API,
{versions.MINIMUM} to {versions.MAXIMUM}. Every path stands below ``{versions.PREFIX}``. A client
names the microversion that it speaks in a header,
``OpenStack-API-Version: {versions.SERVICE} {versions.MAXIMUM}``, and asks for what is beyond Nova
by a second item, ``{_BEYOND}``. Failures look as those of block storage do
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
