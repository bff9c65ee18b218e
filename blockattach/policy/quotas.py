"""Rules for quotas and their use."""
from blockattach.policy import base

USED_LIMITS = base.Rule('limits_extension:used_limits', base.READER, 'See how much a project '
                        'uses, among its limits. For others the keys are absent.',
                        'GET /limits')
SHOW = base.Rule('volume_extension:quotas:show', base.READER,
                 'See how much a project may have.',
                 'GET /os-quota-sets/{id}', 'GET /os-quota-sets/{id}/defaults')
UPDATE = base.Rule('volume_extension:quotas:update', base.ADMIN,
                   'Change how much a project may have.', 'PUT /os-quota-sets/{id}')
DELETE = base.Rule('volume_extension:quotas:delete', base.ADMIN,
                   'Give a project the default limits again.', 'DELETE /os-quota-sets/{id}')
GET_CLASS = base.Rule('volume_extension:quota_classes:get', base.ADMIN,
                      'See the limits of a quota class.', 'GET /os-quota-class-sets/{id}')
UPDATE_CLASS = base.Rule('volume_extension:quota_classes:update', base.ADMIN,
                         'Change the limits of a quota class.', 'PUT /os-quota-class-sets/{id}')
