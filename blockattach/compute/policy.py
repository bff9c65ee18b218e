"""Policy rules of the compute API, whose names have the prefix of Nova's rules."""
from blockattach.platform.policy import base

_PREFIX = 'os_compute_api'

LIST = base.Rule(f'{_PREFIX}:servers:index', base.READER, 'List servers.', 'GET /servers',
                 'GET /servers/detail')
SHOW = base.Rule(f'{_PREFIX}:servers:show', base.READER, 'Show a server.', 'GET /servers/{id}')
CREATE = base.Rule(f'{_PREFIX}:servers:create', base.MEMBER, 'Create servers.', 'POST /servers')
CREATE_ON = base.Rule(f'{_PREFIX}:servers:create:forced_host', base.ADMIN,
                      'Create a server on a given host.', 'POST /servers')
UPDATE = base.Rule(f'{_PREFIX}:servers:update', base.MEMBER,
                   'Update the name or description of a server.', 'PUT /servers/{id}')
DELETE = base.Rule(f'{_PREFIX}:servers:delete', base.MEMBER, 'Delete a server.',
                   'DELETE /servers/{id}')
ACT = base.Rule(f'{_PREFIX}:servers:act', base.MEMBER,
                'Start, stop, reboot, shelve, unshelve, rebuild, or resize a server.',
                'POST /servers/{id}/action')
MIGRATE = base.Rule(f'{_PREFIX}:os-migrate-server:migrate', base.ADMIN,
                    'Migrate a server to another host.', 'POST /servers/{id}/action (migrate)',
                    'POST /servers/{id}/action (os-migrateLive)')
UNSHELVE_TO = base.Rule(f'{_PREFIX}:os-shelve:unshelve_to_host', base.ADMIN,
                        'Unshelve a server on a given host.',
                        'POST /servers/{id}/action (unshelve)')
EVACUATE = base.Rule(f'{_PREFIX}:os-evacuate', base.ADMIN,
                     'Evacuate a server from a failed host.',
                     'POST /servers/{id}/action (evacuate)')
SEE_HOST = base.Rule(f'{_PREFIX}:os-extended-server-attributes', base.ADMIN,
                     'Show the host of a server, and host names in failure reasons.',
                     'GET /servers/{id}', 'GET /servers/detail')
VOLUMES_SHOW = base.Rule(f'{_PREFIX}:os-volumes-attachments:index', base.READER,
                         'List or show the volume attachments of a server.',
                         'GET /servers/{id}/os-volume_attachments',
                         'GET /servers/{id}/os-volume_attachments/{volume_id}')
VOLUMES_CREATE = base.Rule(f'{_PREFIX}:os-volumes-attachments:create', base.MEMBER,
                           'Attach a volume to a server.',
                           'POST /servers/{id}/os-volume_attachments')
VOLUMES_UPDATE = base.Rule(f'{_PREFIX}:os-volumes-attachments:update', base.MEMBER,
                           'Update a volume attachment of a server.',
                           'PUT /servers/{id}/os-volume_attachments/{volume_id}')
VOLUMES_SWAP = base.Rule(f'{_PREFIX}:os-volumes-attachments:swap', base.ADMIN,
                         'Replace the volume of a volume attachment of a server.',
                         'PUT /servers/{id}/os-volume_attachments/{volume_id}')
VOLUMES_DELETE = base.Rule(f'{_PREFIX}:os-volumes-attachments:delete', base.MEMBER,
                           'Detach a volume from a server.',
                           'DELETE /servers/{id}/os-volume_attachments/{volume_id}')
_METADATA = f'{_PREFIX}:server-metadata'
METADATA_LIST = base.Rule(f'{_METADATA}:index', base.READER, 'List the metadata of a server.',
                          'GET /servers/{id}/metadata')
METADATA_SHOW = base.Rule(f'{_METADATA}:show', base.READER, 'Show a metadata item of a server.',
                          'GET /servers/{id}/metadata/{key}')
METADATA_CREATE = base.Rule(f'{_METADATA}:create', base.MEMBER, 'Add metadata to a server.',
                            'POST /servers/{id}/metadata')
METADATA_REPLACE = base.Rule(f'{_METADATA}:update_all', base.MEMBER,
                             'Replace the metadata of a server.', 'PUT /servers/{id}/metadata')
METADATA_UPDATE = base.Rule(f'{_METADATA}:update', base.MEMBER, 'Create or update a metadata item '
                            'of a server.',
                            'PUT /servers/{id}/metadata/{key}')
METADATA_DELETE = base.Rule(f'{_METADATA}:delete', base.MEMBER,
                            'Delete a metadata item of a server.',
                            'DELETE /servers/{id}/metadata/{key}')
_ACTIONS = f'{_PREFIX}:os-instance-actions'
ACTIONS_LIST = base.Rule(f'{_ACTIONS}:list', base.READER, 'List the actions of a server.',
                         'GET /servers/{id}/os-instance-actions')
ACTIONS_SHOW = base.Rule(f'{_ACTIONS}:show', base.READER,
                         'Show an action of a server.',
                         'GET /servers/{id}/os-instance-actions/{request_id}')
ACTIONS_EVENTS = base.Rule(f'{_ACTIONS}:events', base.ADMIN,
                           'Show the events of an action with their hosts. Before microversion '
                           '2.51, show the events at all.',
                           'GET /servers/{id}/os-instance-actions/{request_id}')
ACTIONS_DETAILS = base.Rule(f'{_ACTIONS}:events:details', base.ADMIN,
                            'Show the details of a failed event of an action, which may contain '
                            'information about the deployment.',
                            'GET /servers/{id}/os-instance-actions/{request_id}')
FLAVORS = base.Rule(f'{_PREFIX}:flavors', base.READER, 'List or show flavors.',
                    'GET /flavors', 'GET /flavors/detail', 'GET /flavors/{id}')
EXTERNAL_EVENTS = base.Rule(f'{_PREFIX}:os-server-external-events:create',
                            'role:admin or role:service or service_roles:service',
                            'Send external events for volumes that were extended.',
                            'POST /os-server-external-events')
SERVICES = base.Rule(f'{_PREFIX}:os-services:list', base.ADMIN, 'List compute agents.',
                     'GET /os-services')
