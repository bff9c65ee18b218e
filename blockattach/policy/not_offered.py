"""Rules for what there is none of: lists are empty, and nothing is made."""
from blockattach.policy import base

_GROUPS = ('/groups', '/consistencygroups')
_SNAPSHOTS = ('/group_snapshots', '/cgsnapshots')
_LISTS = ('', '/detail')

BACKUP_GET_ALL = base.Rule('backup:get_all', base.READER, 'List backups: there are none.',
                           *(f'GET /backups{end}' for end in _LISTS))
BACKUP_GET = base.Rule('backup:get', base.READER, 'Show a backup: there is none.',
                       'GET /backups/{backup_id}')
BACKUP_CREATE = base.Rule('backup:create', base.MEMBER, 'Create a backup: refused.',
                          'POST /backups')
BACKUP_IMPORT = base.Rule('backup:backup-import', base.ADMIN, 'Import a backup: refused.',
                          'POST /backups/import_record')
BACKUP_DELETE = base.Rule('backup:delete', base.MEMBER, 'Delete a backup: there is none.',
                          'DELETE /backups/{backup_id}')

GROUP_GET_ALL = base.Rule('group:get_all', base.READER, 'List groups of volumes: there are none.',
                          *(f'GET {path}{end}' for path in _GROUPS for end in _LISTS))
GROUP_GET = base.Rule('group:get', base.READER, 'Show a group: there is none.',
                      *(f'GET {path}/{{group_id}}' for path in _GROUPS))
GROUP_CREATE = base.Rule(
    'group:create', base.MEMBER, 'Create a group: refused.',
    *(f'POST {path}' for path in _GROUPS), 'POST /groups/action (create-from-src)',
    'POST /consistencygroups/create_from_src')
GROUP_DELETE = base.Rule('group:delete', base.MEMBER, 'Delete a group: there is none.',
                         *(f'DELETE {path}/{{group_id}}' for path in _GROUPS))

SNAPSHOT_GET_ALL = base.Rule(
    'group:get_all_group_snapshots', base.READER, 'List snapshots of groups: there are none.',
    *(f'GET {path}{end}' for path in _SNAPSHOTS for end in _LISTS))
SNAPSHOT_GET = base.Rule(
    'group:get_group_snapshot', base.READER, 'Show a snapshot of a group: there is none.',
    *(f'GET {path}/{{group_snapshot_id}}' for path in _SNAPSHOTS))
SNAPSHOT_CREATE = base.Rule('group:create_group_snapshot', base.MEMBER,
                            'Create a snapshot of a group: refused.',
                            *(f'POST {path}' for path in _SNAPSHOTS))
SNAPSHOT_DELETE = base.Rule(
    'group:delete_group_snapshot', base.MEMBER, 'Delete a snapshot of a group: there is none.',
    *(f'DELETE {path}/{{group_snapshot_id}}' for path in _SNAPSHOTS))

TYPE_CREATE = base.Rule('group:group_types:create', base.ADMIN, 'Create a group type: refused.',
                        'POST /group_types')
TYPE_DELETE = base.Rule('group:group_types:delete', base.ADMIN,
                        'Delete a group type: there is none.',
                        'DELETE /group_types/{group_type_id}')
