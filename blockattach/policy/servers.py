"""Rules for servers, which the compute API asks for. Names are Nova's."""
from blockattach.policy import base

_PREFIX = 'os_compute_api'

LIST = base.Rule(f'{_PREFIX}:servers:index', base.READER, 'List servers.', 'GET /servers',
                 'GET /servers/detail')
SHOW = base.Rule(f'{_PREFIX}:servers:show', base.READER, 'Show a server.', 'GET /servers/{id}')
CREATE = base.Rule(f'{_PREFIX}:servers:create', base.MEMBER, 'Create servers.', 'POST /servers')
CREATE_ON = base.Rule(f'{_PREFIX}:servers:create:forced_host', base.ADMIN,
                      "Create a server on a host of the caller's choice.", 'POST /servers')
DELETE = base.Rule(f'{_PREFIX}:servers:delete', base.MEMBER, 'Delete a server.',
                   'DELETE /servers/{id}')
ACT = base.Rule(f'{_PREFIX}:servers:act', base.MEMBER,
                'Start, stop, reboot, shelve, unshelve, rebuild and resize a server.',
                'POST /servers/{id}/action')
MIGRATE = base.Rule(f'{_PREFIX}:os-migrate-server:migrate', base.ADMIN,
                    'Move a server to another host.', 'POST /servers/{id}/action (migrate)',
                    'POST /servers/{id}/action (os-migrateLive)')
EVACUATE = base.Rule(f'{_PREFIX}:os-evacuate', base.ADMIN,
                     'Run a server of a dead host elsewhere.',
                     'POST /servers/{id}/action (evacuate)')
SEE_HOST = base.Rule(f'{_PREFIX}:os-extended-server-attributes', base.ADMIN,
                     'See on which host a server is.', 'GET /servers/{id}',
                     'GET /servers/detail')
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
FLAVORS = base.Rule(f'{_PREFIX}:flavors', base.READER, 'List and show flavors.',
                    'GET /flavors', 'GET /flavors/detail', 'GET /flavors/{id}')
EXTERNAL_EVENTS = base.Rule(f'{_PREFIX}:os-server-external-events:create',
                            'role:admin or role:service or service_roles:service',
                            'Say that a volume of servers has become larger.',
                            'POST /os-server-external-events')
SERVICES = base.Rule(f'{_PREFIX}:os-services:list', base.ADMIN, 'List agents.',
                     'GET /os-services')
