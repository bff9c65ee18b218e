"""Policy rules of volumes."""
import functools

from blockattach.platform.policy import base

_ONE = '/volumes/{volume_id}'
_SHOWN = (f'GET {_ONE}', 'GET /volumes/detail')
_action = functools.partial(base.action, 'volume_extension:volume_actions', base.MEMBER)
_admin_action = functools.partial(base.action, 'volume_extension:volume_admin_actions', base.ADMIN)

CREATE = base.Rule('volume:create', base.MEMBER, 'Create a volume.', 'POST /volumes')
CREATE_FROM_IMAGE = base.Rule('volume:create_from_image', base.MEMBER,
                              'Create a volume from an image.', 'POST /volumes')
GET = base.Rule('volume:get', base.READER, 'Show a volume. Other callers get HTTP 404.',
                f'GET {_ONE}')
GET_ALL = base.Rule('volume:get_all', base.READER, 'List volumes, or show a summary of volumes.',
                    'GET /volumes', 'GET /volumes/detail', 'GET /volumes/summary')
UPDATE = base.Rule('volume:update', base.MEMBER, 'Update the name or description of a volume.',
                   f'PUT {_ONE}', f'POST {_ONE}/action (os-set_bootable)')
DELETE = base.Rule('volume:delete', base.MEMBER, 'Delete a volume.', f'DELETE {_ONE}')
# This rule is for DELETE with force=true (3.23). `FORCE_DELETE_ACTION` is for os-force_delete.
FORCE_DELETE = base.Rule('volume:force_delete', base.ADMIN,
                         'Delete a volume regardless of its status.', f'DELETE {_ONE}')
MULTIATTACH = base.Rule('volume:multiattach', base.MEMBER, 'Create a multiattach volume, or '
                        'change the type of a volume to a multiattach type. Existing multiattach '
                        'volumes are not affected: they keep their attachments, and can get more '
                        'attachments.',
                        'POST /volumes', f'POST {_ONE}/action (os-retype)')
# As in Cinder, a request that violates a rule of an attribute is not rejected. The response then
# does not have the keys of the attribute.
HOST_ATTRIBUTE = base.Rule('volume_extension:volume_host_attribute', base.ADMIN, 'Include the '
                           'host (the pool) in volumes. For other callers the key is absent.',
                           *_SHOWN)
TENANT_ATTRIBUTE = base.Rule('volume_extension:volume_tenant_attribute', base.READER,
                             'Include the project in volumes. For other callers the key is '
                             'absent.',
                             *_SHOWN)
MIG_STATUS_ATTRIBUTE = base.Rule('volume_extension:volume_mig_status_attribute', base.ADMIN,
                                 'Include the migration status in volumes. For other callers the '
                                 'keys are absent.', *_SHOWN)
ENCRYPTION_METADATA = base.Rule('volume_extension:volume_encryption_metadata', base.READER,
                                'Show the encryption metadata of a volume.',
                                f'GET {_ONE}/encryption',
                                f'GET {_ONE}/encryption/{{encryption_key}}')
EXTEND = base.Rule('volume:extend', base.MEMBER, 'Extend a volume.',
                   f'POST {_ONE}/action (os-extend)')
EXTEND_ATTACHED = base.Rule(
    'volume:extend_attached_volume', base.MEMBER, 'Extend a volume that is in use. The rule '
    'volume:extend applies as well.', f'POST {_ONE}/action (os-extend)')
EXTEND_COMPLETION = _admin_action('extend_volume_completion', 'Complete or fail the extension of '
                                  'a volume that waits for its consumer.')
RETYPE = base.action('volume', base.MEMBER, 'retype', 'Change the type of a volume. For a '
                     'multiattach type, the rule volume:multiattach applies as well.')
MIGRATE = _admin_action('migrate_volume', 'Migrate a volume to another backend.')
MIGRATE_COMPLETION = _admin_action('migrate_volume_completion', 'Complete a migration that waits '
                                   'for the consumer of its volume.')
