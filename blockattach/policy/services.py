"""Rules for the processes of the service, and for its backends and their pools."""
from blockattach.policy import base

HOSTS = base.Rule('volume_extension:hosts', base.ADMIN,
                  'List the hosts of services, and show what is on one.', 'GET /os-hosts',
                  'GET /os-hosts/{host_name}')
CLEANUP = base.Rule('workers:cleanup', base.ADMIN,
                    'See which services that are down have left work, and whether others finish '
                    'it.', 'POST /workers/cleanup')
GET_CAPABILITIES = base.Rule('volume_extension:capabilities', base.ADMIN,
                             'Show what a backend can do.', 'GET /capabilities/{host_name}')
GET_POOLS = base.Rule('scheduler_extension:scheduler_stats:get_pools', base.ADMIN,
                      'List the pools of all backends and their capabilities.',
                      'GET /scheduler-stats/get_pools')
EXPLAIN_POOLS = base.Rule('blockattach:pools_explain', base.ADMIN,
                          'Ask which pools would take a volume, and why others would not.',
                          'GET /scheduler-stats/explain_pools')
RECONCILE = base.Rule('blockattach:backend_reconcile', base.ADMIN,
                      'Let a backend finish what was interrupted and repair its target now.',
                      'PUT /os-services/reconcile')
GET_ALL = base.Rule('volume_extension:services:index', base.ADMIN,
                    'List the processes of the service.', 'GET /os-services')
UPDATE = base.Rule('volume_extension:services:update', base.ADMIN,
                   'Take a process of the service out of use, or into use again; ask for the '
                   'levels of its log, and set them.',
                   *(f'PUT /os-services/{verb}' for verb in (
                       'enable', 'disable', 'disable-log-reason', 'get-log', 'set-log')))
FREEZE = base.Rule('volume:freeze_host', base.ADMIN,
                   'Freeze a backend: no volume is made or deleted there.',
                   'PUT /os-services/freeze')
THAW = base.Rule('volume:thaw_host', base.ADMIN, 'Thaw a backend that is frozen.',
                 'PUT /os-services/thaw')
FAILOVER = base.Rule('volume:failover_host', base.ADMIN,
                     'Let a replicated backend fail over; there is none.',
                     'PUT /os-services/failover_host', 'PUT /os-services/failover')
