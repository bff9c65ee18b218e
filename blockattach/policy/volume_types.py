"""Rules for volume types and their extra specs."""
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

_SHOWN = ('GET /types', 'GET /types/{type_id}')
_ENCRYPTION_SHOWN = ('GET /types/{type_id}/encryption', 'GET /types/{type_id}/encryption/{key}')
_ENCRYPTION_CREATED = 'POST /types/{type_id}/encryption'
_ENCRYPTION_UPDATED = 'PUT /types/{type_id}/encryption/{encryption_id}'
_ENCRYPTION_DELETED = 'DELETE /types/{type_id}/encryption/{encryption_id}'
_ENCRYPTION_DEFAULT = f'rule:{ENCRYPTION}'

RULES = (
    base.Rule(CREATE, base.ADMIN, 'Create a volume type.', 'POST /types'),
    base.Rule(UPDATE, base.ADMIN, 'Change a volume type.', 'PUT /types/{type_id}'),
    base.Rule(DELETE, base.ADMIN, 'Delete a volume type.', 'DELETE /types/{type_id}'),
    base.Rule(GET, base.READER, 'Show a volume type.', 'GET /types/{type_id}'),
    base.Rule(GET_ALL, base.READER, 'List volume types.', 'GET /types'),
    base.Rule(EXTRA_SPECS_ATTRIBUTE, base.READER, 'See the extra specs within a volume type. For '
              'others the key is absent.', *_SHOWN),
    base.Rule(QOS_SPECS_ATTRIBUTE, base.ADMIN, 'See which QoS specs a volume type has. For others '
              'the key is absent.', *_SHOWN),
    base.Rule(ACCESS_ATTRIBUTE, base.MEMBER, 'See whether a volume type is public '
              '(os-volume-type-access:is_public). For others the key is absent.', *_SHOWN),
    base.Rule(EXTRA_SPECS_LIST, base.READER, 'List the extra specs of a volume type.',
              'GET /types/{type_id}/extra_specs'),
    base.Rule(EXTRA_SPECS_CREATE, base.ADMIN, 'Add extra specs to a volume type.',
              'POST /types/{type_id}/extra_specs'),
    base.Rule(EXTRA_SPECS_SHOW, base.READER, 'Show one extra spec of a volume type.',
              'GET /types/{type_id}/extra_specs/{extra_spec_key}'),
    base.Rule(EXTRA_SPECS_SENSITIVE, base.ADMIN, 'See extra specs about backends. Others see only '
              'those meant for users.',
              *_SHOWN, 'GET /types/{type_id}/extra_specs',
              'GET /types/{type_id}/extra_specs/{extra_spec_key}'),
    base.Rule(EXTRA_SPECS_UPDATE, base.ADMIN, 'Change an extra spec of a volume type.',
              'PUT /types/{type_id}/extra_specs/{extra_spec_key}'),
    base.Rule(EXTRA_SPECS_DELETE, base.ADMIN, 'Delete an extra spec of a volume type.',
              'DELETE /types/{type_id}/extra_specs/{extra_spec_key}'),
    base.Rule(ENCRYPTION, base.ADMIN, 'Default of all that can be done with the encryption of a '
              'volume type.',
              _ENCRYPTION_CREATED, *_ENCRYPTION_SHOWN, _ENCRYPTION_UPDATED, _ENCRYPTION_DELETED),
    base.Rule(ENCRYPTION_CREATE, _ENCRYPTION_DEFAULT, 'Let the volumes of a type be encrypted.',
              _ENCRYPTION_CREATED),
    base.Rule(ENCRYPTION_GET, _ENCRYPTION_DEFAULT, 'Show how the volumes of a type are encrypted.',
              *_ENCRYPTION_SHOWN),
    base.Rule(ENCRYPTION_UPDATE, _ENCRYPTION_DEFAULT, 'Change how the volumes of a type are '
              'encrypted.',
              _ENCRYPTION_UPDATED),
    base.Rule(ENCRYPTION_DELETE, _ENCRYPTION_DEFAULT, 'Let the volumes of a type be plain again.',
              _ENCRYPTION_DELETED),
)
