"""Policy rules of volume types, of their extra specs and encryption, and of access to them."""
from blockattach.platform.policy import base

_ONE = '/types/{type_id}'
_SPECS = f'{_ONE}/extra_specs'
_SPEC = f'{_SPECS}/{{extra_spec_key}}'
_SHOWN = ('GET /types', f'GET {_ONE}')
_ENCRYPTION_SHOWN = (f'GET {_ONE}/encryption', f'GET {_ONE}/encryption/{{key}}')
_ENCRYPTION_CREATED = f'POST {_ONE}/encryption'
_ENCRYPTION_UPDATED = f'PUT {_ONE}/encryption/{{encryption_id}}'
_ENCRYPTION_DELETED = f'DELETE {_ONE}/encryption/{{encryption_id}}'

CREATE = base.Rule('volume_extension:type_create', base.ADMIN, 'Create a volume type.',
                   'POST /types')
UPDATE = base.Rule('volume_extension:type_update', base.ADMIN, 'Update a volume type.',
                   f'PUT {_ONE}')
DELETE = base.Rule('volume_extension:type_delete', base.ADMIN, 'Delete a volume type.',
                   f'DELETE {_ONE}')
GET = base.Rule('volume_extension:type_get', base.READER, 'Show a volume type.', f'GET {_ONE}')
GET_ALL = base.Rule('volume_extension:type_get_all', base.READER, 'List volume types.',
                    'GET /types')
EXTRA_SPECS_ATTRIBUTE = base.Rule('volume_extension:access_types_extra_specs', base.READER,
                                  'Include the extra specs in volume types. For other callers the '
                                  'key is absent.', *_SHOWN)
QOS_SPECS_ATTRIBUTE = base.Rule('volume_extension:access_types_qos_specs_id', base.ADMIN,
                                'Include the id of the QoS specs in volume types. For other '
                                'callers the key is absent.', *_SHOWN)
ACCESS_ATTRIBUTE = base.Rule('volume_extension:volume_type_access', base.MEMBER, 'Include in '
                             'volume types whether the type is public '
                             '(os-volume-type-access:is_public). For other callers the key is '
                             'absent.', *_SHOWN)
ACCESS_ADD = base.Rule(f'{ACCESS_ATTRIBUTE}:addProjectAccess', base.ADMIN,
                       'Add access to a private volume type for a project.',
                       f'POST {_ONE}/action (addProjectAccess)')
ACCESS_REMOVE = base.Rule(f'{ACCESS_ATTRIBUTE}:removeProjectAccess', base.ADMIN,
                          'Remove access to a private volume type for a project.',
                          f'POST {_ONE}/action (removeProjectAccess)')
ACCESS_LIST = base.Rule(f'{ACCESS_ATTRIBUTE}:get_all_for_type', base.ADMIN,
                        'List the projects with access to a private volume type.',
                        f'GET {_ONE}/os-volume-type-access')
EXTRA_SPECS_LIST = base.Rule('volume_extension:types_extra_specs:index', base.READER,
                             'List the extra specs of a volume type.', f'GET {_SPECS}')
EXTRA_SPECS_CREATE = base.Rule('volume_extension:types_extra_specs:create', base.ADMIN,
                               'Add extra specs to a volume type.', f'POST {_SPECS}')
EXTRA_SPECS_SHOW = base.Rule('volume_extension:types_extra_specs:show', base.READER,
                             'Show an extra spec of a volume type.', f'GET {_SPEC}')
EXTRA_SPECS_SENSITIVE = base.Rule('volume_extension:types_extra_specs:read_sensitive', base.ADMIN,
                                  'Show extra specs that contain information about backends. '
                                  'Other callers see only the extra specs intended for users.',
                                  *_SHOWN, f'GET {_SPECS}', f'GET {_SPEC}')
EXTRA_SPECS_UPDATE = base.Rule('volume_extension:types_extra_specs:update', base.ADMIN,
                               'Update an extra spec of a volume type.', f'PUT {_SPEC}')
EXTRA_SPECS_DELETE = base.Rule('volume_extension:types_extra_specs:delete', base.ADMIN,
                               'Delete an extra spec of a volume type.', f'DELETE {_SPEC}')
ENCRYPTION = base.Rule('volume_extension:volume_type_encryption', base.ADMIN,
                       'Default rule for the operations on the encryption of a volume type.',
                       _ENCRYPTION_CREATED, *_ENCRYPTION_SHOWN, _ENCRYPTION_UPDATED,
                       _ENCRYPTION_DELETED)
# Existing policy files may set only the rule above, which Cinder has deprecated but not removed.
ENCRYPTION_CREATE = base.Rule(f'{ENCRYPTION}:create', f'rule:{ENCRYPTION}',
                              'Create the encryption of a volume type.', _ENCRYPTION_CREATED)
ENCRYPTION_GET = base.Rule(f'{ENCRYPTION}:get', f'rule:{ENCRYPTION}',
                           'Show the encryption of a volume type.', *_ENCRYPTION_SHOWN)
ENCRYPTION_UPDATE = base.Rule(f'{ENCRYPTION}:update', f'rule:{ENCRYPTION}',
                              'Update the encryption of a volume type.',
                              _ENCRYPTION_UPDATED)
ENCRYPTION_DELETE = base.Rule(f'{ENCRYPTION}:delete', f'rule:{ENCRYPTION}',
                              'Delete the encryption of a volume type.', _ENCRYPTION_DELETED)
