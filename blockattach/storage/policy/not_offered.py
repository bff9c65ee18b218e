"""Policy rules of resources that this service does not support.

Such resources cannot be created. Their lists are empty, but do not fail, because Tempest, Horizon
and the SDK list backups even if nobody uses them.
"""
from blockattach.platform.policy import base

_GROUPS = ('/groups', '/consistencygroups')
_SNAPSHOTS = ('/group_snapshots', '/cgsnapshots')
_LISTS = ('', '/detail')

BACKUP_GET_ALL = base.Rule('backup:get_all', base.READER, 'List backups. Backups are not '
                           'supported, and the list is empty.',
                           *(f'GET /backups{end}' for end in _LISTS))
BACKUP_GET = base.Rule('backup:get', base.READER, 'Show a backup. Backups are not supported.',
                       'GET /backups/{backup_id}')
BACKUP_CREATE = base.Rule('backup:create', base.MEMBER, 'Create a backup. Backups are not '
                          'supported, and the request is rejected.',
                          'POST /backups')
BACKUP_IMPORT = base.Rule('backup:backup-import', base.ADMIN, 'Import a backup. Backups are not '
                          'supported, and the request is rejected.',
                          'POST /backups/import_record')
BACKUP_DELETE = base.Rule('backup:delete', base.MEMBER, 'Delete a backup. Backups are not '
                          'supported.',
                          'DELETE /backups/{backup_id}')

GROUP_GET_ALL = base.Rule('group:get_all', base.READER, 'List volume groups. Groups are not '
                          'supported, and the list is empty.',
                          *(f'GET {path}{end}' for path in _GROUPS for end in _LISTS))
GROUP_GET = base.Rule('group:get', base.READER, 'Show a volume group. Groups are not supported.',
                      *(f'GET {path}/{{group_id}}' for path in _GROUPS))
GROUP_CREATE = base.Rule(
    'group:create', base.MEMBER, 'Create a volume group. Groups are not supported, and the '
    'request is rejected.',
    *(f'POST {path}' for path in _GROUPS), 'POST /groups/action (create-from-src)',
    'POST /consistencygroups/create_from_src')
GROUP_DELETE = base.Rule('group:delete', base.MEMBER, 'Delete a volume group. Groups are not '
                         'supported.',
                         *(f'DELETE {path}/{{group_id}}' for path in _GROUPS))

SNAPSHOT_GET_ALL = base.Rule(
    'group:get_all_group_snapshots', base.READER, 'List group snapshots. Groups are not '
    'supported, and the list is empty.',
    *(f'GET {path}{end}' for path in _SNAPSHOTS for end in _LISTS))
SNAPSHOT_GET = base.Rule(
    'group:get_group_snapshot', base.READER, 'Show a group snapshot. Groups are not supported.',
    *(f'GET {path}/{{group_snapshot_id}}' for path in _SNAPSHOTS))
SNAPSHOT_CREATE = base.Rule('group:create_group_snapshot', base.MEMBER,
                            'Create a group snapshot. Groups are not supported, and the request '
                            'is rejected.',
                            *(f'POST {path}' for path in _SNAPSHOTS))
SNAPSHOT_DELETE = base.Rule(
    'group:delete_group_snapshot', base.MEMBER, 'Delete a group snapshot. Groups are not '
    'supported.',
    *(f'DELETE {path}/{{group_snapshot_id}}' for path in _SNAPSHOTS))

TYPE_CREATE = base.Rule('group:group_types:create', base.ADMIN, 'Create a group type. Groups are '
                        'not supported, and the request is rejected.',
                        'POST /group_types')
TYPE_DELETE = base.Rule('group:group_types:delete', base.ADMIN,
                        'Delete a group type. Groups are not supported.',
                        'DELETE /group_types/{group_type_id}')
