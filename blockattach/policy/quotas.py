"""Rules for quotas."""
from oslo_policy import policy

from blockattach.policy import base

SHOW = 'volume_extension:quotas:show'
UPDATE = 'volume_extension:quotas:update'
DELETE = 'volume_extension:quotas:delete'

RULES = (
    policy.DocumentedRuleDefault(
        SHOW, base.READER, 'See how many attachments a project may have.',
        [{'method': 'GET', 'path': '/os-quota-sets/{id}'},
         {'method': 'GET', 'path': '/os-quota-sets/{id}/defaults'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.ADMIN, 'Change how many attachments a project may have.',
        [{'method': 'PUT', 'path': '/os-quota-sets/{id}'}]),
    policy.DocumentedRuleDefault(
        DELETE, base.ADMIN, 'Give a project the default limits again.',
        [{'method': 'DELETE', 'path': '/os-quota-sets/{id}'}]),
)
