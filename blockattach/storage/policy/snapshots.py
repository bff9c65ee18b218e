"""Policy rules of snapshots, with the names of Cinder's rules."""
from blockattach.platform.policy import base

_ONE = '/snapshots/{snapshot_id}'
_METADATA = f'{_ONE}/metadata'
_ITEM = f'{_METADATA}/{{key}}'

GET_ALL = base.Rule('volume:get_all_snapshots', base.READER, 'List snapshots.',
                    'GET /snapshots', 'GET /snapshots/detail')
GET = base.Rule('volume:get_snapshot', base.READER, 'Show a snapshot.', f'GET {_ONE}')
CREATE = base.Rule('volume:create_snapshot', base.MEMBER, 'Create a snapshot of a volume.',
                   'POST /snapshots')
UPDATE = base.Rule('volume:update_snapshot', base.MEMBER,
                   'Update the name or description of a snapshot.', f'PUT {_ONE}')
DELETE = base.Rule('volume:delete_snapshot', base.MEMBER, 'Delete a snapshot.', f'DELETE {_ONE}')
EXTENDED_ATTRIBUTES = base.Rule(
    'volume_extension:extended_snapshot_attributes', base.READER, 'Show the project and the '
    'progress of a snapshot. For other callers the keys are absent.', f'GET {_ONE}',
    'GET /snapshots/detail')
RESET_STATUS = base.Rule(
    'volume_extension:snapshot_admin_actions:reset_status', base.ADMIN,
    'Reset the status of a snapshot.', f'POST {_ONE}/action (os-reset_status)')
FORCE_DELETE = base.Rule(
    'volume_extension:snapshot_admin_actions:force_delete', base.ADMIN,
    'Delete a snapshot regardless of its status.', f'POST {_ONE}/action (os-force_delete)')
UPDATE_STATUS = base.Rule(
    'snapshot_extension:snapshot_actions:update_snapshot_status', base.MEMBER,
    'Update the status and the progress of a snapshot, as the consumer that creates or deletes '
    'the snapshot.',
    f'POST {_ONE}/action (os-update_snapshot_status)')
GET_METADATA = base.Rule('volume:get_snapshot_metadata', base.READER,
                         'Show the metadata of a snapshot.', f'GET {_METADATA}', f'GET {_ITEM}')
UPDATE_METADATA = base.Rule(
    'volume:update_snapshot_metadata', base.MEMBER, 'Update the metadata of a snapshot.',
    f'POST {_METADATA}', f'PUT {_METADATA}', f'PUT {_ITEM}')
DELETE_METADATA = base.Rule(
    'volume:delete_snapshot_metadata', base.MEMBER, 'Delete a metadata item of a snapshot.',
    f'DELETE {_ITEM}')
REVERT = base.Rule('volume:revert_to_snapshot', base.MEMBER,
                   'Revert a volume to its latest snapshot.',
                   'POST /volumes/{volume_id}/action (revert)')
