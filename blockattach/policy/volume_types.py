"""Rules for volume types and their extra specs."""
from oslo_policy import policy

from blockattach.policy import base

CREATE = 'volume_extension:type_create'
UPDATE = 'volume_extension:type_update'
DELETE = 'volume_extension:type_delete'
GET = 'volume_extension:type_get'
GET_ALL = 'volume_extension:type_get_all'
EXTRA_SPECS_ATTRIBUTE = 'volume_extension:access_types_extra_specs'
QOS_SPECS_ATTRIBUTE = 'volume_extension:access_types_qos_specs_id'
ACCESS_ATTRIBUTE = 'volume_extension:volume_type_access'
EXTRA_SPECS_LIST = 'volume_extension:types_extra_specs:index'
EXTRA_SPECS_CREATE = 'volume_extension:types_extra_specs:create'
EXTRA_SPECS_SHOW = 'volume_extension:types_extra_specs:show'
EXTRA_SPECS_SENSITIVE = 'volume_extension:types_extra_specs:read_sensitive'
EXTRA_SPECS_UPDATE = 'volume_extension:types_extra_specs:update'
EXTRA_SPECS_DELETE = 'volume_extension:types_extra_specs:delete'
ENCRYPTION = 'volume_extension:volume_type_encryption'
ENCRYPTION_CREATE = 'volume_extension:volume_type_encryption:create'
ENCRYPTION_GET = 'volume_extension:volume_type_encryption:get'
ENCRYPTION_UPDATE = 'volume_extension:volume_type_encryption:update'
ENCRYPTION_DELETE = 'volume_extension:volume_type_encryption:delete'

_SHOWN: list[policy.Operation] = [
    {'method': 'GET', 'path': '/types'},
    {'method': 'GET', 'path': '/types/{type_id}'},
]
_ENCRYPTION_SHOWN: list[policy.Operation] = [
    {'method': 'GET', 'path': '/types/{type_id}/encryption'},
    {'method': 'GET', 'path': '/types/{type_id}/encryption/{key}'},
]
_ENCRYPTION_CREATED: policy.Operation = {'method': 'POST', 'path': '/types/{type_id}/encryption'}
_ENCRYPTION_UPDATED: policy.Operation = {
    'method': 'PUT', 'path': '/types/{type_id}/encryption/{encryption_id}'}
_ENCRYPTION_DELETED: policy.Operation = {
    'method': 'DELETE', 'path': '/types/{type_id}/encryption/{encryption_id}'}
_ENCRYPTION_DEFAULT = f'rule:{ENCRYPTION}'

RULES = (
    policy.DocumentedRuleDefault(
        CREATE, base.ADMIN, 'Create a volume type.', [{'method': 'POST', 'path': '/types'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.ADMIN, 'Change a volume type.',
        [{'method': 'PUT', 'path': '/types/{type_id}'}]),
    policy.DocumentedRuleDefault(
        DELETE, base.ADMIN, 'Delete a volume type.',
        [{'method': 'DELETE', 'path': '/types/{type_id}'}]),
    policy.DocumentedRuleDefault(
        GET, base.READER, 'Show a volume type.',
        [{'method': 'GET', 'path': '/types/{type_id}'}]),
    policy.DocumentedRuleDefault(
        GET_ALL, base.READER, 'List volume types.', [{'method': 'GET', 'path': '/types'}]),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_ATTRIBUTE, base.READER, 'See the extra specs within a volume type. For '
        'others the key is absent.', _SHOWN),
    policy.DocumentedRuleDefault(
        QOS_SPECS_ATTRIBUTE, base.ADMIN, 'See which QoS specs a volume type has. For others the '
        'key is absent.', _SHOWN),
    policy.DocumentedRuleDefault(
        ACCESS_ATTRIBUTE, base.MEMBER, 'See whether a volume type is public '
        '(os-volume-type-access:is_public). For others the key is absent.', _SHOWN),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_LIST, base.READER, 'List the extra specs of a volume type.',
        [{'method': 'GET', 'path': '/types/{type_id}/extra_specs'}]),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_CREATE, base.ADMIN, 'Add extra specs to a volume type.',
        [{'method': 'POST', 'path': '/types/{type_id}/extra_specs'}]),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_SHOW, base.READER, 'Show one extra spec of a volume type.',
        [{'method': 'GET', 'path': '/types/{type_id}/extra_specs/{extra_spec_key}'}]),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_SENSITIVE, base.ADMIN, 'See extra specs about backends. Others see '
        'only those meant for users.',
        [*_SHOWN,
         {'method': 'GET', 'path': '/types/{type_id}/extra_specs'},
         {'method': 'GET', 'path': '/types/{type_id}/extra_specs/{extra_spec_key}'}]),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_UPDATE, base.ADMIN, 'Change an extra spec of a volume type.',
        [{'method': 'PUT', 'path': '/types/{type_id}/extra_specs/{extra_spec_key}'}]),
    policy.DocumentedRuleDefault(
        EXTRA_SPECS_DELETE, base.ADMIN, 'Delete an extra spec of a volume type.',
        [{'method': 'DELETE', 'path': '/types/{type_id}/extra_specs/{extra_spec_key}'}]),
    policy.DocumentedRuleDefault(
        ENCRYPTION, base.ADMIN, 'Default of all that can be done with the encryption of a volume '
        'type.', [_ENCRYPTION_CREATED, *_ENCRYPTION_SHOWN, _ENCRYPTION_UPDATED,
                  _ENCRYPTION_DELETED]),
    policy.DocumentedRuleDefault(
        ENCRYPTION_CREATE, _ENCRYPTION_DEFAULT, 'Let the volumes of a type be encrypted.',
        [_ENCRYPTION_CREATED]),
    policy.DocumentedRuleDefault(
        ENCRYPTION_GET, _ENCRYPTION_DEFAULT, 'Show how the volumes of a type are encrypted.',
        _ENCRYPTION_SHOWN),
    policy.DocumentedRuleDefault(
        ENCRYPTION_UPDATE, _ENCRYPTION_DEFAULT, 'Change how the volumes of a type are encrypted.',
        [_ENCRYPTION_UPDATED]),
    policy.DocumentedRuleDefault(
        ENCRYPTION_DELETE, _ENCRYPTION_DEFAULT, 'Let the volumes of a type be plain again.',
        [_ENCRYPTION_DELETED]),
)
