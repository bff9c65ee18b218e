"""Rules for the capabilities of backends."""
from oslo_policy import policy

from blockattach.policy import base

GET = 'volume_extension:capabilities'

RULES = (
    policy.DocumentedRuleDefault(
        GET, base.ADMIN, 'Show what a backend can do.',
        [{'method': 'GET', 'path': '/capabilities/{host_name}'}]),
)
