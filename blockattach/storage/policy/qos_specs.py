"""Policy rules of QoS specs and their association with volume types."""
from blockattach.platform.policy import base

GET_ALL = base.Rule('volume_extension:qos_specs_manage:get_all', base.ADMIN,
                    'List QoS specs, or the volume types associated with QoS specs.',
                    'GET /qos-specs', 'GET /qos-specs/{qos_id}/associations')
GET = base.Rule('volume_extension:qos_specs_manage:get', base.ADMIN, 'Show QoS specs.',
                'GET /qos-specs/{qos_id}')
CREATE = base.Rule('volume_extension:qos_specs_manage:create', base.ADMIN, 'Create QoS specs.',
                   'POST /qos-specs')
# In Cinder's API, associating and disassociating a type are GET requests.
UPDATE = base.Rule('volume_extension:qos_specs_manage:update', base.ADMIN,
                   'Update QoS specs and their associations with volume types.',
                   'PUT /qos-specs/{qos_id}', 'GET /qos-specs/{qos_id}/associate',
                   'GET /qos-specs/{qos_id}/disassociate',
                   'GET /qos-specs/{qos_id}/disassociate_all')
DELETE = base.Rule('volume_extension:qos_specs_manage:delete', base.ADMIN,
                   'Delete QoS specs or keys of QoS specs.',
                   'DELETE /qos-specs/{qos_id}', 'PUT /qos-specs/{qos_id}/delete_keys')
