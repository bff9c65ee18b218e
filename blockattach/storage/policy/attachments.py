"""Policy rules of attachments."""
from blockattach.platform.policy import base

_ONE = '/attachments/{attachment_id}'
_INITIALIZE = 'POST /volumes/{volume_id}/action (os-initialize_connection)'

CREATE = base.Rule('volume:attachment_create', base.MEMBER, 'Create an attachment.',
                   'POST /attachments')
UPDATE = base.Rule('volume:attachment_update', base.MEMBER, 'Update an attachment with a '
                   'connector.',
                   f'PUT {_ONE}')
DELETE = base.Rule('volume:attachment_delete', base.MEMBER, 'Delete an attachment.',
                   f'DELETE {_ONE}')
COMPLETE = base.Rule('volume:attachment_complete', base.MEMBER,
                     'Complete an attachment.',
                     f'POST {_ONE}/action (os-complete)')
MULTIATTACH_BOOTABLE = base.Rule(
    'volume:multiattach_bootable_volume', base.MEMBER, 'Attach a bootable multiattach volume that '
    'already has an attachment or is reserved. Cinder checks the rule only for volumes in use.',
    'POST /attachments', 'POST /volumes/{volume_id}/action (os-reserve)', _INITIALIZE,
    'POST /volumes/{volume_id}/action (os-attach)')
GET = base.Rule('volume:attachment_get', base.READER, 'Show an attachment. Cinder has no such '
                'rule: any user of the project can show the attachment there.', f'GET {_ONE}')
GET_ALL = base.Rule('volume:attachment_get_all', base.READER, 'List attachments. Cinder has no '
                    'such rule: any user of the project can list attachments there.',
                    'GET /attachments', 'GET /attachments/detail')
FORCE_DELETE = base.Rule(
    'blockattach:attachment_force_delete', base.ADMIN, 'Delete an attachment regardless of its '
    'status and of errors of its backend (?force=true). Requires blockattach 1.0.',
    f'DELETE {_ONE}')
# Cinder shows the CHAP password to every user of the project.
SECRETS = base.Rule(
    'blockattach:attachment_secrets', f'{base.MEMBER} or role:service or service_roles:service',
    'Show the credential (auth_username, auth_password) in connection_info. A service is '
    'identified by its own token or by a service token that accompanies the token of the user. '
    'For other callers the credential is omitted.',
    f'GET {_ONE}', 'GET /attachments/detail', 'POST /attachments', f'PUT {_ONE}', _INITIALIZE)
HISTORY = base.Rule(
    'blockattach:attachment_history', base.READER, 'List the state changes of an attachment with '
    'time, user, and reason. Requires blockattach 1.4, or 1.7 for all attachments of a volume.',
    f'GET {_ONE}/history', 'GET /attachments/history')
EXPLAIN = base.Rule(
    'blockattach:attachment_explain', base.READER, 'Show why an attachment is in its status, and '
    'its state at the target. The backend is included only for callers that can see the backend '
    'of a volume. Requires blockattach 1.4.', f'GET {_ONE}/explain')
WATCH = base.Rule(
    'blockattach:attachment_watch', base.READER, 'Watch the events of attachments (?watch=true). '
    'Administrators can watch other projects with all_tenants. Requires blockattach 1.5.',
    'GET /attachments')
CONSUME = base.Rule(
    'blockattach:attachments_over_bus', 'role:service or service_roles:service', 'Manage '
    'attachments over the message bus (blockattach-control) instead of over HTTP. The rules of '
    'the corresponding API operations apply as well. The context of the caller is trusted, as for '
    'any client of the message bus.',
    'RPC attachments')