# As in Cinder, the rules of metadata also apply to image metadata, in addition to the rules of
# image metadata.
_METADATA = f'{_ONE}/metadata'
_ITEM = f'{_METADATA}/{{key}}'
GET_METADATA = base.Rule('volume:get_volume_metadata', base.READER, 'Show the metadata or the '
                         'image metadata of a volume.', f'GET {_METADATA}', f'GET {_ITEM}',
                         f'POST {_ONE}/action (os-show_image_metadata)')
CREATE_METADATA = base.Rule('volume:create_volume_metadata', base.MEMBER,
                            'Create metadata of a volume.', f'POST {_METADATA}')
UPDATE_METADATA = base.Rule('volume:update_volume_metadata', base.MEMBER, 'Update the metadata or '
                            'the image metadata of a volume.', f'PUT {_METADATA}', f'PUT {_ITEM}',
                            f'POST {_ONE}/action (os-set_image_metadata)')
DELETE_METADATA = base.Rule('volume:delete_volume_metadata', base.MEMBER, 'Delete metadata or '
                            'image metadata of a volume.', f'DELETE {_ITEM}',
                            f'POST {_ONE}/action (os-unset_image_metadata)')
SHOW_IMAGE_METADATA = base.Rule('volume_extension:volume_image_metadata:show', base.READER,
                                'Include the image metadata in volumes. For other callers the key '
                                'is absent.', *_SHOWN)
SET_IMAGE_METADATA = base.Rule('volume_extension:volume_image_metadata:set', base.MEMBER,
                               'Set image metadata of a volume.',
                               f'POST {_ONE}/action (os-set_image_metadata)')
REMOVE_IMAGE_METADATA = base.Rule('volume_extension:volume_image_metadata:remove', base.MEMBER,
                                  'Remove image metadata of a volume.',
                                  f'POST {_ONE}/action (os-unset_image_metadata)')
RESERVE = _action('reserve', 'Reserve a volume for a consumer that is given later.')
UNRESERVE = _action('unreserve', 'Release the reservation made by os-reserve.')
BEGIN_DETACHING = _action('begin_detaching', 'Begin detaching a volume.')
ROLL_DETACHING = _action('roll_detaching', 'Roll back detaching a volume.')
INITIALIZE_CONNECTION = _action('initialize_connection',
                                'Connect a host to a volume without the attachments API.')
TERMINATE_CONNECTION = _action('terminate_connection',
                               'Disconnect a host from a volume without the attachments API.')
ATTACH = _action('attach', 'Attach a volume to a server or host, after the connection is made.')
DETACH = _action('detach', 'Detach a volume by an action on the volume.')
FORCE_DETACH = _admin_action('force_detach', 'Detach a volume regardless of the status of its '
                             'attachment.')
FORCE_DELETE_ACTION = _admin_action('force_delete', 'Delete a volume regardless of its status.')
RESET_STATUS = _admin_action('reset_status', 'Reset the status of a volume.')
UPDATE_READONLY_FLAG = base.action(
    'volume', base.MEMBER, 'update_readonly_flag', 'Set or unset the read-only flag of a volume. '
    'Cinder also checks volume:update_volume_admin_metadata, but for its own context and not for '
    'the caller.')
UPLOAD_IMAGE = base.Rule('volume_extension:volume_actions:upload_image', base.MEMBER, 'Upload a '
                         'volume to an image.', f'POST {_ONE}/action (os-volume_upload_image)')
UPLOAD_PUBLIC = base.Rule('volume_extension:volume_actions:upload_public', base.ADMIN, 'Upload a '
                          'volume to a public image.',
                          f'POST {_ONE}/action (os-volume_upload_image)')
REIMAGE = base.Rule('volume:reimage', base.MEMBER, 'Replace the content of a volume with another '
                    'image.',
                    f'POST {_ONE}/action (os-reimage)')
REIMAGE_RESERVED = base.Rule('volume:reimage_reserved', base.MEMBER, 'Replace the content of a '
                             'reserved volume with another image.',
                             f'POST {_ONE}/action (os-reimage)')
