"""Rules for the processes of the service."""
from oslo_policy import policy

from blockattach.policy import base

GET_ALL = 'volume_extension:services:index'
UPDATE = 'volume_extension:services:update'
FREEZE = 'volume:freeze_host'
THAW = 'volume:thaw_host'
FAILOVER = 'volume:failover_host'

RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.ADMIN, 'List the processes of the service.',
        [{'method': 'GET', 'path': '/os-services'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.ADMIN, 'Take a process of the service out of use, or into use again; ask '
        'for the levels of its log, and set them.',
        [{'method': 'PUT', 'path': f'/os-services/{action}'}
         for action in ('enable', 'disable', 'disable-log-reason', 'get-log', 'set-log')]),
    policy.DocumentedRuleDefault(
        FREEZE, base.ADMIN, 'Freeze a backend: no volume is made or deleted there.',
        [{'method': 'PUT', 'path': '/os-services/freeze'}]),
    policy.DocumentedRuleDefault(
        THAW, base.ADMIN, 'Thaw a backend that is frozen.',
        [{'method': 'PUT', 'path': '/os-services/thaw'}]),
    policy.DocumentedRuleDefault(
        FAILOVER, base.ADMIN, 'Let a replicated backend fail over; there is none.',
        [{'method': 'PUT', 'path': f'/os-services/{action}'}
         for action in ('failover_host', 'failover')]),
)
