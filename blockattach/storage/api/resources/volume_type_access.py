"""Access of projects to private volume types."""
import functools
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.db.types import type_access
from blockattach.storage.policy import access
from blockattach.storage.policy import volume_types as policies


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the projects with access to a volume type.

    :raises VolumeTypeAccessNotFound: the type is public
    """
    if call.target.is_public:
        raise errors.VolumeTypeAccessNotFound(
            'Access list not available for public volume types.')
    return {'volume_type_access': [
        {'volume_type_id': call.target.id, 'project_id': project_id}
        for project_id in type_access.projects(services.database, call.target.id)]}


def add(services: api_services.ApiServices, call: operation.Call) -> None:
    """Add access of a project to the volume type."""
    type_access.add(services.database, call.target.id, call.body['addProjectAccess']['project'])


def remove(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove access of a project from the volume type."""
    type_access.remove(services.database, call.target.id,
                       call.body['removeProjectAccess']['project'])


_PROJECT = schema.obj({'project': {'type': 'string', 'minLength': 1, 'maxLength': 255}},
                      required=['project'])
_LIST = schema.wrapped('volume_type_access', schema.array(answers.whole({
    'volume_type_id': schema.UUID,
    'project_id': answers.TEXT,
})))
_act = functools.partial(operation.action, '/types/{id}/action', target=access.volume_type)

OPERATIONS = (
    operation.Operation(
        'GET', '/types/{id}/os-volume-type-access', index, policy=policies.ACCESS_LIST,
        target=access.volume_type, answer={operation.BASE: _LIST},
        faults=(errors.VolumeTypeAccessNotFound,),
        summary='List the projects with access to a private volume type.'),
    _act('addProjectAccess', add, _PROJECT, policy=policies.ACCESS_ADD,
         faults=(errors.VolumeTypeAccessExists,),
         summary='Add private volume type access to a project.'),
    _act('removeProjectAccess', remove, _PROJECT, policy=policies.ACCESS_REMOVE,
         faults=(errors.VolumeTypeAccessNotFound,),
         summary='Remove private volume type access from a project.'),
)
