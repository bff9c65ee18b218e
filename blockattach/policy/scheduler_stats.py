"""Rules for the reports of pools."""
from oslo_policy import policy

from blockattach.policy import base

GET_POOLS = 'scheduler_extension:scheduler_stats:get_pools'

RULES = (
    policy.DocumentedRuleDefault(
        GET_POOLS, base.ADMIN, 'List the pools of all backends and their capabilities.',
        [{'method': 'GET', 'path': '/scheduler-stats/get_pools'}]),
)
