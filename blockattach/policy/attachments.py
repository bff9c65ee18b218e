"""Rules for attachments."""
from blockattach.policy import base

CREATE = 'volume:attachment_create'
UPDATE = 'volume:attachment_update'
COMPLETE = 'volume:attachment_complete'
DELETE = 'volume:attachment_delete'
GET = 'volume:attachment_get'
GET_ALL = 'volume:attachment_get_all'
MULTIATTACH_BOOTABLE = 'volume:multiattach_bootable_volume'
FORCE_DELETE = 'blockattach:attachment_force_delete'
SECRETS = 'blockattach:attachment_secrets'
CONSUME = 'blockattach:attachments_over_bus'

RULES = (
    base.Rule(CREATE, base.MEMBER, 'Create an attachment.', 'POST /attachments'),
    base.Rule(UPDATE, base.MEMBER, 'Give an attachment its connector.',
              'PUT /attachments/{attachment_id}'),
    base.Rule(DELETE, base.MEMBER, 'Delete an attachment.', 'DELETE /attachments/{attachment_id}'),
    base.Rule(COMPLETE, base.MEMBER, 'Say that the consumer uses the attachment.',
              'POST /attachments/{attachment_id}/action (os-complete)'),
    base.Rule(MULTIATTACH_BOOTABLE, base.MEMBER, 'Attach a bootable multiattach volume that is '
              'attached already, or is going to be. Cinder asks only once it is in use.',
              'POST /attachments', 'POST /volumes/{volume_id}/action (os-reserve)',
              'POST /volumes/{volume_id}/action (os-initialize_connection)',
              'POST /volumes/{volume_id}/action (os-attach)'),
    base.Rule(GET, base.READER, 'Show an attachment. Cinder has no such rule: there anyone of the '
              'project may.',
              'GET /attachments/{attachment_id}'),
    base.Rule(GET_ALL, base.READER, 'List attachments. Cinder has no such rule: there anyone of '
              'the project may.',
              'GET /attachments', 'GET /attachments/detail'),
    base.Rule(FORCE_DELETE, base.ADMIN, 'Delete an attachment whatever its state is and whatever '
              'its backend answers; with ?force=true, for clients of blockattach 1.0.',
              'DELETE /attachments/{attachment_id}'),
    base.Rule(SECRETS, f'{base.MEMBER} or role:service or service_roles:service',
              'See the credential (auth_username, auth_password) within connection_info. A '
              'service counts by its own token or by one that it adds to that of the user. '
              'Others see the attachment without it.',
              'GET /attachments/{attachment_id}', 'GET /attachments/detail', 'POST /attachments',
              'PUT /attachments/{attachment_id}',
              'POST /volumes/{volume_id}/action (os-initialize_connection)'),
    base.Rule(CONSUME, 'role:service or service_roles:service', 'Ask for attachments over the '
              'message bus (blockattach-control) rather than over HTTP. The rules of the '
              'operations of the API apply there as well. The context of the caller is trusted, '
              'as every client of the bus is.',
              'RPC attachments'),
)
