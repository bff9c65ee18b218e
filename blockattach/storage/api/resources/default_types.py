"""Default volume types of projects, which override the configured default volume type."""
import functools
from typing import Any
from typing import NamedTuple

from blockattach.platform import context
from blockattach.platform.http import auth
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.db import storage_db
from blockattach.storage.db.types import default_types
from blockattach.storage.domain import records
from blockattach.storage.policy import access
from blockattach.storage.policy import default_types as policies


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the default volume types of all projects."""
    return {'default_types': [_VIEW.show(one) for one in
                              default_types.list_all(services.database)]}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the default volume type of a project."""
    services.project_check(call.context, call.target.project_id)
    return {'default_type': _VIEW.show(default_types.get(services.database,
                                                         call.target.project_id))}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Set the default volume type of a project. The request names the type by ID or name."""
    services.project_check(call.context, call.target.project_id)
    return {'default_type': _VIEW.show(_change(services, call))}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Unset the default volume type of a project."""
    # `project_check` is not called, because the project may have been deleted in Keystone.
    default_types.remove(services.database, call.target.project_id)


class _Project(NamedTuple):
    """Project in the path of a request, for which the policy rules are checked."""

    project_id: str


def _project(_: context.RequestContext, _database: storage_db.Database,
             project_id: str) -> _Project:
    if not auth.is_id(project_id):
        raise errors.ProjectNotFound(project_id=project_id)
    return _Project(project_id)


def _change(services: api_services.ApiServices, call: operation.Call) -> records.DefaultType:
    project_id = call.target.project_id
    try:
        kind = access.find_volume_type(call.context, services.database,
                                       call.body['default_type']['volume_type'])
        default_types.change(services.database, project_id, kind.id)
    except errors.NotFound as missing:
        # 404 is for resources in the path. This type is named in the body.
        raise errors.InvalidInput(str(missing)) from missing
    return records.DefaultType(project_id, kind.id)


_VIEW = schema.View({
    'project_id': answers.TEXT,
    'volume_type_id': schema.UUID,
})
_SHOWN = {operation.BASE: schema.wrapped('default_type', _VIEW.whole)}
_UPDATE = schema.wrapped('default_type', schema.obj({
    'volume_type': {'type': 'string', 'minLength': 1, 'maxLength': 255},
}, required=['volume_type']))
_SINCE = operation.V(3, 62)
_of_project = functools.partial(operation.Operation, path='/default-types/{id}', since=_SINCE,
                                target=_project)

OPERATIONS = (
    operation.Operation(
        'GET', '/default-types', index, since=_SINCE, policy=policies.GET_ALL,
        answer={operation.BASE: schema.wrapped('default_types', schema.array(_VIEW.whole))},
        summary='List the default volume types of all projects.'),
    _of_project(
        'GET', handler=show, policy=policies.GET, answer=_SHOWN,
        faults=(errors.DefaultTypeNotFound, errors.ProjectNotFound),
        summary='Show the default volume type of a project.'),
    _of_project(
        'PUT', handler=update, policy=policies.UPDATE, body={operation.BASE: _UPDATE},
        answer=_SHOWN, faults=(errors.ProjectNotFound,),
        summary='Create or update the default volume type of a project.'),
    _of_project(
        'DELETE', handler=delete, policy=policies.DELETE, status=204,
        answer={operation.BASE: answers.EMPTY},
        summary='Unset the default volume type of a project. The configured default volume type '
                'applies afterwards.'),
)
