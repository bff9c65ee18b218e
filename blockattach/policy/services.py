"""Who may look at the processes of the service, and take them out of use."""
from oslo_policy import policy

from blockattach.policy import base

GET_ALL = 'volume_extension:services:index'
UPDATE = 'volume_extension:services:update'

RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.ADMIN, 'List the processes of the service.',
        [{'method': 'GET', 'path': '/os-services'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.ADMIN, 'Take a process of the service out of use, or into use again.',
        [{'method': 'PUT', 'path': f'/os-services/{action}'}
         for action in ('enable', 'disable', 'disable-log-reason')]),
)
