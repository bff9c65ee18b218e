"""Policy rules of the default volume types of projects."""
from blockattach.platform.policy import base

_ONE = '/default-types/{project_id}'

UPDATE = base.Rule('volume_extension:default_set_or_update', base.ADMIN,
                   'Set the default volume type of a project.', f'PUT {_ONE}')
GET = base.Rule('volume_extension:default_get', base.ADMIN,
                'Show the default volume type of a project.', f'GET {_ONE}')
GET_ALL = base.Rule('volume_extension:default_get_all', base.ADMIN,
                    'List the default volume types of all projects.', 'GET /default-types')
DELETE = base.Rule('volume_extension:default_unset', base.ADMIN,
                   'Remove the default volume type of a project.', f'DELETE {_ONE}')
