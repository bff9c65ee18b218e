"""Who may look at the processes of the service."""
from oslo_policy import policy

from blockattach.policy import base

GET_ALL = 'volume_extension:services:index'

RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.ADMIN, 'List the processes of the service.',
        [{'method': 'GET', 'path': '/os-services'}]),
)
