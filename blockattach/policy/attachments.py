"""Rules for attachments."""
from blockattach.policy import base

_ONE = '/attachments/{attachment_id}'
_INITIALIZE = 'POST /volumes/{volume_id}/action (os-initialize_connection)'

CREATE = base.Rule('volume:attachment_create', base.MEMBER, 'Create an attachment.',
                   'POST /attachments')
UPDATE = base.Rule('volume:attachment_update', base.MEMBER, 'Give an attachment its connector.',
                   f'PUT {_ONE}')
DELETE = base.Rule('volume:attachment_delete', base.MEMBER, 'Delete an attachment.',
                   f'DELETE {_ONE}')
COMPLETE = base.Rule('volume:attachment_complete', base.MEMBER,
                     'Say that the consumer uses the attachment.',
                     f'POST {_ONE}/action (os-complete)')
MULTIATTACH_BOOTABLE = base.Rule(
    'volume:multiattach_bootable_volume', base.MEMBER, 'Attach a bootable multiattach volume that '
    'is attached already, or is going to be. Cinder asks only once it is in use.',
    'POST /attachments', 'POST /volumes/{volume_id}/action (os-reserve)', _INITIALIZE,
    'POST /volumes/{volume_id}/action (os-attach)')
GET = base.Rule('volume:attachment_get', base.READER, 'Show an attachment. Cinder has no such '
                'rule: there anyone of the project may.', f'GET {_ONE}')
GET_ALL = base.Rule('volume:attachment_get_all', base.READER, 'List attachments. Cinder has no '
                    'such rule: there anyone of the project may.',
                    'GET /attachments', 'GET /attachments/detail')
FORCE_DELETE = base.Rule(
    'blockattach:attachment_force_delete', base.ADMIN, 'Delete an attachment whatever its state '
    'is and whatever its backend answers; with ?force=true, for clients of blockattach 1.0.',
    f'DELETE {_ONE}')
SECRETS = base.Rule(
    'blockattach:attachment_secrets', f'{base.MEMBER} or role:service or service_roles:service',
    'See the credential (auth_username, auth_password) within connection_info. A service counts '
    'by its own token or by one that it adds to that of the user. Others see the attachment '
    'without it.',
    f'GET {_ONE}', 'GET /attachments/detail', 'POST /attachments', f'PUT {_ONE}', _INITIALIZE)
HISTORY = base.Rule(
    'blockattach:attachment_history', base.READER, 'See each move of an attachment: when, by whom '
    'and why. Requires blockattach 1.4, and 1.7 for all attachments of a volume.',
    f'GET {_ONE}/history', 'GET /attachments/history')
EXPLAIN = base.Rule(
    'blockattach:attachment_explain', base.READER, 'See why an attachment is as it is, and what '
    'its target says of it. Its backend is shown to those who may see that of a volume. For '
    'clients of blockattach 1.4.', f'GET {_ONE}/explain')
WATCH = base.Rule(
    'blockattach:attachment_watch', base.READER, 'Watch what happens to attachments, with '
    '?watch=true, for clients of blockattach 1.5; those of other projects with all_tenants, for '
    'administrators.', 'GET /attachments')
CONSUME = base.Rule(
    'blockattach:attachments_over_bus', 'role:service or service_roles:service', 'Ask for '
    'attachments over the message bus (blockattach-control) rather than over HTTP. The rules of '
    'the operations of the API apply there as well. The context of the caller is trusted, as '
    'every client of the bus is.',
    'RPC attachments')
