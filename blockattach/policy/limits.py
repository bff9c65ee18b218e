"""Rules for the limits of a project and their use."""
from oslo_policy import policy

from blockattach.policy import base

USED_LIMITS = 'limits_extension:used_limits'

RULES = (
    policy.DocumentedRuleDefault(
        USED_LIMITS, base.READER, 'See how much a project uses, among its limits. For others the '
        'keys are absent.',
        [{'method': 'GET', 'path': '/limits'}]),
)
