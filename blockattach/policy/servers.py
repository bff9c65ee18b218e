"""Rules for servers, which the compute API asks for. Names are Nova's."""
from blockattach.policy import base

_PREFIX = 'os_compute_api'

LIST = base.Rule(f'{_PREFIX}:servers:index', base.READER, 'List servers.', 'GET /servers',
                 'GET /servers/detail')
SHOW = base.Rule(f'{_PREFIX}:servers:show', base.READER, 'Show a server.', 'GET /servers/{id}')
CREATE = base.Rule(f'{_PREFIX}:servers:create', base.MEMBER, 'Create servers.', 'POST /servers')
CREATE_ON = base.Rule(f'{_PREFIX}:servers:create:forced_host', base.ADMIN,
                      "Create a server on a host of the caller's choice.", 'POST /servers')
UPDATE = base.Rule(f'{_PREFIX}:servers:update', base.MEMBER,
                   'Give a server another name or description.', 'PUT /servers/{id}')
DELETE = base.Rule(f'{_PREFIX}:servers:delete', base.MEMBER, 'Delete a server.',
                   'DELETE /servers/{id}')
ACT = base.Rule(f'{_PREFIX}:servers:act', base.MEMBER,
                'Start, stop, reboot, shelve, unshelve, rebuild and resize a server.',
                'POST /servers/{id}/action')
MIGRATE = base.Rule(f'{_PREFIX}:os-migrate-server:migrate', base.ADMIN,
                    'Move a server to another host.', 'POST /servers/{id}/action (migrate)',
                    'POST /servers/{id}/action (os-migrateLive)')
UNSHELVE_TO = base.Rule(f'{_PREFIX}:os-shelve:unshelve_to_host', base.ADMIN,
                        "Run a shelved server on a host of the caller's choice.",
                        'POST /servers/{id}/action (unshelve)')
EVACUATE = base.Rule(f'{_PREFIX}:os-evacuate', base.ADMIN,
                     'Run a server of a dead host elsewhere.',
                     'POST /servers/{id}/action (evacuate)')
SEE_HOST = base.Rule(f'{_PREFIX}:os-extended-server-attributes', base.ADMIN,
                     'See on which host a server is, and hosts in the reasons of failures.',
                     'GET /servers/{id}', 'GET /servers/detail')
VOLUMES_SHOW = base.Rule(f'{_PREFIX}:os-volumes-attachments:index', base.READER,
                         'List and show the volumes of a server.',
                         'GET /servers/{id}/os-volume_attachments',
                         'GET /servers/{id}/os-volume_attachments/{volume_id}')
VOLUMES_CREATE = base.Rule(f'{_PREFIX}:os-volumes-attachments:create', base.MEMBER,
                           'Give a server a volume.',
                           'POST /servers/{id}/os-volume_attachments')
VOLUMES_UPDATE = base.Rule(f'{_PREFIX}:os-volumes-attachments:update', base.MEMBER,
                           'Change a volume of a server.',
                           'PUT /servers/{id}/os-volume_attachments/{volume_id}')
VOLUMES_SWAP = base.Rule(f'{_PREFIX}:os-volumes-attachments:swap', base.ADMIN,
                         'Let another volume take the place of one.',
                         'PUT /servers/{id}/os-volume_attachments/{volume_id}')
VOLUMES_DELETE = base.Rule(f'{_PREFIX}:os-volumes-attachments:delete', base.MEMBER,
                           'Take a volume from a server.',
                           'DELETE /servers/{id}/os-volume_attachments/{volume_id}')
_METADATA = f'{_PREFIX}:server-metadata'
METADATA_LIST = base.Rule(f'{_METADATA}:index', base.READER, 'List the metadata of a server.',
                          'GET /servers/{id}/metadata')
METADATA_SHOW = base.Rule(f'{_METADATA}:show', base.READER, 'Show an item of metadata.',
                          'GET /servers/{id}/metadata/{key}')
METADATA_CREATE = base.Rule(f'{_METADATA}:create', base.MEMBER, 'Add metadata to a server.',
                            'POST /servers/{id}/metadata')
METADATA_REPLACE = base.Rule(f'{_METADATA}:update_all', base.MEMBER,
                             'Replace the metadata of a server.', 'PUT /servers/{id}/metadata')
METADATA_UPDATE = base.Rule(f'{_METADATA}:update', base.MEMBER, 'Write an item of metadata.',
                            'PUT /servers/{id}/metadata/{key}')
METADATA_DELETE = base.Rule(f'{_METADATA}:delete', base.MEMBER,
                            'Take an item from the metadata of a server.',
                            'DELETE /servers/{id}/metadata/{key}')
_ACTIONS = f'{_PREFIX}:os-instance-actions'
ACTIONS_LIST = base.Rule(f'{_ACTIONS}:list', base.READER, 'List what was done with a server.',
                         'GET /servers/{id}/os-instance-actions')
ACTIONS_SHOW = base.Rule(f'{_ACTIONS}:show', base.READER,
                         'Show what a request has done with a server.',
                         'GET /servers/{id}/os-instance-actions/{request_id}')
ACTIONS_EVENTS = base.Rule(f'{_ACTIONS}:events', base.ADMIN,
                           'See the events of an action with their hosts, and before 2.51 at all.',
                           'GET /servers/{id}/os-instance-actions/{request_id}')
ACTIONS_DETAILS = base.Rule(f'{_ACTIONS}:events:details', base.ADMIN,
                            'See why an event of an action failed, which may say something about '
                            'the deployment.',
                            'GET /servers/{id}/os-instance-actions/{request_id}')
FLAVORS = base.Rule(f'{_PREFIX}:flavors', base.READER, 'List and show flavors.',
                    'GET /flavors', 'GET /flavors/detail', 'GET /flavors/{id}')
EXTERNAL_EVENTS = base.Rule(f'{_PREFIX}:os-server-external-events:create',
                            'role:admin or role:service or service_roles:service',
                            'Say that a volume of servers has become larger.',
                            'POST /os-server-external-events')
SERVICES = base.Rule(f'{_PREFIX}:os-services:list', base.ADMIN, 'List agents.',
                     'GET /os-services')
