"""Policy rules of services, backends and pools."""
from blockattach.platform.policy import base

HOSTS = base.Rule('volume_extension:hosts', base.ADMIN,
                  'List the hosts of services, or show the resources of a host.', 'GET /os-hosts',
                  'GET /os-hosts/{host_name}')
CLEANUP = base.Rule('workers:cleanup', base.ADMIN,
                    'List services that are down and have unfinished work, and whether other '
                    'services resume the work.', 'POST /workers/cleanup')
GET_CAPABILITIES = base.Rule('volume_extension:capabilities', base.ADMIN,
                             'Show the capabilities of a backend.',
                             'GET /capabilities/{host_name}')
GET_POOLS = base.Rule('scheduler_extension:scheduler_stats:get_pools', base.ADMIN,
                      'List the pools of all backends and their capabilities.',
                      'GET /scheduler-stats/get_pools')
EXPLAIN_POOLS = base.Rule('blockattach:pools_explain', base.ADMIN,
                          'Show which pools can hold a volume, and why other pools cannot.',
                          'GET /scheduler-stats/explain_pools')
RECONCILE = base.Rule('blockattach:backend_reconcile', base.ADMIN,
                      'Resume interrupted work of a backend, and repair its target.',
                      'PUT /os-services/reconcile')
GET_ALL = base.Rule('volume_extension:services:index', base.ADMIN,
                    'List services.', 'GET /os-services')
UPDATE = base.Rule('volume_extension:services:update', base.ADMIN,
                   'Enable or disable a service, and show or set its log levels.',
                   *(f'PUT /os-services/{verb}' for verb in (
                       'enable', 'disable', 'disable-log-reason', 'get-log', 'set-log')))
FREEZE = base.Rule('volume:freeze_host', base.ADMIN,
                   'Freeze a backend. Volumes cannot be created or deleted on a frozen backend.',
                   'PUT /os-services/freeze')
THAW = base.Rule('volume:thaw_host', base.ADMIN, 'Thaw a frozen backend.',
                 'PUT /os-services/thaw')
FAILOVER = base.Rule('volume:failover_host', base.ADMIN,
                     'Fail over a replicated backend. Replication is not supported.',
                     'PUT /os-services/failover_host', 'PUT /os-services/failover')
