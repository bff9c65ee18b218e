"""Rules for volumes."""
from oslo_policy import policy

from blockattach.policy import base

CREATE = 'volume:create'
GET = 'volume:get'
GET_ALL = 'volume:get_all'
UPDATE = 'volume:update'
DELETE = 'volume:delete'
FORCE_DELETE = 'volume:force_delete'
MULTIATTACH = 'volume:multiattach'
HOST_ATTRIBUTE = 'volume_extension:volume_host_attribute'
TENANT_ATTRIBUTE = 'volume_extension:volume_tenant_attribute'
MIG_STATUS_ATTRIBUTE = 'volume_extension:volume_mig_status_attribute'
ENCRYPTION_METADATA = 'volume_extension:volume_encryption_metadata'
RESERVE = 'volume_extension:volume_actions:reserve'
UNRESERVE = 'volume_extension:volume_actions:unreserve'
BEGIN_DETACHING = 'volume_extension:volume_actions:begin_detaching'
ROLL_DETACHING = 'volume_extension:volume_actions:roll_detaching'
INITIALIZE_CONNECTION = 'volume_extension:volume_actions:initialize_connection'
TERMINATE_CONNECTION = 'volume_extension:volume_actions:terminate_connection'
ATTACH = 'volume_extension:volume_actions:attach'
DETACH = 'volume_extension:volume_actions:detach'
FORCE_DETACH = 'volume_extension:volume_admin_actions:force_detach'
RESET_STATUS = 'volume_extension:volume_admin_actions:reset_status'
UPDATE_READONLY_FLAG = 'volume:update_readonly_flag'

_SHOWN: list[policy.Operation] = [
    {'method': 'GET', 'path': '/volumes/{volume_id}'},
    {'method': 'GET', 'path': '/volumes/detail'},
]

RULES = (
    policy.DocumentedRuleDefault(
        CREATE, base.MEMBER, 'Create a volume.', [{'method': 'POST', 'path': '/volumes'}]),
    policy.DocumentedRuleDefault(
        GET, base.READER, 'Show a volume. For other callers it does not exist.',
        [{'method': 'GET', 'path': '/volumes/{volume_id}'}]),
    policy.DocumentedRuleDefault(
        GET_ALL, base.READER, 'List volumes, or sum them up.',
        [{'method': 'GET', 'path': '/volumes'},
         {'method': 'GET', 'path': '/volumes/detail'},
         {'method': 'GET', 'path': '/volumes/summary'}]),
    policy.DocumentedRuleDefault(
        UPDATE, base.MEMBER, 'Change the name or description of a volume.',
        [{'method': 'PUT', 'path': '/volumes/{volume_id}'},
         {'method': 'POST', 'path': '/volumes/{volume_id}/action (os-set_bootable)'}]),
    policy.DocumentedRuleDefault(
        DELETE, base.MEMBER, 'Delete a volume.',
        [{'method': 'DELETE', 'path': '/volumes/{volume_id}'}]),
    policy.DocumentedRuleDefault(
        FORCE_DELETE, base.ADMIN, 'Delete a volume whatever its status.',
        [{'method': 'DELETE', 'path': '/volumes/{volume_id}'}]),
    policy.DocumentedRuleDefault(
        MULTIATTACH, base.MEMBER, 'Create a volume that several servers can use at once, or '
        'give a volume such a type.',
        [{'method': 'POST', 'path': '/volumes'},
         {'method': 'POST', 'path': '/volumes/{volume_id}/action (os-retype)'}]),
    policy.DocumentedRuleDefault(
        HOST_ATTRIBUTE, base.ADMIN, 'See which pool holds a volume. For others the key is '
        'absent.', _SHOWN),
    policy.DocumentedRuleDefault(
        TENANT_ATTRIBUTE, base.READER, 'See which project a volume belongs to. For others the '
        'key is absent.', _SHOWN),
    policy.DocumentedRuleDefault(
        MIG_STATUS_ATTRIBUTE, base.ADMIN, 'See the migration status of a volume. For others '
        'the keys are absent.', _SHOWN),
    policy.DocumentedRuleDefault(
        ENCRYPTION_METADATA, base.READER, 'Show how a volume is encrypted.',
        [{'method': 'GET', 'path': '/volumes/{volume_id}/encryption'},
         {'method': 'GET', 'path': '/volumes/{volume_id}/encryption/{encryption_key}'}]),
    policy.DocumentedRuleDefault(
        RESERVE, base.MEMBER, 'Reserve a volume for a consumer that is named later.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-reserve)'}]),
    policy.DocumentedRuleDefault(
        UNRESERVE, base.MEMBER, 'Release what os-reserve reserved.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-unreserve)'}]),
    policy.DocumentedRuleDefault(
        BEGIN_DETACHING, base.MEMBER, 'Announce a detach.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-begin_detaching)'}]),
    policy.DocumentedRuleDefault(
        ROLL_DETACHING, base.MEMBER, 'Take the announcement of a detach back.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-roll_detaching)'}]),
    policy.DocumentedRuleDefault(
        INITIALIZE_CONNECTION, base.MEMBER, 'Connect a host without an attachment of its own.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-initialize_connection)'}]),
    policy.DocumentedRuleDefault(
        TERMINATE_CONNECTION, base.MEMBER, 'Disconnect a host without naming an attachment.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-terminate_connection)'}]),
    policy.DocumentedRuleDefault(
        ATTACH, base.MEMBER, 'Say which server or host uses a volume.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-attach)'}]),
    policy.DocumentedRuleDefault(
        DETACH, base.MEMBER, 'End an attachment by an action on its volume.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-detach)'}]),
    policy.DocumentedRuleDefault(
        FORCE_DETACH, base.ADMIN, 'End an attachment whatever its state is.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-force_detach)'}]),
    policy.DocumentedRuleDefault(
        RESET_STATUS, base.ADMIN, 'Say what the status of a volume is.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-reset_status)'}]),
    policy.DocumentedRuleDefault(
        UPDATE_READONLY_FLAG, base.MEMBER,
        'Let attachments of a volume only read, or not. Cinder also asks '
        'volume:update_volume_admin_metadata, but of itself and not of the caller.',
        [{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-update_readonly_flag)'}]),
)
