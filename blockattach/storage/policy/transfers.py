"""Policy rules of volume transfers, with the names of Cinder's rules."""
from blockattach.platform.policy import base

PATHS = ('/os-volume-transfer', '/volume-transfers')

GET_ALL = base.Rule('volume:get_all_transfers', base.READER, 'List volume transfers.',
                    *(f'GET {path}{end}' for path in PATHS for end in ('', '/detail')))
GET = base.Rule('volume:get_transfer', base.READER, 'Show a volume transfer.',
                *(f'GET {path}/{{transfer_id}}' for path in PATHS))
CREATE = base.Rule('volume:create_transfer', base.MEMBER, 'Create a volume transfer.',
                   *(f'POST {path}' for path in PATHS))
ACCEPT = base.Rule('volume:accept_transfer', base.MEMBER,
                   'Accept a volume transfer.',
                   *(f'POST {path}/{{transfer_id}}/accept' for path in PATHS))
DELETE = base.Rule('volume:delete_transfer', base.MEMBER, 'Delete a volume transfer.',
                   *(f'DELETE {path}/{{transfer_id}}' for path in PATHS))
