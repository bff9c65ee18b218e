"""Rules for QoS specs and their association with volume types."""
from oslo_policy import policy

from blockattach.policy import base

GET_ALL = 'volume_extension:qos_specs_manage:get_all'
GET = 'volume_extension:qos_specs_manage:get'
CREATE = 'volume_extension:qos_specs_manage:create'
UPDATE = 'volume_extension:qos_specs_manage:update'
DELETE = 'volume_extension:qos_specs_manage:delete'

RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.ADMIN, 'List QoS specs, or the volume types that have them.',
        [{'method': 'GET', 'path': '/qos-specs'},
         {'method': 'GET', 'path': '/qos-specs/{qos_id}/associations'}]),
    policy.DocumentedRuleDefault(
        GET, base.ADMIN, 'Show QoS specs.', [{'method': 'GET', 'path': '/qos-specs/{qos_id}'}]),
    policy.DocumentedRuleDefault(
        CREATE, base.ADMIN, 'Create QoS specs.', [{'method': 'POST', 'path': '/qos-specs'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.ADMIN, 'Change QoS specs, and which volume types have them.',
        [{'method': 'PUT', 'path': '/qos-specs/{qos_id}'},
         {'method': 'GET', 'path': '/qos-specs/{qos_id}/associate'},
         {'method': 'GET', 'path': '/qos-specs/{qos_id}/disassociate'},
         {'method': 'GET', 'path': '/qos-specs/{qos_id}/disassociate_all'}]),
    policy.DocumentedRuleDefault(
        DELETE, base.ADMIN, 'Delete QoS specs, or some of their keys.',
        [{'method': 'DELETE', 'path': '/qos-specs/{qos_id}'},
         {'method': 'PUT', 'path': '/qos-specs/{qos_id}/delete_keys'}]),
)
