"""Rules for volumes."""
import functools

from blockattach.policy import base

_ONE = '/volumes/{volume_id}'
_SHOWN = (f'GET {_ONE}', 'GET /volumes/detail')
_action = functools.partial(base.action, 'volume_extension:volume_actions', base.MEMBER)
_admin_action = functools.partial(base.action, 'volume_extension:volume_admin_actions', base.ADMIN)

CREATE = base.Rule('volume:create', base.MEMBER, 'Create a volume.', 'POST /volumes')
CREATE_FROM_IMAGE = base.Rule('volume:create_from_image', base.MEMBER,
                              'Create a volume of an image.', 'POST /volumes')
GET = base.Rule('volume:get', base.READER, 'Show a volume. For other callers it does not exist.',
                f'GET {_ONE}')
GET_ALL = base.Rule('volume:get_all', base.READER, 'List volumes, or sum them up.',
                    'GET /volumes', 'GET /volumes/detail', 'GET /volumes/summary')
UPDATE = base.Rule('volume:update', base.MEMBER, 'Change the name or description of a volume.',
                   f'PUT {_ONE}', f'POST {_ONE}/action (os-set_bootable)')
DELETE = base.Rule('volume:delete', base.MEMBER, 'Delete a volume.', f'DELETE {_ONE}')
FORCE_DELETE = base.Rule('volume:force_delete', base.ADMIN,
                         'Delete a volume whatever its status.', f'DELETE {_ONE}')
MULTIATTACH = base.Rule('volume:multiattach', base.MEMBER, 'Create a volume that several servers '
                        'can use at once, or give a volume such a type. Denying this does not '
                        'affect existing volumes: they keep their attachments and can get more.',
                        'POST /volumes', f'POST {_ONE}/action (os-retype)')
HOST_ATTRIBUTE = base.Rule('volume_extension:volume_host_attribute', base.ADMIN, 'See which pool '
                           'holds a volume. For others the key is absent.', *_SHOWN)
TENANT_ATTRIBUTE = base.Rule('volume_extension:volume_tenant_attribute', base.READER, 'See which '
                             'project a volume belongs to. For others the key is absent.', *_SHOWN)
MIG_STATUS_ATTRIBUTE = base.Rule('volume_extension:volume_mig_status_attribute', base.ADMIN,
                                 'See the migration status of a volume. For others the keys are '
                                 'absent.', *_SHOWN)
ENCRYPTION_METADATA = base.Rule('volume_extension:volume_encryption_metadata', base.READER,
                                'Show how a volume is encrypted.', f'GET {_ONE}/encryption',
                                f'GET {_ONE}/encryption/{{encryption_key}}')
EXTEND = base.Rule('volume:extend', base.MEMBER, 'Make a volume larger.',
                   f'POST {_ONE}/action (os-extend)')
EXTEND_ATTACHED = base.Rule(
    'volume:extend_attached_volume', base.MEMBER, 'Make a volume larger that is in use. '
    'volume:extend is asked too.', f'POST {_ONE}/action (os-extend)')
EXTEND_COMPLETION = _admin_action('extend_volume_completion', 'Say how the extension of a volume '
                                  'has ended that waits for its consumer.')
RETYPE = base.action('volume', base.MEMBER, 'retype', 'Give a volume another type. For one that '
                     'several servers can use at once volume:multiattach is asked too.')
MIGRATE = _admin_action('migrate_volume', 'Move a volume to another backend.')
MIGRATE_COMPLETION = _admin_action('migrate_volume_completion', 'Complete a migration that waits '
                                   'for the consumer of its volume.')
_METADATA = f'{_ONE}/metadata'
_ITEM = f'{_METADATA}/{{key}}'
GET_METADATA = base.Rule('volume:get_volume_metadata', base.READER, 'See the metadata of a volume '
                         'or of its image.', f'GET {_METADATA}', f'GET {_ITEM}',
                         f'POST {_ONE}/action (os-show_image_metadata)')
CREATE_METADATA = base.Rule('volume:create_volume_metadata', base.MEMBER,
                            'Add metadata to a volume.', f'POST {_METADATA}')
UPDATE_METADATA = base.Rule('volume:update_volume_metadata', base.MEMBER, 'Change metadata of a '
                            'volume or of its image.', f'PUT {_METADATA}', f'PUT {_ITEM}',
                            f'POST {_ONE}/action (os-set_image_metadata)')
DELETE_METADATA = base.Rule('volume:delete_volume_metadata', base.MEMBER, 'Remove metadata of a '
                            'volume or of its image.', f'DELETE {_ITEM}',
                            f'POST {_ONE}/action (os-unset_image_metadata)')
SHOW_IMAGE_METADATA = base.Rule('volume_extension:volume_image_metadata:show', base.READER, 'See '
                                'the metadata of its image with a volume. For others the key is '
                                'absent.', *_SHOWN)
SET_IMAGE_METADATA = base.Rule('volume_extension:volume_image_metadata:set', base.MEMBER,
                               'Set metadata of the image of a volume.',
                               f'POST {_ONE}/action (os-set_image_metadata)')
REMOVE_IMAGE_METADATA = base.Rule('volume_extension:volume_image_metadata:remove', base.MEMBER,
                                  'Remove metadata of the image of a volume.',
                                  f'POST {_ONE}/action (os-unset_image_metadata)')
RESERVE = _action('reserve', 'Reserve a volume for a consumer that is named later.')
UNRESERVE = _action('unreserve', 'Release what os-reserve reserved.')
BEGIN_DETACHING = _action('begin_detaching', 'Announce a detach.')
ROLL_DETACHING = _action('roll_detaching', 'Take the announcement of a detach back.')
INITIALIZE_CONNECTION = _action('initialize_connection',
                                'Connect a host without an attachment of its own.')
TERMINATE_CONNECTION = _action('terminate_connection',
                               'Disconnect a host without naming an attachment.')
ATTACH = _action('attach', 'Say which server or host uses a volume.')
DETACH = _action('detach', 'End an attachment by an action on its volume.')
FORCE_DETACH = _admin_action('force_detach', 'End an attachment whatever its state is.')
FORCE_DELETE_ACTION = _admin_action('force_delete', 'Delete a volume whatever its status.')
RESET_STATUS = _admin_action('reset_status', 'Say what the status of a volume is.')
UPDATE_READONLY_FLAG = base.action(
    'volume', base.MEMBER, 'update_readonly_flag', 'Let attachments of a volume only read, or '
    'not. Cinder also asks volume:update_volume_admin_metadata, but of itself and not of the '
    'caller.')
UPLOAD_IMAGE = base.Rule('volume_extension:volume_actions:upload_image', base.MEMBER, 'Make an '
                         'image of a volume.', f'POST {_ONE}/action (os-volume_upload_image)')
UPLOAD_PUBLIC = base.Rule('volume_extension:volume_actions:upload_public', base.ADMIN, 'Make an '
                          'image of a volume that everybody sees.',
                          f'POST {_ONE}/action (os-volume_upload_image)')
REIMAGE = base.Rule('volume:reimage', base.MEMBER, 'Give a volume the bytes of another image.',
                    f'POST {_ONE}/action (os-reimage)')
REIMAGE_RESERVED = base.Rule('volume:reimage_reserved', base.MEMBER, 'Give a volume that is '
                             'reserved the bytes of another image.',
                             f'POST {_ONE}/action (os-reimage)')
