"""Policy rules of quotas and their usage."""
from blockattach.platform.policy import base

USED_LIMITS = base.Rule('limits_extension:used_limits', base.READER, 'Show the usage of a project '
                        'in its limits. For other callers the keys are absent.',
                        'GET /limits')
SHOW = base.Rule('volume_extension:quotas:show', base.READER,
                 'Show the quota limits of a project.',
                 'GET /os-quota-sets/{id}', 'GET /os-quota-sets/{id}/defaults')
UPDATE = base.Rule('volume_extension:quotas:update', base.ADMIN,
                   'Update the quota limits of a project.', 'PUT /os-quota-sets/{id}')
DELETE = base.Rule('volume_extension:quotas:delete', base.ADMIN,
                   'Reset the quota limits of a project to the defaults.',
                   'DELETE /os-quota-sets/{id}')
GET_CLASS = base.Rule('volume_extension:quota_classes:get', base.ADMIN,
                      'Show the limits of a quota class.', 'GET /os-quota-class-sets/{id}')
UPDATE_CLASS = base.Rule('volume_extension:quota_classes:update', base.ADMIN,
                         'Update the limits of a quota class.', 'PUT /os-quota-class-sets/{id}')
