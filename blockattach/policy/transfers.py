"""Who may do what with transfers of volumes. The names are Cinder's."""
from oslo_policy import policy

from blockattach.policy import base

GET_ALL = 'volume:get_all_transfers'
GET = 'volume:get_transfer'
CREATE = 'volume:create_transfer'
ACCEPT = 'volume:accept_transfer'
DELETE = 'volume:delete_transfer'

PATHS = ('/os-volume-transfer', '/volume-transfers')

RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.READER, 'List transfers.',
        [{'method': 'GET', 'path': f'{path}{end}'} for path in PATHS for end in ('', '/detail')]),
    policy.DocumentedRuleDefault(
        GET, base.READER, 'Show a transfer.',
        [{'method': 'GET', 'path': f'{path}/{{transfer_id}}'} for path in PATHS]),
    policy.DocumentedRuleDefault(
        CREATE, base.MEMBER, 'Offer a volume to another project.',
        [{'method': 'POST', 'path': path} for path in PATHS]),
    policy.DocumentedRuleDefault(
        ACCEPT, base.MEMBER, 'Take a volume that another project offers.',
        [{'method': 'POST', 'path': f'{path}/{{transfer_id}}/accept'} for path in PATHS]),
    policy.DocumentedRuleDefault(
        DELETE, base.MEMBER, 'Take an offer back.',
        [{'method': 'DELETE', 'path': f'{path}/{{transfer_id}}'} for path in PATHS]),
)
