#!/usr/bin/env python3
"""Print the reference of the Block Storage API: a page for each group of operations."""
import pathlib
import sys

import api_examples
import api_reference
import print_api
from blockattach.platform.http import dispatch
from blockattach.platform.http import operation
from blockattach.storage.api import routes
from blockattach.storage.api import versions
from blockattach.storage.api.resources import not_offered

FOLDER = 'doc/source/user/api'
EXAMPLES = 'doc/source/user/api_examples.json'
_ROOT = pathlib.Path(__file__).parents[2]
_ACTIONS = 'volume_actions'
_NOT_OFFERED = 'not_offered'
Group = api_reference.Group
_NAMED = {
    'volumes': Group('Volumes', 'Create, list, show, update and delete volumes.'),
    'attachments': Group(
        'Attachments', 'Attach volumes to hosts, and detach volumes. See :doc:`/user/attaching` '
        'for the order of the requests.'),
    _ACTIONS: Group(
        'Volume actions', 'Run actions on volumes, including administrative actions and the '
        'actions with which clients attach volumes before microversion 3.27.'),
    'snapshots': Group('Snapshots', 'Create, list, show, update and delete snapshots. See '
                       ':doc:`/user/snapshots`.'),
    'types': Group('Volume types', 'Manage volume types, their extra specs, access and '
                   'encryption. See :doc:`/admin/volume_types`, :doc:`/admin/scheduling` and '
                   ':doc:`/admin/encryption`.'),
    'default-types': Group('Default types', 'Manage the default volume types of projects. See '
                           ':doc:`/admin/volume_types`.'),
    'qos-specs': Group('QoS specs', 'Manage QoS specs, and associate QoS specs with volume types. '
                       'See :doc:`/admin/qos`.'),
    'limits': Group('Limits', 'Show the limits of a project, and their usage.'),
    'os-quota-sets': Group('Quota sets', 'Manage the quotas of projects. See '
                           ':doc:`/admin/quotas`.'),
    'os-quota-class-sets': Group('Quota class sets', 'Manage the default quotas, which apply to '
                                 'projects without quotas of their own. See '
                                 ':doc:`/admin/quotas`.'),
    'messages': Group('Messages', 'List, show and delete user messages. A user message reports an '
                      'error that occurred after the response to a request.'),
    'os-services': Group('Services', 'Manage the services behind the API. See '
                         ':doc:`/admin/processes`.'),
    'scheduler-stats': Group('Back-end storage pools', 'List the storage pools that backends '
                             'report, and explain pool selection.'),
    'resource_filters': Group('Resource filters', 'List the filters that users can apply to '
                              'lists. See :doc:`/user/metadata`.'),
    'capabilities': Group('Capabilities', 'Show the capabilities of a backend.'),
    'clusters': Group('Clusters', 'Manage clusters of volume services that share a backend. See '
                      ':doc:`/admin/clusters`.'),
    'os-hosts': Group('Hosts', 'List the hosts of services, and show the resources on a backend.'),
    'os-availability-zone': Group('Availability zones', 'List the availability zones of volumes.'),
    'workers': Group('Workers', 'List services with unfinished work. See :doc:`/admin/services`.'),
    'extensions': Group('Extensions', 'List the extensions that the API supports.'),
    _NOT_OFFERED: Group('Unsupported features', 'Lists of these resources are empty, and '
                        'other requests are rejected. See :doc:`/user/not_offered`.'),
    'versions': Group('API versions', 'Discover API versions. See :doc:`/user/versions` for the '
                      'microversions.'),
}


def group_of(row: operation.Operation) -> str:
    """Return the name of the page that describes an operation."""
    if row.path == '/volumes/{id}/action':
        return _ACTIONS
    if row in not_offered.OPERATIONS:
        return _NOT_OFFERED
    return 'versions' if row.root else print_api.noun(row)


def _described(name: str) -> Group:
    """Return a page whose title and introduction are the docstring of the handlers' module."""
    row = next(row for row in routes.operations() if group_of(row) == name)
    module = row.handler.__module__
    title, _, about = str(sys.modules[module].__doc__).partition(': ')
    page = f'/user/{module.rpartition(".")[2]}'
    more = f' See :doc:`{page}`.' if (_ROOT / f'doc/source{page}.rst').exists() else ''
    since = '' if row.since == operation.BASE else f' ({row.since})'
    return Group(f'{title}{since}', f'{about[:1].upper()}{about[1:]}{more}')


GROUPS: dict[str, Group] = _NAMED | {
    name: _described(name) for name in map(group_of, routes.operations()) if name not in _NAMED}
"""Pages by name, those with an introduction of their own first."""

_OVERVIEW = """
All paths are relative to ``/v3`` or ``/v3/{project_id}``. Clients select the
:doc:`microversion <versions>` with a header. See :doc:`extension` for the features beyond the
Block Storage API, and :doc:`errors` for the format and the codes of errors.

.. tip::

   The reference is also available as an OpenAPI 3.1 document for client generators and test tools:
   :download:`openapi.json`. The example requests and responses are available in
   :download:`api_examples.json`. A test repeats the requests and compares the responses.

.. toctree::
   :maxdepth: 1

"""

REFERENCE = api_reference.Reference(
    routes.operations, GROUPS, group_of, api_examples.recorded, _ROOT / EXAMPLES,
    api_examples.REFUSED, 'API reference', _OVERVIEW, 'api',
    f'{operation.PREFIX}/{{{dispatch.PROJECT}}}', versions.MAXIMUM)


if __name__ == '__main__':
    api_reference.print_page(REFERENCE, GROUPS, __doc__)
