"""Rules for quotas and their use."""
from blockattach.policy import base

USED_LIMITS = 'limits_extension:used_limits'
SHOW = 'volume_extension:quotas:show'
UPDATE = 'volume_extension:quotas:update'
DELETE = 'volume_extension:quotas:delete'

RULES = (
    base.Rule(USED_LIMITS, base.READER, 'See how much a project uses, among its limits. For '
              'others the keys are absent.',
              'GET /limits'),
    base.Rule(SHOW, base.READER, 'See how many attachments a project may have.',
              'GET /os-quota-sets/{id}', 'GET /os-quota-sets/{id}/defaults'),
    base.Rule(UPDATE, base.ADMIN, 'Change how many attachments a project may have.',
              'PUT /os-quota-sets/{id}'),
    base.Rule(DELETE, base.ADMIN, 'Give a project the default limits again.',
              'DELETE /os-quota-sets/{id}'),
)
