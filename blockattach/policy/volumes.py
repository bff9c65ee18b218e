"""Rules for volumes."""
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

_SHOWN = ('GET /volumes/{volume_id}', 'GET /volumes/detail')

RULES = (
    base.Rule(CREATE, base.MEMBER, 'Create a volume.', 'POST /volumes'),
    base.Rule(GET, base.READER, 'Show a volume. For other callers it does not exist.',
              'GET /volumes/{volume_id}'),
    base.Rule(GET_ALL, base.READER, 'List volumes, or sum them up.',
              'GET /volumes', 'GET /volumes/detail', 'GET /volumes/summary'),
    base.Rule(UPDATE, base.MEMBER, 'Change the name or description of a volume.',
              'PUT /volumes/{volume_id}', 'POST /volumes/{volume_id}/action (os-set_bootable)'),
    base.Rule(DELETE, base.MEMBER, 'Delete a volume.', 'DELETE /volumes/{volume_id}'),
    base.Rule(FORCE_DELETE, base.ADMIN, 'Delete a volume whatever its status.',
              'DELETE /volumes/{volume_id}'),
    base.Rule(MULTIATTACH, base.MEMBER, 'Create a volume that several servers can use at once, or '
              'give a volume such a type.',
              'POST /volumes', 'POST /volumes/{volume_id}/action (os-retype)'),
    base.Rule(HOST_ATTRIBUTE, base.ADMIN, 'See which pool holds a volume. For others the key is '
              'absent.', *_SHOWN),
    base.Rule(TENANT_ATTRIBUTE, base.READER, 'See which project a volume belongs to. For others '
              'the key is absent.', *_SHOWN),
    base.Rule(MIG_STATUS_ATTRIBUTE, base.ADMIN, 'See the migration status of a volume. For others '
              'the keys are absent.', *_SHOWN),
    base.Rule(ENCRYPTION_METADATA, base.READER, 'Show how a volume is encrypted.',
              'GET /volumes/{volume_id}/encryption',
              'GET /volumes/{volume_id}/encryption/{encryption_key}'),
    base.Rule(RESERVE, base.MEMBER, 'Reserve a volume for a consumer that is named later.',
              'POST /volumes/{volume_id}/action (os-reserve)'),
    base.Rule(UNRESERVE, base.MEMBER, 'Release what os-reserve reserved.',
              'POST /volumes/{volume_id}/action (os-unreserve)'),
    base.Rule(BEGIN_DETACHING, base.MEMBER, 'Announce a detach.',
              'POST /volumes/{volume_id}/action (os-begin_detaching)'),
    base.Rule(ROLL_DETACHING, base.MEMBER, 'Take the announcement of a detach back.',
              'POST /volumes/{volume_id}/action (os-roll_detaching)'),
    base.Rule(INITIALIZE_CONNECTION, base.MEMBER, 'Connect a host without an attachment of its '
              'own.',
              'POST /volumes/{volume_id}/action (os-initialize_connection)'),
    base.Rule(TERMINATE_CONNECTION, base.MEMBER, 'Disconnect a host without naming an attachment.',
              'POST /volumes/{volume_id}/action (os-terminate_connection)'),
    base.Rule(ATTACH, base.MEMBER, 'Say which server or host uses a volume.',
              'POST /volumes/{volume_id}/action (os-attach)'),
    base.Rule(DETACH, base.MEMBER, 'End an attachment by an action on its volume.',
              'POST /volumes/{volume_id}/action (os-detach)'),
    base.Rule(FORCE_DETACH, base.ADMIN, 'End an attachment whatever its state is.',
              'POST /volumes/{volume_id}/action (os-force_detach)'),
    base.Rule(RESET_STATUS, base.ADMIN, 'Say what the status of a volume is.',
              'POST /volumes/{volume_id}/action (os-reset_status)'),
    base.Rule(UPDATE_READONLY_FLAG, base.MEMBER, 'Let attachments of a volume only read, or not. '
              'Cinder also asks volume:update_volume_admin_metadata, but of itself and not of '
              'the caller.',
              'POST /volumes/{volume_id}/action (os-update_readonly_flag)'),
)
