"""Rules for attachments."""
from oslo_policy import policy

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
    policy.DocumentedRuleDefault(
        CREATE, base.MEMBER, 'Create an attachment.',
        [{'method': 'POST', 'path': '/attachments'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.MEMBER, 'Give an attachment its connector.',
        [{'method': 'PUT', 'path': '/attachments/{attachment_id}'}]),
    policy.DocumentedRuleDefault(
        DELETE, base.MEMBER, 'Delete an attachment.',
        [{'method': 'DELETE', 'path': '/attachments/{attachment_id}'}]),
    policy.DocumentedRuleDefault(
        COMPLETE, base.MEMBER, 'Say that the consumer uses the attachment.',
        [{'method': 'POST', 'path': '/attachments/{attachment_id}/action (os-complete)'}]),
    policy.DocumentedRuleDefault(
        MULTIATTACH_BOOTABLE, base.MEMBER,
        'Attach a bootable multiattach volume that is attached already, or is going to be. Cinder '
        'asks only once it is in use.',
        [{'method': 'POST', 'path': '/attachments'},
         {'method': 'POST', 'path': '/volumes/{volume_id}/action (os-reserve)'},
         {'method': 'POST', 'path': '/volumes/{volume_id}/action (os-initialize_connection)'},
         {'method': 'POST', 'path': '/volumes/{volume_id}/action (os-attach)'}]),
    policy.DocumentedRuleDefault(
        GET, base.READER, 'Show an attachment. Cinder has no such rule: there anyone of the '
        'project may.',
        [{'method': 'GET', 'path': '/attachments/{attachment_id}'}]),
    policy.DocumentedRuleDefault(
        GET_ALL, base.READER, 'List attachments. Cinder has no such rule: there anyone of the '
        'project may.',
        [{'method': 'GET', 'path': '/attachments'},
         {'method': 'GET', 'path': '/attachments/detail'}]),
    policy.DocumentedRuleDefault(
        FORCE_DELETE, base.ADMIN,
        'Delete an attachment whatever its state is and whatever its backend answers; with '
        '?force=true, for clients of blockattach 1.0.',
        [{'method': 'DELETE', 'path': '/attachments/{attachment_id}'}]),
    policy.DocumentedRuleDefault(
        SECRETS,
        f'{base.MEMBER} or role:service or service_roles:service',
        'See the credential (auth_username, auth_password) within connection_info. A service '
        'counts by its own token or by one that it adds to that of the user. Others see the '
        'attachment without it.',
        [{'method': 'GET', 'path': '/attachments/{attachment_id}'},
         {'method': 'GET', 'path': '/attachments/detail'},
         {'method': 'POST', 'path': '/attachments'},
         {'method': 'PUT', 'path': '/attachments/{attachment_id}'},
         {'method': 'POST', 'path': '/volumes/{volume_id}/action (os-initialize_connection)'}]),
    policy.DocumentedRuleDefault(
        CONSUME, 'role:service or service_roles:service',
        'Ask for attachments over the message bus (blockattach-control) rather than over HTTP. '
        'The rules of the operations of the API apply there as well. The context of the caller '
        'is trusted, as every client of the bus is.',
        [{'method': 'RPC', 'path': 'attachments'}]),
)
