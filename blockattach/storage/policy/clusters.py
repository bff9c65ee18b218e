"""Policy rules of clusters of volume services."""
from blockattach.platform.policy import base

GET_ALL = base.Rule('clusters:get_all', base.ADMIN, 'List clusters.', 'GET /clusters',
                    'GET /clusters/detail')
GET = base.Rule('clusters:get', base.ADMIN, 'Show a cluster.', 'GET /clusters/{cluster_id}')
UPDATE = base.Rule('clusters:update', base.ADMIN,
                   'Enable or disable a cluster.', 'PUT /clusters/enable',
                   'PUT /clusters/disable')
