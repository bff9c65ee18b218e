"""Rules for the processes of the service, and for its backends and their pools."""
from blockattach.policy import base

GET_CAPABILITIES = 'volume_extension:capabilities'
GET_POOLS = 'scheduler_extension:scheduler_stats:get_pools'
GET_ALL = 'volume_extension:services:index'
UPDATE = 'volume_extension:services:update'
FREEZE = 'volume:freeze_host'
THAW = 'volume:thaw_host'
FAILOVER = 'volume:failover_host'

RULES = (
    base.Rule(GET_CAPABILITIES, base.ADMIN, 'Show what a backend can do.',
              'GET /capabilities/{host_name}'),
    base.Rule(GET_POOLS, base.ADMIN, 'List the pools of all backends and their capabilities.',
              'GET /scheduler-stats/get_pools'),
    base.Rule(GET_ALL, base.ADMIN, 'List the processes of the service.', 'GET /os-services'),
    base.Rule(UPDATE, base.ADMIN, 'Take a process of the service out of use, or into use again; '
              'ask for the levels of its log, and set them.',
              'PUT /os-services/enable', 'PUT /os-services/disable',
              'PUT /os-services/disable-log-reason', 'PUT /os-services/get-log',
              'PUT /os-services/set-log'),
    base.Rule(FREEZE, base.ADMIN, 'Freeze a backend: no volume is made or deleted there.',
              'PUT /os-services/freeze'),
    base.Rule(THAW, base.ADMIN, 'Thaw a backend that is frozen.', 'PUT /os-services/thaw'),
    base.Rule(FAILOVER, base.ADMIN, 'Let a replicated backend fail over; there is none.',
              'PUT /os-services/failover_host', 'PUT /os-services/failover'),
)
