"""Rules for QoS specs and their association with volume types."""
from blockattach.policy import base

GET_ALL = 'volume_extension:qos_specs_manage:get_all'
GET = 'volume_extension:qos_specs_manage:get'
CREATE = 'volume_extension:qos_specs_manage:create'
UPDATE = 'volume_extension:qos_specs_manage:update'
DELETE = 'volume_extension:qos_specs_manage:delete'

RULES = (
    base.Rule(GET_ALL, base.ADMIN, 'List QoS specs, or the volume types that have them.',
              'GET /qos-specs', 'GET /qos-specs/{qos_id}/associations'),
    base.Rule(GET, base.ADMIN, 'Show QoS specs.', 'GET /qos-specs/{qos_id}'),
    base.Rule(CREATE, base.ADMIN, 'Create QoS specs.', 'POST /qos-specs'),
    base.Rule(UPDATE, base.ADMIN, 'Change QoS specs, and which volume types have them.',
              'PUT /qos-specs/{qos_id}', 'GET /qos-specs/{qos_id}/associate',
              'GET /qos-specs/{qos_id}/disassociate', 'GET /qos-specs/{qos_id}/disassociate_all'),
    base.Rule(DELETE, base.ADMIN, 'Delete QoS specs, or some of their keys.',
              'DELETE /qos-specs/{qos_id}', 'PUT /qos-specs/{qos_id}/delete_keys'),
)
