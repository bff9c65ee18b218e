#!/usr/bin/env python3
"""Print the reference of the Block Storage API: a page for each group of operations."""
import pathlib
import sys

import api_examples
import api_reference
import print_api
from blockattach.api import routes
from blockattach.api import versions
from blockattach.api.resources import not_offered
from blockattach.http import dispatch
from blockattach.http import operation

FOLDER = 'doc/source/user/api'
EXAMPLES = 'doc/source/user/api_examples.json'
_DOCUMENTS = pathlib.Path(__file__).parents[1] / 'doc/source'
_ACTIONS = 'volume_actions'
_NOT_OFFERED = 'not_offered'
Group = api_reference.Group
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


def group_of(row: operation.Operation) -> str:
    """The page that an operation is on."""
    if row.path == '/volumes/{id}/action':
        return _ACTIONS
    if row in not_offered.OPERATIONS:
        return _NOT_OFFERED
    return 'versions' if row.root else print_api.noun(row)


def _described(name: str) -> Group:
    """A page on what a module of the API says of itself: a title, a colon, a sentence."""
    row = next(row for row in routes.operations() if group_of(row) == name)
    module = row.handler.__module__
    title, _, about = str(sys.modules[module].__doc__).partition(': ')
    page = f'/user/{module.rpartition(".")[2]}'
    more = f' See :doc:`{page}`.' if pathlib.Path(f'{_DOCUMENTS}{page}.rst').exists() else ''
    since = '' if row.since == operation.BASE else f' ({row.since})'
    return Group(f'{title}{since}', f'{about[:1].upper()}{about[1:]}{more}')


GROUPS: dict[str, Group] = _NAMED | {
    name: _described(name) for name in map(group_of, routes.operations()) if name not in _NAMED}
"""The pages, those with a text of their own first."""

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

REFERENCE = api_reference.Reference(
    routes.operations, GROUPS, group_of, api_examples.recorded, api_examples.REFUSED,
    'API reference', _OVERVIEW, 'api', f'{operation.PREFIX}/{{{dispatch.PROJECT}}}',
    versions.MAXIMUM)


if __name__ == '__main__':
    api_reference.print_page(REFERENCE, GROUPS, __doc__)
